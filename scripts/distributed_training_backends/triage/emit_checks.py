"""What to look at after two steps: whether the setup that was meant is the one that runs, and what it takes."""

from collections.abc import Iterator

from ..model_triage import Amount
from .emit_accelerate import distributed_type
from .estimate import GIB, Estimate
from .facts import Facts
from .run import BYTES, stored
from .setup import Setup


def checks(facts: Facts, setup: Setup, estimate: Estimate) -> Iterator[str]:
	# the hardware decides, not only the file
	kind, device = distributed_type(facts, setup), facts.hardware.device
	yield f"accelerator.distributed_type is {kind} and accelerator.num_processes {setup.world}"
	if device in ("cuda", "rocm", "hpu", "xpu", "npu"):
		module = "cuda" if device == "rocm" else device
		yield (
			f"torch.{module}.max_memory_allocated() after the second step and after a whole accumulation: "
			f"{span(estimate.allocated)}; max_memory_reserved(): {span(estimate.reserved)}"
		)
	yield from dtypes(facts, setup)
	yield from sharding(facts, setup)
	if estimate.cpu_ram.point > 8 * GIB:
		yield f"host memory while loading and stepping: {span(estimate.cpu_ram)} a node"
	if device in ("cuda", "rocm"):
		yield (
			'torch.cuda.memory_stats()["num_alloc_retries"] stays 0; if not, set '
			"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
		)
	if facts.task.trains:
		yield "feed the longest batch first, and run one evaluation and one checkpoint: each has a peak of its own"
		if setup.world > 1:
			yield "compare the loss of 50 steps with a short run of the setup that you had before"


def dtypes(facts: Facts, setup: Setup) -> Iterator[str]:
	"""Dtypes after prepare(), which releases differ in."""
	if facts.task.kind in ("full", "continued"):
		half = "float16" if "fp16" in (facts.precision, facts.weights) else "bfloat16"
		dtype = "float32" if stored(facts, setup)[0] == BYTES["fp32"] else half
		yield f"next(model.parameters()).dtype after prepare() is torch.{dtype}"


def sharding(facts: Facts, setup: Setup) -> Iterator[str]:
	if setup.backend == "fsdp2":
		parts = setup.shard * setup.cp * setup.tp
		yield f"a parameter's to_local() holds about 1/{parts} of its elements: else nothing is sharded"
	if setup.backend == "zero3":
		yield "a parameter's ds_tensor is its share, and the parameter itself is empty between the steps"
	if facts.task.quantized:
		yield "the 4-bit weights are sharded or replicated as meant: compare the memory after prepare() on each GPU"


def span(amount: Amount) -> str:
	return f"{amount.low / GIB:.0f} to {amount.high / GIB:.0f} GiB, most likely {amount.point / GIB:.1f}"
