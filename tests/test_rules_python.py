"""PYS rules: what the constructors of Accelerate take and refuse, release by release, and what scripts do with plugins.

tests/cases/plugin_calls.txt.gz has what the real classes say (`a`ccepted, `r`ejected, - not asked) of each call in four
releases; tests/oracle/test_plugin_calls.py asks them again.
"""

import gzip
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp_server.app import server
from tests.mcp_calls import call

from distributed_training_backends import api
from distributed_training_backends.model import Context, Finding

TABLE = gzip.decompress((Path(__file__).parent / "cases" / "plugin_calls.txt.gz").read_bytes()).decode().splitlines()
RELEASES = TABLE[0].split()
HEAD = """import torch
from accelerate import *
from accelerate.utils import *
from accelerate.local_sgd import LocalSGD
"""
PYTHON = "from accelerate import *\nfrom accelerate.utils import *\nfrom transformers import TrainingArguments\n"


def findings(code: str, files: dict[str, str] | None = None, **changes: Any) -> list[Finding]:
	targets = api.default_targets()._replace(
		**{k: v for k, v in changes.items() if k in ("accelerate", "transformers")}
	)
	context = Context(launched=changes.get("launched", False), num_processes=changes.get("processes"))
	options = api.Options(targets=targets, context=context)
	texts = {"train.py": code, **(files or {})}
	sources = [one for path, text in texts.items() for one in api.parsed(api.from_text(path, text), None)]
	return [found for file in api.judged(sources, options, lambda _: None).files for found in file.findings]


def codes(found: list[Finding], severity: str = "") -> list[str]:
	return [one.code for one in found if not severity or one.severity.value == severity]


@pytest.mark.parametrize("release", RELEASES)
def test_calls_are_taken_and_refused_as_by_the_real_classes(release: str) -> None:
	place, wrong = RELEASES.index(release), []
	for line in TABLE[1:]:
		verdict, call = line[place], line.partition(" ")[2]
		found = findings(f"{HEAD}{call}\n", accelerate=release, launched=True, processes=8)
		ours = "r" if any(code.startswith("PYS") for code in codes(found, "error")) else "a"
		wrong += [f"{verdict} {call}"] if verdict not in (ours, "-") else []
	assert wrong == []


ALONE = "Accelerator(fsdp_plugin=FullyShardedDataParallelPlugin(forward_prefetch=True))"
ZERO = '{"zero_optimization": {"stage": %s}, "train_micro_batch_size_per_gpu": "auto"}'
BASE = "num_processes: 8\n"
FSDP2 = f"distributed_type: FSDP\n{BASE}fsdp_config:\n  fsdp_version: 2\n"
FSDP1 = f"distributed_type: FSDP\n{BASE}fsdp_config:\n  fsdp_version: 1\n"
FSDP = f"distributed_type: FSDP\n{BASE}fsdp_config:\n"
DEEPSPEED = f"distributed_type: DEEPSPEED\n{BASE}mixed_precision: bf16\ndeepspeed_config:\n  zero_stage: 2\n"
EIGHT = f"{DEEPSPEED}  gradient_accumulation_steps: 8\n"
DDP = f"distributed_type: MULTI_GPU\n{BASE}mixed_precision: bf16\n"
COMPILED = f"{DDP}dynamo_config:\n  dynamo_backend: EAGER\n"
AGAIN = f"{FSDP2}  fsdp_activation_checkpointing: true\n"
AUTO = '{"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}, "train_batch_size": "auto"}'
OFFLOAD = "FullyShardedDataParallelPlugin(activation_checkpointing=True, activation_checkpointing_offload=True)"
SAVING = "a = Accelerator()\nif a.is_main_process:\n    a.save_state('x')\n"
HOOK = "h = DistributedDataParallelKwargs(find_unused_parameters=True)\nAccelerator(kwargs_handlers=[h])"
LOCAL = "from accelerate.local_sgd import LocalSGD\nLocalSGD(Accelerator(), model, 8)"
SIZES = "Accelerator(parallelism_config=ParallelismConfig(dp_shard_size=4))"
TWO = "from transformers import AutoModel\nm = AutoModel.from_pretrained('a')\nn = AutoModel.from_pretrained('b')\n"
MODEL = f"{TWO}o = torch.optim.AdamW(m.parameters())\na = Accelerator()\n"

