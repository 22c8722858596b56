"""The shape of an answer about memory; amounts are bytes per GPU, or per node for CPU memory."""

from typing import Literal, NamedTuple

from ..model_triage import Amount, Verdict

PhaseName = Literal["load", "forward", "backward", "step"]
FIT: tuple[Verdict, ...] = ("fits", "unknown", "tight", "does_not_fit")  # unknown: the GPU has room, the node may have
GIB = 1024**3


class Part(NamedTuple):
	"""What one thing takes at one moment: weights, gradients, optimizer, activations, logits …"""

	name: str
	size: float


class Phase(NamedTuple):
	"""What lies in memory at the worst moment of loading, of the forward or backward pass, or of the step."""

	name: PhaseName
	parts: tuple[Part, ...]

	@property
	def size(self) -> float:
		return sum(part.size for part in self.parts)


class Estimate(NamedTuple):
	"""Memory of one way to run it. `allocated` is what PyTorch counts as allocated, `reserved` what its allocator
	holds, `smi` what nvidia-smi shows; `cpu_ram` is for a node. `peak` names the phase that decides.
	"""

	phases: tuple[Phase, ...]
	peak: PhaseName
	allocated: Amount
	reserved: Amount
	smi: Amount
	cpu_ram: Amount
	verdict: Verdict
	cpu_verdict: Verdict
	sentences: tuple[str, ...]

	@property
	def at_peak(self) -> Phase:
		return next(phase for phase in self.phases if phase.name == self.peak)
