"""What the oracle pretends for DeepSpeed: a CPU that passes for a GPU, compiled kernels, a process group.

Like those of `fakes`, these functions patch a forked child for good and say what they replaced.
"""

import contextlib
import os
import shutil
import sys
import types
from typing import Any
from unittest.mock import MagicMock

import torch
import torch.distributed
from tests.oracle.fakes import GIB, constant, no_shared_memory
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.testing._internal.distributed.fake_pg import FakeStore

# What the accelerator of a GPU tells about memory; nothing depends on the figures.
MEMORY = (
	"memory_allocated",
	"max_memory_allocated",
	"reset_max_memory_allocated",
	"memory_cached",
	"max_memory_cached",
	"reset_max_memory_cached",
	"memory_reserved",
	"max_memory_reserved",
	"reset_peak_memory_stats",
)
FIND_RANK = torch.distributed.distributed_c10d.get_global_rank
FIRST_WITHOUT_STREAMS = (0, 10, 1)
# What it does to no end on a CPU.
IN_VAIN = ("set_device", "synchronize", "empty_cache", "manual_seed", "manual_seed_all", "range_push", "range_pop")


class Kernels:
	"""Stands for a compiled extension: every function exists and gives 0, but for those of plain PyTorch."""

	flatten = staticmethod(_flatten_dense_tensors)
	unflatten = staticmethod(_unflatten_dense_tensors)

	def __getattr__(self, name: str) -> Any:
		if name.startswith("__"):
			raise AttributeError(name)
		if name in ("aio_handle", "gds_handle"):
			return _swap_handle
		if name == "aligned_tensor":
			return torch.empty
		return constant(0)


def _swap_handle(*_: Any, **__: Any) -> MagicMock:
	handle = MagicMock()
	settings = {"get_block_size": 2**20, "get_queue_depth": 8, "get_alignment": 1024}
	settings |= dict.fromkeys(("get_intra_op_parallelism", "get_thread_count"), 1)
	settings |= dict.fromkeys(("wait", "async_pwrite", "sync_pwrite", "async_pread", "sync_pread"), 0)
	for name, value in settings.items():
		getattr(handle, name).return_value = value
	handle.new_cpu_locked_tensor.side_effect = lambda size, like: torch.empty(size, dtype=like.dtype)
	return handle


def kernels() -> str:
	"""Let every op builder load the stand-in; nothing is compiled."""
	for name, module in list(sys.modules.items()):
		if "op_builder" not in name:
			continue
		for item in list(vars(module).values()):
			if isinstance(item, type) and item.__name__.endswith("Builder") and "load" in vars(item):
				item.load = constant(Kernels())  # type: ignore[attr-defined]
	return "DeepSpeed's compiled ops are stand-ins that are loaded but never run"


def device() -> str:
	"""DeepSpeed's CPU accelerator, which claims the abilities of a GPU."""
	from deepspeed.accelerator import get_accelerator

	kind: Any = type(get_accelerator())
	if get_accelerator().communication_backend_name() == "ccl":
		kind.communication_backend_name = constant("gloo")
	kind.is_fp16_supported = kind.is_bf16_supported = constant(True)
	kind.supported_dtypes = constant([torch.float, torch.half, torch.bfloat16])
	kind.pin_memory = lambda *arguments, **_: arguments[1]
	no_shared_memory()
	return "DeepSpeed runs on the CPU and believes that fp16, bf16 and pinned memory work"


def early_releases(release: str) -> list[str]:
	"""Let the first releases run on a CPU: before 0.10.1 they want streams, before 0.9.3 they know CUDA only.

	They also count the ranks of a group until torch raises a RuntimeError, which has become a ValueError.
	"""
	from deepspeed.accelerator import get_accelerator

	torch.distributed.distributed_c10d.get_global_rank = _global_rank
	said = ["a rank that is not in a group is a RuntimeError and a ValueError"]
	if get_accelerator().device_name() == "cuda":
		said.append(_cpu_for_cuda(type(get_accelerator())))
	if tuple(int(part) for part in release.split(".")[:3]) < FIRST_WITHOUT_STREAMS:
		said.append(_streams(type(get_accelerator())))
	return said


class NotInGroupError(RuntimeError, ValueError):
	"""Whatever a release expects torch to raise about a rank."""


def _global_rank(group: Any, rank: int) -> int:
	try:
		return int(FIND_RANK(group, rank))
	except ValueError as error:
		raise NotInGroupError(str(error)) from error


def _cpu_for_cuda(kind: Any) -> str:
	answers: dict[str, Any] = dict.fromkeys(IN_VAIN)
	answers |= dict.fromkeys(("device_name", "current_device_name"), "cpu")
	answers |= {"current_device": 0, "device_count": 1, "is_available": True, "on_accelerator": True}
	answers |= {**dict.fromkeys(MEMORY, 0), "memory_stats": {}, "total_memory": 80 * GIB}
	answers |= {"communication_backend_name": "gloo"}
	for name, value in answers.items():
		setattr(kind, name, constant(value))
	for name in ("Float", "Half", "BFloat16", "Byte", "Double", "Int", "Long"):
		setattr(kind, f"{name}Tensor", getattr(torch, f"{name}Tensor"))
	kind.device = constant(contextlib.nullcontext())
	return "DeepSpeed's CUDA accelerator, the only one of this release, gives the answers of a CPU"


def _streams(kind: Any) -> str:
	kind.stream = constant(contextlib.nullcontext())
	kind.Stream = kind.Event = property(lambda _: MagicMock)
	kind.current_stream = kind.default_stream = constant(MagicMock())
	torch.Tensor.record_stream = constant(None)
	return "streams and events exist, and nothing runs in them"


def group(world_size: int) -> str:
	os.environ["WORLD_SIZE"] = str(world_size)
	torch.distributed.init_process_group(backend="fake", store=FakeStore(), rank=0, world_size=world_size)
	return f"a fake process group of {world_size}, seen from rank 0"


def file_system(folder: str) -> str:
	"""Folders outside the case's own, such as swap space on NVMe, are neither made nor removed."""
	make, remove = os.makedirs, shutil.rmtree

	def inside(path: Any) -> bool:
		return os.path.abspath(str(path)).startswith(folder)

	os.makedirs = lambda path, *a, **k: make(path, *a, **k) if inside(path) else None
	shutil.rmtree = lambda path, *a, **k: remove(path, *a, **k) if inside(path) else None  # type: ignore[assignment]
	writers = types.ModuleType("torch.utils.tensorboard")
	vars(writers)["SummaryWriter"] = MagicMock
	sys.modules["torch.utils.tensorboard"] = writers
	return "folders outside the sandbox are neither made nor removed, and TensorBoard's writer writes nothing"


def accelerate_backend() -> str:
	"""Let Accelerate take the process group that is there, on a host without GPUs."""
	from accelerate.state import PartialState
	from accelerate.utils import DistributedType

	PartialState._prepare_backend = constant(("fake", DistributedType.NO))
	return "Accelerate takes the fake process group for its own"