# what the launcher sets decides, as tests/oracle/test_plugin_calls.py asks of the library for some of them
BESIDE = [
	(OFFLOAD, FSDP1, "PYS012", "error"),
	(OFFLOAD, FSDP2, "", ""),
	(ALONE, FSDP2, "PYS012", "error"),
	(ALONE, FSDP1, "", ""),
	(ALONE, DEEPSPEED, "XCF032", "warning"),
	(SAVING, None, "PYS030", "info"),
	(SAVING, DDP, "", ""),
	(SAVING, FSDP2, "PYS030", "warning"),
	(SAVING, DEEPSPEED, "PYS030", "warning"),
	(HOOK, DDP, "", ""),
	(HOOK, None, "", ""),
	(HOOK, DEEPSPEED, "PYS032", "warning"),
	(LOCAL, FSDP2, "PYS031", "error"),
	(LOCAL, DDP, "", ""),
	(SIZES, DDP, "XCF033", "error"),
	(SIZES.replace("4", "8"), FSDP2, "", ""),
	("Accelerator(gradient_accumulation_steps=4)", DDP, "", ""),
	("Accelerator(gradient_accumulation_steps=4)", EIGHT, "XCF030", "warning"),
	("Accelerator(gradient_accumulation_steps=args.steps)", EIGHT, "", ""),
	("Accelerator(mixed_precision='fp16')", DDP, "XCF031", "warning"),
	("Accelerator(mixed_precision='bf16')", DDP, "", ""),
	("Accelerator(mixed_precision=PrecisionType.BF16)", DDP, "", ""),
	("TrainingArguments('o', bf16=True, deepspeed='ds.json')", DDP, "", ""),
	("TrainingArguments('o', bf16=True, deepspeed='ds.json')", f"{DDP}\f{AUTO}", "", ""),
	("TrainingArguments('o', fp16=True, deepspeed='ds.json')", f"{DDP}\f{AUTO}", "XCF034", "warning"),
	("TrainingArguments('o', torch_compile=True)", COMPILED, "XCF034", "warning"),
	("TrainingArguments('o', fsdp=True)", f"{FSDP}  fsdp_sharding_strategy: SHARD_GRAD_OP\n", "XCF034", "warning"),
	("TrainingArguments('o', fsdp=True)", f"{FSDP}  fsdp_sharding_strategy: 1\n", "", ""),
	("TrainingArguments(gradient_checkpointing=True)", AGAIN, "XCF035", "error"),
	("DeepSpeedPlugin(zero_stage=3)", DEEPSPEED, "XCF031", "warning"),
	("DeepSpeedPlugin(zero_stage=2)", DEEPSPEED, "", ""),
	("FullyShardedDataParallelPlugin(sharding_strategy=1)", f"{FSDP1}  fsdp_sharding_strategy: FULL_SHARD\n", "", ""),
	("Accelerator(deepspeed_plugin=DeepSpeedPlugin(zero_stage=3))", FSDP2, "XCF032", "warning"),
	("Accelerator(fsdp_plugin=FullyShardedDataParallelPlugin())", "distributed_type: 'NO'\n", "XCF032", "warning"),
	(f"{MODEL}a.prepare(m, n)", DEEPSPEED, "PYS033", "error"),
	(f"{MODEL}a.prepare(m, o)", DEEPSPEED, "", ""),
	(f"{MODEL}a.prepare(m)", FSDP2, "PYS033", "error"),
	(f"{MODEL}a.prepare(m, o)", FSDP2, "", ""),
	(f"{MODEL}a.prepare(m, other)", FSDP2, "", ""),
]


@pytest.mark.parametrize(("code", "config", "expected", "severity"), BESIDE)
def test_what_is_given_beside_a_script_counts(code: str, config: str | None, expected: str, severity: str) -> None:
	files = dict(zip(("config.yaml", "ds.json"), config.split("\f"), strict=False)) if config else {}
	found = [one for one in findings(f"{PYTHON}import torch\n{code}\n", files) if one.code[:3] in ("PYS", "XCF")]
	assert [(one.code, one.severity.value) for one in found] == ([(expected, severity)] if expected else [])
	if expected.startswith("XCF"):
		assert all(place.path == "config.yaml" for one in found for place in one.related)
		assert all(one.related for one in found)


