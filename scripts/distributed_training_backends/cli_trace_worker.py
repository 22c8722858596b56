"""Measures a model on fake tensors: no weights, no GPU; run as a program of its own, JSON in and out.

Needs torch and transformers. Every tensor that the model, its backward pass and the optimizer make is followed from
birth to death, without memory behind it. With several ranks FSDP2 shards over a process group that only pretends.
"""

import json
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

BLOCK = 512  # the CUDA allocator rounds up to this
STEPS = 2  # states exist from the second step on


def main() -> int:
	"""Read the task from standard input and answer on standard output; one line of JSON each."""
	# attention takes grouped heads as they are, as it does on a GPU without a padding mask
	os.environ.setdefault("TRANSFORMERS_SDPA_FORCE_GQA", "1")
	task = json.loads(sys.stdin.read())
	try:
		answer = measure(task)
	except ImportError as error:
		answer = {"error": f"{error.name} is not installed here: --trace needs torch, transformers, for LoRA peft"}
	except Exception as error:  # whatever a model does, the answer is one line
		answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"}
	sys.stdout.write(json.dumps(answer) + "\n")
	return 0


def measure(task: dict[str, Any]) -> dict[str, Any]:
	"""Run two training steps on fake tensors and give the most that was alive in each phase, in bytes."""
	import torch
	from torch._subclasses.fake_tensor import FakeTensorMode

	model = built(task)
	mesh = pretended(task["shard"]) if task["shard"] > 1 else None
	with FakeTensorMode(allow_non_fake_inputs=True), attention_as_on_a_gpu():
		followed = follower()
		with followed, resizes_followed(followed):
			materialize(model)
			for parameter in model.parameters():
				followed.follow(parameter)
			if mesh is not None:
				shard(model, mesh, task["apart"])
			phases = trained(model, task, followed)
	return {"phases": phases, "params": sum(one.numel() for one in model.parameters()), "torch": torch.__version__}


def built(task: dict[str, Any]) -> Any:
	import torch
	from transformers import AutoConfig, AutoModelForCausalLM

	config = AutoConfig.for_model(**task["config"])
	config.use_cache = False
	dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
	with torch.device("meta"):
		model = AutoModelForCausalLM.from_config(
			config, dtype=dtypes[task["weights"]], attn_implementation=task["attention"]
		)
		if task.get("lora"):
			model = adapted(model, task["lora"])
	if task["checkpointing"]:
		model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
		if task.get("lora"):
			model.enable_input_require_grads()
	return model.train()


def adapted(model: Any, lora: dict[str, Any]) -> Any:
	from peft import LoraConfig, get_peft_model

	targets = "all-linear" if lora["targets"] == ["all-linear"] else lora["targets"]
	config = LoraConfig(r=lora["rank"], target_modules=targets, lora_dropout=lora["dropout"])
	model = get_peft_model(model, config)
	for parameter in model.parameters():
		if parameter.requires_grad:
			parameter.data = parameter.data.float()
	return model


def materialize(model: Any) -> None:
	"""Replace parameters and buffers without memory by fake ones; shared ones stay shared."""
	import torch

	made: dict[int, tuple[Any, Any]] = {}
	for module in model.modules():
		for name, one in module._parameters.items():
			if one is not None and id(one) not in made:
				fresh = torch.empty(one.shape, dtype=one.dtype, device="cpu")
				made[id(one)] = (one, torch.nn.Parameter(fresh, requires_grad=one.requires_grad))
			if one is not None:
				module._parameters[name] = made[id(one)][1]
		for name, one in module._buffers.items():
			if one is not None:
				module._buffers[name] = torch.empty(one.shape, dtype=one.dtype, device="cpu")


def pretended(ranks: int) -> Any:
	"""A mesh of ranks of which only this one exists; its collectives do nothing."""
	import torch.distributed as dist
	from torch.distributed.device_mesh import init_device_mesh
	from torch.testing._internal.distributed.fake_pg import FakeStore

	dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
	return init_device_mesh("cpu", (ranks,))


def shard(model: Any, mesh: Any, apart: bool) -> None:
	"""Shard each layer and the rest with FSDP2; embeddings and head `apart`, as Accelerate does since 1.14.0."""
	import torch
	from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

	policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
	for one in model.modules():
		if type(one).__name__.endswith(("DecoderLayer", "Block")):
			fully_shard(one, mesh=mesh, mp_policy=policy)
	embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
	norm = [one for name, one in model.named_modules() if name in ("model.norm", "transformer.ln_f")]
	if apart and embedding.weight is not head.weight:
		fully_shard(embedding, mesh=mesh, mp_policy=policy)
		fully_shard([*norm, head], mesh=mesh, mp_policy=policy, reshard_after_forward=False)
	fully_shard(model, mesh=mesh, mp_policy=policy)


