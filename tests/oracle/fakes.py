"""What the oracle pretends: GPUs, peers, compiled kernels. Every function says in a sentence what it replaced.

These functions patch the modules of a forked child and are never undone; the answer to a case lists the sentences.
"""

import os
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed
from torch.testing._internal.distributed.fake_pg import FakeStore

GPU = "NVIDIA H100 80GB HBM3"
CAPABILITY = (9, 0)
GIB = 2**30


def constant(value: Any) -> Callable[..., Any]:
	return lambda *_, **__: value


def replace_everywhere(package: str, name: str, value: Any) -> None:
	"""Rebind a function in every loaded module of a package that has it under this name."""
	for module_name, module in list(sys.modules.items()):
		if module_name.split(".")[0] == package and name in vars(module):
			setattr(module, name, value)


# --- for Accelerate ---


def gpus(count: int) -> str:
	properties = types.SimpleNamespace(
		name=GPU, total_memory=80 * GIB, major=CAPABILITY[0], minor=CAPABILITY[1], multi_processor_count=132
	)
	answers: dict[str, Any] = {
		"is_available": True,
		"device_count": count,
		"current_device": int(os.environ.get("LOCAL_RANK", "0")),
		"is_initialized": True,
		"is_bf16_supported": True,
		"get_device_capability": CAPABILITY,
		"get_device_name": GPU,
		"get_device_properties": properties,
		"mem_get_info": (79 * GIB, 80 * GIB),
	}
	answers |= dict.fromkeys(("set_device", "_lazy_init", "init", "empty_cache", "synchronize"))
	for name, value in answers.items():
		setattr(torch.cuda, name, constant(value))
	torch.cuda.nccl.version = constant((2, 20, 5))
	torch.distributed.is_nccl_available = constant(True)
	for name, value in (
		("check_cuda_p2p_ib_support", True),
		("check_cuda_fp8_capability", True),
		("set_numa_affinity", None),
	):
		replace_everywhere("accelerate", name, constant(value))
	return f"torch.cuda has {count} {GPU}; peer-to-peer links work; NUMA affinity is left alone"


def peers(requests: list[Any]) -> str:
	"""Answer init_process_group with torch's fake backend, as rank 0 of WORLD_SIZE; note what was asked for."""
	real = torch.distributed.init_process_group

	def initialise(backend: Any = None, *_: Any, **options: Any) -> None:
		requests.append({"backend": str(backend), **{key: str(value) for key, value in options.items()}})
		rank, world_size = options.get("rank", -1), options.get("world_size", -1)
		if rank is None or rank < 0:
			rank = int(os.environ.get("RANK", "0"))
		if world_size is None or world_size < 0:
			world_size = int(os.environ.get("WORLD_SIZE", "1"))
		real(backend="fake", store=FakeStore(), rank=rank, world_size=world_size)

	torch.distributed.init_process_group = initialise
	torch.distributed.distributed_c10d.init_process_group = initialise
	_deepspeed_peers(initialise, requests)
	return "process groups are torch's fake backend seen from rank 0: no peers, no collectives"


def _deepspeed_peers(initialise: Callable[..., None], requests: list[Any]) -> None:
	"""DeepSpeed's own wrapper: its CPU accelerator would refuse the NCCL backend that Accelerate asks for."""
	import deepspeed.comm
	import deepspeed.comm.comm

	no_shared_memory()
	real = deepspeed.comm.init_distributed

	def initialise_deepspeed(dist_backend: Any = None, *_: Any, **__: Any) -> None:
		requests.append({"deepspeed": str(dist_backend)})
		if not torch.distributed.is_initialized():
			initialise(dist_backend)
		try:
			real(dist_backend="gloo", auto_mpi_discovery=False, verbose=False)
		except Exception as error:  # the group exists, which is all that a config needs
			requests.append({"deepspeed_failed": type(error).__name__})
		for module in (deepspeed.comm, deepspeed.comm.comm):
			module.is_initialized = torch.distributed.is_initialized
			module.get_world_size = lambda group=None: torch.distributed.get_world_size(group)
			module.get_rank = lambda group=None: torch.distributed.get_rank(group)

	deepspeed.comm.init_distributed = initialise_deepspeed


def no_shared_memory() -> None:
	"""Keep DeepSpeed from compiling its collectives for processes of one host."""
	communication: Any = sys.modules["deepspeed.comm.torch"]  # the attribute of this name is torch itself
	if hasattr(communication, "build_shm_op"):
		communication.build_shm_op = constant(None)


def sagemaker(on_start: Callable[..., Any]) -> str:
	"""A `sagemaker` package whose estimator hands its arguments over instead of starting a job."""

	class HuggingFace:
		def __init__(self, **arguments: Any) -> None:
			self.arguments = arguments

		def fit(self, inputs: Any = None) -> None:
			on_start(self.arguments, inputs)

	package, part = types.ModuleType("sagemaker"), types.ModuleType("sagemaker.huggingface")
	vars(part)["HuggingFace"] = HuggingFace
	vars(package)["huggingface"] = part
	sys.modules.update({"sagemaker": package, "sagemaker.huggingface": part})
	replace_everywhere("accelerate", "is_sagemaker_available", constant(True))
	return "SageMaker's estimator is intercepted"
