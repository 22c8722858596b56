"""How fast a setup is, compared with others: compute, communication that is not hidden, offload (data/planner.json).

The numbers rank; they are not a promise. Every rate in them has its source beside it in the data.
"""

from math import floor, log
from typing import NamedTuple

from ..resources import load_json
from .accelerators import default_link, find
from .facts import Facts
from .setup import Setup
from .workload import Work

GIGA = 1e9


class Pace(NamedTuple):
	"""Seconds of an optimizer step: compute, communication and offload that it waits for; tokens in it, over all."""

	compute: float
	communication: float
	offload: float
	tokens: float

	@property
	def seconds(self) -> float:
		return self.compute + self.communication + self.offload

	@property
	def speed(self) -> float:
		"""Tokens a second, over all processes."""
		return self.tokens / self.seconds


class Traffic(NamedTuple):
	"""Bytes for a step: over the links of a node (a GPU's share), and through the network of a node.

	`blocking` is what no compute hides.
	"""

	link: float = 0.0
	network: float = 0.0
	blocking: float = 0.0


def threshold(name: str) -> float:
	value: float = load_json("planner.json")["thresholds"][name]["value"]
	return value


def pace(facts: Facts, setup: Setup, work: Work) -> Pace:
	batch = facts.batch
	passes = setup.accumulation or batch.accumulation or 1
	sequences = (setup.micro_batch or batch.micro_batch or 1) * setup.shard * setup.replicate
	tokens = float(sequences * (batch.seq or 1) * passes)
	compute = computing(facts, setup, work, tokens / setup.world, passes)
	waiting = communicating(facts, traffic(facts, setup, work, passes), compute)
	return Pace(compute, waiting, offloading(facts, setup, work, passes), tokens)


# --- compute ---


def computing(facts: Facts, setup: Setup, work: Work, tokens: float, passes: int) -> float:
	"""Seconds of arithmetic for a GPU's share of the tokens, `tokens` of them over all passes."""
	rate = peak(facts, setup) * threshold("matmul_efficiency")
	width = tokens * setup.tp * setup.pp / passes  # tokens that one product sees
	seconds = tokens * operations(facts, setup, work) / rate * (1 + threshold("tokens_half") / max(width, 1.0))
	seconds += threshold("layer_overhead_us") * 1e-6 * work.layers / setup.pp * passes
	seconds *= 1.0 + (setup.pp - 1) / passes  # pipeline stages wait for the first micro batch
	if facts.task.quantized:
		# weights are made whole in the forward and backward pass, and once more where activations are recomputed
		again = 3 if setup.checkpointing == "full" else 2
		seconds += threshold("dequantization_s_per_billion") * work.params / GIGA * again * passes
	return seconds * slowdown(facts, setup)


def slowdown(facts: Facts, setup: Setup) -> float:
	factor = 1.0
	if setup.compile or facts.compile:
		factor /= threshold("compile_gain")
	if setup.fused_loss or facts.loss == "fused_linear":
		factor /= threshold("fused_loss_gain")
	if setup.backend.startswith("zero"):
		factor *= threshold("deepspeed_slowdown")
	return factor * (threshold("fsdp1_slowdown") if setup.backend == "fsdp1" else 1.0)


def operations(facts: Facts, setup: Setup, work: Work) -> float:
	"""Floating-point operations for a token: forward 2, backward 4 a parameter, 2 where weights are frozen."""
	attention = 2.0 * (facts.batch.seq or 1) * work.hidden * work.layers  # causal: half of 4·s·h
	forward = 2.0 * work.active + attention
	if not facts.task.trains:
		return forward
	backward = forward + 2.0 * min(work.trained, work.active) + attention
	again = {"full": threshold("full_recompute"), "selective": threshold("selective_recompute")}
	return (forward + backward) * (1.0 + again.get(setup.checkpointing or "none", 0.0))


def peak(facts: Facts, setup: Setup) -> float:
	gpu = find(facts.hardware.gpu)
	rate: float = 1e12 * (gpu.tflops if gpu else load_json("planner.json")["assumed_tflops"]["value"])
	if facts.precision == "fp32":
		rate /= 2  # tf32, where there is such a thing
	return rate * (threshold("fp8_gain") if setup.fp8 else 1.0)


# --- communication ---


def traffic(facts: Facts, setup: Setup, work: Work, passes: int) -> Traffic:
	parts = [part(facts, setup, work, passes) for part in (gradients, gathered, split_layers)]
	return Traffic(*(sum(amounts) for amounts in zip(*parts, strict=True)))


def gradients(facts: Facts, setup: Setup, work: Work, passes: int) -> Traffic:
	"""Sums of gradients: twice their volume to all, once to the shard that keeps them."""
	if not facts.task.trains or setup.world == 1:
		return Traffic()
	size = work.trained * gradient_bytes(facts, setup) / (setup.tp * setup.pp)
	if setup.backend == "local_sgd":
		return spread(facts, setup, 2 * size / threshold("local_sgd_steps"))
	if setup.shard * setup.cp * setup.sp == 1:
		return spread(facts, setup, 2 * size)
	# stages 2 and 3 reduce after every pass, FSDP too unless it keeps whole gradients
	times = passes if setup.backend in ("zero2", "zero3") or setup.sync_each_batch else 1
	return Traffic(size * times, 2 * size) if setup.replicate > 1 else spread(facts, setup, size * times)