def trained(model: Any, task: dict[str, Any], followed: Any) -> dict[str, int]:
	"""Two steps of training; the most alive in each phase of the last one."""
	import torch

	weights = [one for one in model.parameters() if one.requires_grad]
	optimizer = torch.optim.AdamW(weights, lr=1e-5, foreach=not task["fused"], fused=task["fused"])
	tokens = torch.zeros(task["micro_batch"], task["seq"], dtype=torch.long)
	phases: dict[str, int] = {}

	def run(name: str, work: Callable[[], Any]) -> Any:
		followed.restart()
		result = work()
		phases[name] = followed.peak
		return result

	def forward() -> Any:
		with torch.autocast("cpu", dtype=torch.bfloat16, enabled=task["autocast"]):
			# what the Trainer keeps of the output is the loss
			return model(input_ids=tokens, labels=tokens, use_cache=False).loss

	for _ in range(STEPS):
		loss = run("forward", forward)
		run("backward", loss.backward)
		del loss
		run("step", optimizer.step)
		optimizer.zero_grad()
	return phases


def follower() -> Any:
	"""A mode that counts the storages alive; made here, since its class needs torch."""
	import torch
	from torch.utils._python_dispatch import TorchDispatchMode
	from torch.utils._pytree import tree_iter

	class Followed(TorchDispatchMode):  # type: ignore[misc]  # torch has no types here
		"""Follows every storage from its first tensor to its death."""

		def __init__(self) -> None:
			super().__init__()
			self.alive: dict[int, int] = {}
			self.now = self.peak = 0

		def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
			made = func(*args, **(kwargs or {}))
			for one in tree_iter(made):
				self.follow(one)
			return made

		def follow(self, one: Any) -> None:
			if not isinstance(one, torch.Tensor):
				return
			storage = getattr(one, "_local_tensor", one).untyped_storage()
			key = storage._cdata
			if key not in self.alive:
				self.alive[key] = -(-storage.nbytes() // BLOCK) * BLOCK
				self.now += self.alive[key]
				weakref.finalize(storage, self.forget, key)
			self.peak = max(self.peak, self.now)

		def resized(self, storage: Any) -> None:
			key = storage._cdata
			if key in self.alive:
				before, self.alive[key] = self.alive[key], -(-storage.nbytes() // BLOCK) * BLOCK
				self.now += self.alive[key] - before
				self.peak = max(self.peak, self.now)

		def forget(self, key: int) -> None:
			self.now -= self.alive.pop(key, 0)

		def restart(self) -> None:
			self.peak = self.now

	return Followed()


@contextmanager
def resizes_followed(followed: Any) -> Iterator[None]:
	"""Tell of storages that change in size, which happens outside of any operation."""
	import torch

	original = torch.UntypedStorage.resize_

	def resize(storage: Any, size: int) -> Any:
		result = original(storage, size)
		followed.resized(storage)
		return result

	torch.UntypedStorage.resize_ = resize
	try:
		yield
	finally:
		torch.UntypedStorage.resize_ = original


@contextmanager
def attention_as_on_a_gpu() -> Iterator[None]:
	"""Use the flash attention kernel's and CUDA's dropout; those of the CPU save other tensors."""
	import torch
	import torch.nn.functional as functional

	attention, dropout = functional.scaled_dot_product_attention, functional.dropout

	def flash(query: Any, key: Any, value: Any, *_: Any, dropout_p: float = 0.0, scale: Any = None, **__: Any) -> Any:
		return torch.ops.aten._scaled_dot_product_flash_attention(
			query, key, value, dropout_p, True, False, scale=scale
		)[0]

	def native(one: Any, p: float = 0.5, training: bool = True, **_: Any) -> Any:
		return torch.ops.aten.native_dropout(one, p, True)[0] if training and p > 0 else one

	functional.scaled_dot_product_attention = flash
	functional.dropout = native
	try:
		yield
	finally:
		functional.scaled_dot_product_attention, functional.dropout = attention, dropout


if __name__ == "__main__":
	sys.exit(main())
