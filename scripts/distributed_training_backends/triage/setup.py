"""One way to run a training: a backend and its sizes."""

from math import prod
from typing import Literal, NamedTuple

Backend = Literal[
	"single", "ddp", "fsdp1", "fsdp2", "zero1", "zero2", "zero3", "megatron", "xla", "gaudi", "cpu", "local_sgd"
]
FSDP: tuple[Backend, ...] = ("fsdp1", "fsdp2")
ZERO: tuple[Backend, ...] = ("zero1", "zero2", "zero3")
Checkpointing = Literal["none", "selective", "full"]
Offload = Literal["none", "cpu", "nvme"]


class Setup(NamedTuple):
	"""What triage chooses; None leaves to the facts what they say too.

	The GPUs are `replicate` groups of `shard` (whatever the backend divides: parameters, gradients or states), times
	the ways a model or a sequence is split. `reshard` frees gathered parameters after the forward pass. `hpz` is the
	size of ZeRO++'s secondary partition. `checkpointed_by` tells the model's own checkpointing (around each layer)
	from the FSDP plugin's, which Accelerate wrapped differently release by release. `ram_efficient` loads weights on
	one rank only; `built_on_gpu` puts the whole model on each GPU before it is sharded.
	"""

	backend: Backend
	shard: int = 1
	replicate: int = 1
	tp: int = 1
	cp: int = 1
	sp: int = 1
	pp: int = 1
	reshard: bool = True
	offload_optimizer: Offload = "none"
	offload_params: Offload = "none"
	hpz: int = 1
	checkpointing: Checkpointing | None = None
	checkpointed_by: Literal["model", "backend"] = "model"
	fused_loss: bool | None = None
	compile: bool | None = None
	fp8: bool | None = None
	comm_hook: Literal["no", "fp16", "bf16", "power_sgd", "batched_power_sgd"] = "no"
	micro_batch: int | None = None
	accumulation: int | None = None
	sync_each_batch: bool = False
	ram_efficient: bool = True
	built_on_gpu: bool = False

	@property
	def world(self) -> int:
		"""How many processes take part; Ulysses' and context parallel ranks share out a batch of the shard group.

		Accelerate counts `cp` and `sp` as dimensions of their own, so they multiply too.
		"""
		return prod((self.shard, self.replicate, self.tp, self.cp, self.sp, self.pp))