def gradient_bytes(facts: Facts, setup: Setup) -> float:
	if setup.comm_hook in ("power_sgd", "batched_power_sgd"):
		return 4 * threshold("power_sgd_gradients")
	if setup.comm_hook in ("fp16", "bf16"):
		return 4 * threshold("compressed_gradients")
	if setup.backend in ("ddp", "gaudi", "cpu", "local_sgd", "xla"):
		return 2.0 if facts.weights in ("bf16", "fp16") else 4.0
	return 4.0 if facts.precision == "fp32" or setup.backend == "megatron" else 2.0


def gathered(facts: Facts, setup: Setup, work: Work, passes: int) -> Traffic:
	"""Weights that are put together again: for each pass where they are sharded, once a step where only states are."""
	group = setup.shard * setup.cp * setup.sp
	if group == 1:
		return Traffic()
	size = work.params * work.weight_bytes / (setup.tp * setup.pp)
	if setup.backend in ("zero1", "zero2", "megatron"):
		trained = 2.0 * work.trained / (setup.tp * setup.pp)
		return spread(facts, setup, trained) if facts.task.trains else Traffic()
	backward = int(facts.task.trains and setup.reshard)
	if setup.hpz > 1:
		forward = spread(facts, setup, size * passes)
		return Traffic(forward.link + size * passes * backward, forward.network, 0.0)
	total = size * passes * (1 + backward)
	return Traffic(link=total) if setup.replicate > 1 else spread(facts, setup, total)


def split_layers(facts: Facts, setup: Setup, work: Work, passes: int) -> Traffic:
	"""Activations that split layers or sequences exchange; layers wait for them."""
	batch = facts.batch
	tokens = (setup.micro_batch or batch.micro_batch or 1) * (batch.seq or 1) * passes
	layers = work.layers / setup.pp
	again = 1.5 if setup.checkpointing == "full" else 1.0
	sent = 0.0
	if setup.tp > 1:
		sent += 8.0 * work.hidden * (setup.tp - 1) / setup.tp * tokens * layers * again * 2
	if setup.cp > 1:
		sent += 6.0 * work.kv_width * tokens * layers * again
	if setup.sp > 1:
		sent += 8.0 * (work.hidden + work.kv_width) / setup.sp * tokens * layers * again
	inside = setup.tp * setup.cp * setup.sp <= (facts.hardware.gpus_per_node or 1)
	return Traffic(0.0, 0.0, sent) if inside else Traffic(0.0, sent * (facts.hardware.gpus_per_node or 1), 0.0)


def spread(facts: Facts, setup: Setup, size: float) -> Traffic:
	"""A collective over all processes: within a node over its links, else a node's network carries it once."""
	if setup.world == 1:
		return Traffic()
	# the parts of a split model have rings of their own
	return Traffic(link=size) if (facts.hardware.nodes or 1) == 1 else Traffic(network=size * setup.tp)


def communicating(facts: Facts, sent: Traffic, compute: float) -> float:
	"""Seconds that a step waits for others: what blocks, and what does not fit behind the compute."""
	link = link_rate(facts)
	network = network_gbit(facts) / 8 * GIGA * threshold("network_efficiency")  # bytes a second that leave a node
	hidden = sent.link / link + sent.network / network
	shadow = threshold("overlap") * min(hidden, compute)
	return hidden - shadow + sent.blocking / link


def link_rate(facts: Facts) -> float:
	"""Bytes a second between the GPUs of a node."""
	gpu, kind = find(facts.hardware.gpu), facts.hardware.intra
	fast = gpu is not None and (kind is None or kind == gpu.link)
	speed = gpu.link_gb_per_s if gpu is not None and fast else default_link(kind or "pcie")
	return speed * GIGA * threshold("link_efficiency")


def network_gbit(facts: Facts) -> float:
	gbit: float = facts.hardware.inter_gbit or load_json("planner.json")["assumed_network_gbit"]["value"]
	return gbit


# --- offload ---


def offloading(facts: Facts, setup: Setup, work: Work, passes: int) -> float:
	"""Seconds for the optimizer on the CPU, and for weights and states on their way."""
	nodes, local = facts.hardware.nodes or 1, max(1, setup.world // (facts.hardware.nodes or 1))
	seconds = 0.0
	if setup.offload_optimizer != "none":
		share = work.trained / nodes
		seconds += share / GIGA * threshold("cpu_adam_s_per_billion")
		seconds += 4.0 * share / local / (threshold("offload_gb_per_s") * GIGA)
	if setup.offload_optimizer == "nvme":
		seconds += 24.0 * work.trained / nodes / (threshold("nvme_gb_per_s") * GIGA)
	if setup.offload_params != "none":
		size = work.params * work.weight_bytes * 2 * passes / setup.world
		seconds += size / (threshold("offload_gb_per_s") * GIGA)
	if setup.offload_params == "nvme":
		seconds += work.params * work.weight_bytes * 2 * passes / nodes / (threshold("nvme_gb_per_s") * GIGA)
	return seconds


# --- order ---


def simplicity(setup: Setup) -> int:
	"""What a user has to understand: the lower, the simpler."""
	cost = load_json("planner.json")["simplicity"]
	several = [name for name in ("tp", "cp", "sp", "pp", "hpz") if getattr(setup, name) > 1]
	several += ["replicate"] if setup.backend == "fsdp2" and setup.replicate > 1 else []
	several += ["comm_hook"] if setup.comm_hook != "no" else []
	devices = (setup.offload_optimizer, setup.offload_params)
	several += ["nvme"] if "nvme" in devices else ["offload"] if "cpu" in devices else []
	total: int = cost[setup.backend] + sum(cost[name] for name in several)
	return total


def band(best: float, speed: float) -> int:
	return floor(log(best / speed) / log(1 + threshold("equal_speed"))) if speed > 0 else 10**6
