"""DSP rules about settings that exclude each other, or need each other; their rows are data."""

from ..flow.deepspeed import Reading
from .deepspeed_conditions import hits
from .registry import Hits, rule


@rule("DSP040", error="*")
def precision_conflict(reading: Reading) -> Hits:
	"""Precision settings that exclude each other.

	fp16 and bf16 together; master weights and optimizer states in 16 bit without ZeRO or without offloading;
	accumulation of gradients in a dtype that the stage does not support; loss scaling that cannot work; torch_autocast
	or Apex amp next to fp16, bf16 or ZeRO. Source: `runtime/config.py` (`_do_error_check`), `runtime/engine.py`
	(`_do_optimizer_sanity_check`), `runtime/precision_config.py`.
	"""
	yield from hits(reading, "DSP040")


@rule("DSP041", error="*")
def zero_conflict(reading: Reading) -> Hits:
	"""ZeRO settings that exclude each other, or lack what they need.

	NVMe without a path, partial offloading below stage 3, `reduce_scatter` with pre-scaled gradients, an odd
	`allgather_bucket_size`, `compute_grad_norm: false` with clipping, and others. Source: `runtime/zero/config.py`,
	`runtime/zero/stage_1_and_2.py`, `runtime/zero/stage3.py`, `runtime/engine.py`.
	"""
	yield from hits(reading, "DSP041")


@rule("DSP042", error="*")
def optimizer_conflict(reading: Reading) -> Hits:
	"""An optimizer that does not go with the rest of the file.

	ZeRO with an optimizer that it is not tested with needs `"zero_allow_untested_optimizer": true`; the 1-bit
	optimizers exclude ZeRO; Muon excludes `reduce_scatter` in stage 3; Lamb needs a dynamic loss scale. Source:
	`runtime/engine.py`.
	"""
	yield from hits(reading, "DSP042")


@rule("DSP043", error="*")
def tensor_parallel_conflict(reading: Reading) -> Hits:
	"""Tensor parallelism (`tensor_parallel.autotp_size`) that does not go with the rest of the file.

	Source: 0.19.8, runtime/engine.py, `_apply_autotp_partitioning`.
	"""
	yield from hits(reading, "DSP043")


@rule("DSP044", error="0.19.2..")
def expert_parallel_conflict(reading: Reading) -> Hits:
	"""Expert parallelism (`expert_parallel`) with settings that `validate_autoep_config` refuses.

	Source: 0.19.8, module_inject/auto_ep_config.py.
	"""
	yield from hits(reading, "DSP044")


@rule("DSP045", error="0.17.5..")
def zenflow_conflict(reading: Reading) -> Hits:
	"""ZenFlow (`zero_optimization.zenflow`) with values or neighbours that it refuses.

	It needs the optimizer offloaded to the CPU; a number for `select_interval` goes with the strategies "step" and
	"epoch" only; `offload` needs `overlap_comm`. Source: `runtime/zenflow/zenflow_config.py`,
	`runtime/zenflow/engine.py`.
	"""
	yield from hits(reading, "DSP045")


@rule("DSP046", error="*")
def incomplete_block(reading: Reading) -> Hits:
	"""A feature is on and lacks what it needs.

	Curriculum learning and dynamic batching of `data_efficiency`, random layer token drop, and the checkpoint writer,
	which fails without `data_parallel` where no mpu is given. Source: 0.19.8, runtime/data_pipeline/config.py,
	data_routing/scheduler.py; runtime/model_checkpointing/data_parallel_writer_factory.py.
	"""
	yield from hits(reading, "DSP046")


@rule("DSP047", error="..0.19.7")
def legacy_block_incomplete(reading: Reading) -> Hits:
	"""`elasticity` (until 0.19.7) or `compression_training` (until 0.19.6) is on and lacks what it needs.

	Source: `elasticity/config.py`, `compression/config.py` of those releases.
	"""
	yield from hits(reading, "DSP047")


@rule("DSP048", warning="0.16.6..")
def compile_conflict(reading: Reading) -> Hits:
	"""Settings of the `compile` block that are refused once `engine.compile()` is called, and never looked at before.

	Accelerate calls it when a dynamo backend is configured; other scripts have to do it themselves. Source:
	0.19.8, compile/init_z3.py; runtime/engine.py, `compile`.
	"""
	yield from hits(reading, "DSP048")
