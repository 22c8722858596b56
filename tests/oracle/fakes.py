"""What the oracle pretends: GPUs, peers, compiled kernels. Every function says in a sentence what it replaced.

These functions patch the modules of a forked child and are never undone; the answer to a case lists the sentences.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import types
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import torch
import torch.distributed
from torch.testing._internal.distributed.fake_pg import FakeStore

GPU = "NVIDIA H100 80GB HBM3"
CAPABILITY = (9, 0)
GIB = 2**30


def constant(value: Any) -> Callable[..., Any]:
    """A function that gives the same value whatever it is called with."""
    return lambda *_, **__: value


def replace_everywhere(package: str, name: str, value: Any) -> None:
    """Rebind a function in every loaded module of a package that has it under this name."""
    for module_name, module in list(sys.modules.items()):
        if module_name.split(".")[0] == package and name in vars(module):
            setattr(module, name, value)


# --- for Accelerate ------------------------------------------------------------------------------------------


def gpus(count: int) -> str:
    """Give torch.cuda as many H100s as are asked for."""
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


# --- for DeepSpeed -------------------------------------------------------------------------------------------


class Kernels:
    """Stands for a compiled extension: every function exists and gives 0."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("aio_handle", "gds_handle"):
            return _swap_handle
        if name == "aligned_tensor":
            return torch.empty
        return constant(0)


def _swap_handle(*_: Any, **__: Any) -> MagicMock:
    """The handle of asynchronous I/O that NVMe offload asks for its own settings and for buffers."""
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


def deepspeed_device() -> str:
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


def cpu_for_cuda_only_releases() -> list[str]:
    """Before 0.9.3 DeepSpeed knows CUDA only: let that accelerator say and do what the CPU's does."""
    from deepspeed.accelerator import get_accelerator

    kind: Any = type(get_accelerator())
    if get_accelerator().device_name() != "cuda":
        return []
    answers: dict[str, Any] = dict.fromkeys(("set_device", "synchronize", "empty_cache", "manual_seed"))
    answers |= dict.fromkeys(("device_name", "current_device_name"), "cpu")
    answers |= {"current_device": 0, "device_count": 1, "is_available": True, "on_accelerator": True}
    answers |= dict.fromkeys(("memory_allocated", "max_memory_allocated", "memory_reserved", "memory_cached"), 0)
    answers |= {"communication_backend_name": "gloo", "total_memory": 80 * GIB, "default_stream": None}
    for name, value in answers.items():
        setattr(kind, name, constant(value))
    for name in ("Float", "Half", "BFloat16", "Byte", "Double", "Int", "Long"):
        setattr(kind, f"{name}Tensor", getattr(torch, f"{name}Tensor"))
    kind.device = kind.stream = lambda *_: contextlib.nullcontext()
    kind.Stream = kind.Event = property(lambda _: MagicMock)
    return ["DeepSpeed's CUDA accelerator, the only one of this release, gives the answers of a CPU"]


def no_shared_memory() -> None:
    """Keep DeepSpeed from compiling its collectives for processes of one host."""
    communication: Any = sys.modules["deepspeed.comm.torch"]  # the attribute of this name is torch itself
    if hasattr(communication, "build_shm_op"):
        communication.build_shm_op = constant(None)


def group(world_size: int) -> str:
    """A process group of the fake backend, as rank 0."""
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
    return "folders outside the sandbox are neither made nor removed"


def accelerate_backend() -> str:
    """Let Accelerate take the process group that is there, on a host without GPUs."""
    from accelerate.state import PartialState
    from accelerate.utils import DistributedType

    PartialState._prepare_backend = constant(("fake", DistributedType.NO))
    return "Accelerate takes the fake process group for its own"
