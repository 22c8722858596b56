"""`accelerate launch`, up to the step that would start processes. Runs inside the oracle's Accelerate worker."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import accelerate.commands.accelerate_cli as accelerate_cli
import accelerate.commands.launch as launch
import torch.distributed.run
from tests.oracle import fakes
from tests.oracle.worker import Answer, Case, InterceptedError, bare_environment, enter, listening, plain, refusal
from torch.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

LAUNCHERS = (
	"deepspeed_launcher",
	"multi_gpu_launcher",
	"tpu_launcher",
	"tpu_pod_launcher",
	"sagemaker_launcher",
	"simple_launcher",
)
RENDEZVOUS = (
	"min_nodes",
	"max_nodes",
	"nproc_per_node",
	"rdzv_backend",
	"rdzv_endpoint",
	"rdzv_configs",
	"max_restarts",
	"monitor_interval",
	"role",
	"start_method",
)
DEEPSPEED_LAUNCHERS = ("pdsh", "openmpi", "mpich", "impi", "slurm", "mvapich")
SCRIPT = "train.py"


@dataclass
class Recorder:
	"""What was seen on the way: how far the launcher came and what it would have started."""

	stage: str = "command line"
	route: str = ""
	arguments: Mapping[str, Any] = field(default_factory=dict)
	command: list[str] | None = None
	environment: Mapping[str, str] = field(default_factory=dict)
	elastic: Any = None
	sagemaker: Any = None


def run(case: Case) -> Answer:
	folder = case["folder"]
	enter(folder, {**bare_environment(folder), **case.get("environment", {})})
	recorder = Recorder()
	faked = [fakes.gpus(case["gpus"]), *_intercept(recorder)]
	open(SCRIPT, "w").close()
	words = case.get("words") or ["--config_file", f"{folder}/{case['config']}", *case["flags"], SCRIPT]
	sys.argv = ["accelerate", "launch", *words]
	error_output = io.StringIO()
	answer: Answer = {"verdict": "rejected"}
	with listening() as heard, contextlib.redirect_stderr(error_output):
		try:
			accelerate_cli.main()
			answer["error"] = {"type": "NotLaunched", "message": "the launcher returned without launching"}
		except InterceptedError:
			answer = _after_the_launch(recorder)
		except SystemExit as error:
			answer["error"] = refusal(error, error_output.getvalue()[-600:])
		except ImportError as error:
			answer = {"verdict": "undecided" if "torch_xla" in str(error) else "rejected", "error": refusal(error)}
		except Exception as error:
			answer["error"] = refusal(error)
	changed = {k: v for k, v in recorder.environment.items() if bare_environment(folder).get(k) != v}
	facts: Answer = {"route": recorder.route, "command": recorder.command, "environment": changed}
	facts |= {"torchrun": _torchrun(recorder), "sagemaker": recorder.sagemaker, "arguments": recorder.arguments}
	return {"stage": recorder.stage, "warnings": heard, "faked": faked, "facts": facts, **answer}


# --- interception ---


def _intercept(recorder: Recorder) -> list[str]:
	_follow_stages(recorder)
	_intercept_torchrun(recorder)
	launch.subprocess = _recording_subprocess(recorder)
	fakes.replace_everywhere("accelerate", "is_port_in_use", fakes.constant(False))

	def start_job(arguments: dict[str, Any], inputs: Any) -> None:
		recorder.sagemaker = {"estimator": plain(arguments), "inputs": plain(inputs)}
		recorder.environment = dict(os.environ)
		raise InterceptedError

	return [
		"the last step of the launcher is intercepted: no process starts; every port is free",
		fakes.sagemaker(start_job),
	]


def _follow_stages(recorder: Recorder) -> None:
	validate = launch._validate_launch_command

	def validating(arguments: Any) -> Any:
		recorder.stage = "config file"
		result = validate(arguments)
		recorder.stage = "environment"
		recorder.arguments = {k: plain(v) for k, v in vars(arguments).items() if k != "func"}
		return result

	launch._validate_launch_command = validating
	for name in LAUNCHERS:
		if hasattr(launch, name):
			setattr(launch, name, _noting_route(recorder, name, getattr(launch, name)))


def _noting_route(recorder: Recorder, name: str, launcher: Any) -> Any:
	def routed(*arguments: Any) -> Any:
		recorder.route = name
		return launcher(*arguments)

	return routed


def _intercept_torchrun(recorder: Recorder) -> None:
	"""torchrun does all of its own reading; only the agent that it would start is missing."""
	run_torchrun = torch.distributed.run.run

	def elastic_launch(config: Any = None, entrypoint: Any = None) -> None:  # noqa: ARG001 (torchrun's own names)
		recorder.elastic = config
		raise InterceptedError

	def running(arguments: Any) -> Any:
		recorder.stage = "torchrun"
		recorder.environment = dict(os.environ)
		return run_torchrun(arguments)

	torch.distributed.run.elastic_launch = elastic_launch
	torch.distributed.run.run = running


def _recording_subprocess(recorder: Recorder) -> Any:
	class Popen:
		def __init__(self, command: list[str], env: Mapping[str, str] | None = None) -> None:
			environment = os.environ if env is None else env
			for text in (*environment, *environment.values(), *command):
				os.fsencode(text)  # as the real one does: a number among the strings is a TypeError
			recorder.command, recorder.environment = command, dict(environment)
			raise InterceptedError

	class Recording:
		CalledProcessError = subprocess.CalledProcessError
		check_output = staticmethod(subprocess.check_output)

	vars_of: Any = Recording
	vars_of.Popen = Popen
	return Recording


# --- what the started program checks first ---


def _after_the_launch(recorder: Recorder) -> Answer:
	"""torchrun's agent and the `deepspeed` command read what they got before anything starts: let them."""
	try:
		if recorder.elastic is not None:
			_check_elastic(recorder.elastic)
		if recorder.route == "deepspeed_launcher" and (recorder.command or [""])[0] == "deepspeed":
			recorder.stage = "deepspeed command line"
			_check_deepspeed_command(recorder.command or [])
	except (Exception, SystemExit) as error:
		return {"verdict": "rejected", "error": refusal(error)}
	recorder.stage = "launched"
	return {"verdict": "accepted"}


def _check_elastic(config: Any) -> None:
	if int(config.nproc_per_node) <= 0:
		raise AssertionError(f"torchrun's WorkerSpec: local_world_size must be > 0, got {config.nproc_per_node}")
	if config.rdzv_backend != "static":
		return
	host, _ = parse_rendezvous_endpoint(config.rdzv_endpoint, -1)
	if host in ("None", "none", ""):
		raise ValueError(f"the static rendezvous endpoint is {config.rdzv_endpoint!r}: there is no such host")


def _check_deepspeed_command(command: list[str]) -> None:
	from deepspeed.launcher import runner

	arguments = runner.parse_args(command[1:])
	runner.fetch_hostfile(arguments.hostfile)
	launcher = (arguments.launcher or "").lower()
	if launcher not in DEEPSPEED_LAUNCHERS and not getattr(arguments, "no_ssh", False):
		raise NotImplementedError(f"Unknown launcher {arguments.launcher}")


def _torchrun(recorder: Recorder) -> Answer | None:
	if recorder.elastic is None:
		return None
	return {name: plain(getattr(recorder.elastic, name, None)) for name in RENDEZVOUS}
