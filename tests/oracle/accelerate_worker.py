"""The oracle's Accelerate worker: what does this release of Accelerate do with a config file?

A case is {"mode": "launch", "files": {name: text}, "config": name, "flags": [...], "gpus": n}, with "environment" and
"python" ({class: arguments}) where the run has them, or
{"mode": "quantization", "reader": "accelerate" | "transformers", "fields": {...}}; the answer has verdict (accepted,
rejected, undecided, failed), stage, error, warnings, facts (what was launched and built) and faked.
"""

import importlib
import json
import re
import sys
import tempfile
from typing import Any

from tests.oracle.worker import Answer, Case, forked, lay_out, listening, plain, refusal, serve

# Errors that come from pairing an old Accelerate with today's torch, Transformers and DeepSpeed, or from a stand-in.
NOT_THE_CONFIG = re.compile(
	"|".join(
		(
			r"accelerate>=\S+ is required for a normal functioning",
			r"No module named '(transformers\.deepspeed|torch_xla|msamp\.)",
			r"decoupled_weight_decay",
			r"unexpected keyword argument 'ignored_parameters'",
			r"cannot import name '\w+' from '(transformers|torch|deepspeed)",
			r"module 'msamp' has no attribute",
			r"not linked with support for cuda",
			r"requires the cpu_adam op",
			r"'nullcontext' object is not callable",
		)
	)
)
LAUNCHERS_OF_OTHERS = ("sagemaker_launcher", "tpu_launcher", "tpu_pod_launcher")


def preload() -> Answer:
	import accelerate
	import torch

	for name in ("torch.distributed.fsdp", "deepspeed.launcher.runner", "deepspeed.runtime.config", "transformers"):
		importlib.import_module(name)
	notes = _reconcile_transformers()
	for name in ("tests.oracle.launching", "tests.oracle.building"):
		importlib.import_module(name)
	return {"accelerate": accelerate.__version__, "torch": torch.__version__, "faked": notes}


def _reconcile_transformers() -> list[str]:
	"""Keep today's Transformers from refusing an old Accelerate, which would answer in the place of the config."""
	try:
		integration: Any = importlib.import_module("transformers.integrations.deepspeed")
	except Exception:
		return []
	integration.dep_version_check = lambda *_, **__: None
	sys.modules.setdefault("transformers.deepspeed", integration)
	if integration.HfDeepSpeedConfig.__mro__[1] is object:  # it has given up the base class that Accelerate offers
		from accelerate.utils.deepspeed import HfDeepSpeedConfig as Base

		class HfDeepSpeedConfig(Base):  # type: ignore[misc]
			"""Transformers' own class, on the base that this release has."""

		integration.HfDeepSpeedConfig = HfDeepSpeedConfig
		integrations: Any = importlib.import_module("transformers.integrations")
		integrations.HfDeepSpeedConfig = HfDeepSpeedConfig
	return ["Transformers does not check Accelerate's version"]


def launch_and_build(case: Case) -> Answer:
	with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
		case["folder"] = folder
		lay_out(case, folder)
		answer = json.dumps(_launch_and_build(case))
	result: Answer = json.loads(answer.replace(folder, "FOLDER"))  # the same answer in every run
	return result


def _launch_and_build(case: Case) -> Answer:
	from tests.oracle import building, launching

	answer = forked(launching.run, case)
	if answer["verdict"] != "accepted" or answer["facts"]["route"] in LAUNCHERS_OF_OTHERS:
		return answer
	built = forked(building.run, {**case, "launched": answer["facts"]})
	built["warnings"] = answer["warnings"] + built.get("warnings", [])
	built["faked"] = sorted({*answer["faked"], *built.get("faked", [])})
	built["facts"] = {"launch": answer["facts"], **built.get("facts", {})}
	return built


def quantize(case: Case) -> Answer:
	"""bitsandbytes settings, as Accelerate's dataclass or the one of Transformers takes them."""
	answer: Answer = {"stage": "dataclass", "verdict": "accepted", "faked": []}
	with listening("transformers") as heard:
		try:
			config = _quantization_class(case["reader"])(**case["fields"])
			answer["facts"] = {"fields": {name: plain(value) for name, value in vars(config).items()}}
		except Exception as error:
			answer |= {"verdict": "rejected", "error": refusal(error)}
	return {"warnings": heard, **answer}


def _quantization_class(reader: str) -> Any:
	if reader == "transformers":
		return importlib.import_module("transformers").BitsAndBytesConfig
	return importlib.import_module("accelerate.utils.dataclasses").BnbQuantizationConfig


def answer(case: Case) -> Answer:
	result = launch_and_build(case) if case["mode"] == "launch" else forked(quantize, case)
	error = result.get("error") or {}
	if result["verdict"] == "rejected" and NOT_THE_CONFIG.search(error.get("message", "")):
		result["verdict"] = "undecided"
	return result


if __name__ == "__main__":
	serve(preload, answer)
