"""The shape of an answer to "which backend, does it fit, what config?". Amounts of memory are in GiB."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from .model import Targets

Verdict = Literal["fits", "tight", "does_not_fit", "unknown"]


class BadFactsError(ValueError):
	"""Facts that cannot be used; `problems` has a pointer and a message for each."""

	def __init__(self, problems: tuple[tuple[str, str], ...]) -> None:
		super().__init__("; ".join(f"{pointer}: {message}" for pointer, message in problems))
		self.problems = problems


class Amount(NamedTuple):
	"""An amount that is not known better than this."""

	low: float
	point: float
	high: float


class Component(NamedTuple):
	"""What one thing takes of a GPU's memory in the phase that decides."""

	name: str
	gib: float


class Memory(NamedTuple):
	"""What a GPU needs: as PyTorch allocates it, as its allocator holds it, as nvidia-smi shows it.

	`capacity` is what there is (0 where nobody said); `peak` is the phase that decides, `components` are its parts.
	"""

	allocated: Amount
	reserved: Amount
	smi: Amount
	capacity: float
	peak: str
	components: tuple[Component, ...]
	cpu_ram: Amount
	cpu_capacity: float
	cpu_verdict: Verdict
	sentences: tuple[str, ...]


# By device, what holds the memory, where that is no GPU.
UNITS = {"cpu": "process", "mps": "Mac", "tpu": "chip"}


def unit_of(device: str | None) -> str:
	"""What a share of the memory belongs to."""
	return UNITS.get(device or "", "GPU")


def shown_by(device: str | None) -> str:
	"""What shows all that is held on the device."""
	return "in all" if device in UNITS else "nvidia-smi"


class Speed(NamedTuple):
	"""How fast, for comparison: against the fastest that fits, tokens a second and GPU, and what a step waits for."""

	relative: float
	tokens_per_second: float
	compute: float
	communication: float
	offload: float


class File(NamedTuple):
	name: str
	language: str
	text: str


class Addon(NamedTuple):
	"""Something that may be switched on, and whether it is worth it here."""

	name: str
	possible: bool
	text: str
	source: str

	@property
	def said(self) -> str:
		return f"{self.name}: {'' if self.possible else 'no: '}{self.text} [{self.source}]"


class Candidate(NamedTuple):
	"""A way to run it. `rank` counts from 1; files come with those that are offered.

	`largest_micro_batch` still fits; 0 where not even the asked one does.
	"""

	name: str
	title: str
	rank: int
	verdict: Verdict
	memory: Memory
	speed: Speed
	simplicity: int
	choices: tuple[str, ...]
	cautions: tuple[str, ...]
	largest_micro_batch: int
	addons: tuple[Addon, ...] = ()
	files: tuple[File, ...] = ()
	checks: tuple[str, ...] = ()


class Removed(NamedTuple):
	"""Ways that are out for one reason, and where that can be read."""

	names: tuple[str, ...]
	reason: str
	source: str

	@property
	def said(self) -> str:
		return f"{', '.join(self.names)}: {self.reason} [{self.source}]"


class Assumed(NamedTuple):
	"""A fact that nobody told: what was taken for it and why, and what another value would change."""

	fact: str
	value: str
	why: str
	effect: str


class TriageReport(NamedTuple):
	"""The whole answer; assumptions come with the most decisive first, candidates with the best."""

	summary: str
	targets: Targets
	facts: Mapping[str, Any]
	assumptions: tuple[Assumed, ...]
	candidates: tuple[Candidate, ...]
	removed: tuple[Removed, ...]
	advice: tuple[str, ...]
	notes: tuple[str, ...]

	@property
	def goal(self) -> str:
		return "faster" if self.candidates and self.candidates[0].verdict in ("fits", "unknown") else "fit"

	@property
	def exit_code(self) -> int:
		"""0: something fits, or might; 1: nothing does."""
		return 0 if any(candidate.verdict != "does_not_fit" for candidate in self.candidates) else 1