SCRIPTS = [
	# what the script leaves open is not judged
	("Accelerator(**kwargs)", []),
	("Accelerator(mixed_precision=args.precision, kwargs_handlers=handlers, log_with=args.log)", []),
	("LocalSGD = 1\nLocalSGD(1)", []),
	("Accelerator(log_with='tensorboard', **kwargs)", []),
	("Accelerator(\n    fp16=True,  # dtb: ignore[PYS001]\n)", []),
	# a script that asks first is taken at its word
	("try:\n    Accelerator(fp16=True)\nexcept TypeError:\n    Accelerator()", []),
	("if version > old:\n    Accelerator(dispatch_batches=None)", []),
	("with pytest.raises(ValueError):\n    Accelerator(mixed_precision='x')", []),
	("if a:\n    DistributedType.TPU", []),
	# arguments of the Trainer, as in a file
	("TrainingArguments('out', fp16=True, bf16=True)", ["TRN032"]),
	("TrainingArguments('out', fp16=args.fp16, bf16=True)", []),
	("TrainingArguments('out', fp16=True, bf16=True, **more)", ["TRN032"]),
	("TrainingArguments('out', evaluation_strategy='no')", ["TRN010"]),
	("TrainingArguments('out', learnig_rate=1)", ["PYS001"]),
	("TrainingArguments('out', save_strategy='never')", ["TRN020"]),
	("TrainingArguments('out', save_strategy=args.save, load_best_model_at_end=True)", []),
	("TrainingArguments('out', load_best_model_at_end=True)", ["TRN031"]),
	("class Mine(TrainingArguments): pass\nMine('out', load_best_model_at_end=True, my_own=1)", []),
	("TrainingArguments('out', fsdp='full_shard', fsdp_config={'state_dict_type': 'LOCAL_STATE_DICT'})", ["TRN041"]),
	("TrainingArguments('out', deepspeed={'zero_optimization': {'stage': 7}, 'train_batch_size': x})", ["DSP010"]),
	("TrainingArguments('o', fsdp=True, fsdp_config='{\"state_dict_type\": \"LOCAL_STATE_DICT\"}')", ["TRN041"]),
	(f"text = '{ZERO % 7}'\nTrainingArguments('o', deepspeed=text)", ["DSP010"]),
	("DeepSpeedPlugin({'zero_optimization': {'stage': 7, 'foo': x}})", ["DSP010"]),
	("DeepSpeedPlugin({'zero_optimization': {'stage': 2}, **more})", []),
]


@pytest.mark.parametrize(("code", "expected"), SCRIPTS)
def test_scripts(code: str, expected: list[str]) -> None:
	assert codes(findings(f"{PYTHON}{code}\n"), "error") == expected


def test_a_renamed_argument_is_mended_where_the_name_stands() -> None:
	code = f"{PYTHON}Accelerator(**{{'cpu': True}}, gradient_accumulation_step=2)\n"
	(found,) = findings(code)
	assert found.fix is not None
	(edit,) = found.fix.edits
	mended = code[: edit.start] + edit.text + code[edit.end :]
	assert mended.endswith("gradient_accumulation_steps=2)\n")
	assert findings(mended) == []


@pytest.mark.anyio
async def test_the_mcp_tool_takes_a_script_beside_the_config() -> None:
	async with Client(server()) as client:
		given = {"config": DDP, "python": f"{PYTHON}Accelerator(mixed_precision='fp16', fp16=True)\n"}
		found = (await call(client, "validate_config", given))["findings"]
	assert [(one["code"], one["file"]) for one in found] == [("PYS001", "python"), ("XCF031", "python")]


def test_every_call_of_one_script_is_judged() -> None:
	code = f"{PYTHON}Accelerator(fp16=True)\nAccelerator(fp16=True)\n"
	assert [one.place.line for one in findings(code)] == [4, 5]


@pytest.mark.parametrize(("given", "expected"), [("zero_stage=5", ["PYS021"]), ("'ds.json', 4, 1.0, 5", [])])
def test_a_stage_counts_where_no_file_has_one(given: str, expected: list[str]) -> None:
	assert codes(findings(f"{PYTHON}Accelerator(deepspeed_plugin=DeepSpeedPlugin({given}))\n"), "warning") == expected
