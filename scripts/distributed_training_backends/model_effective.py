"""What really takes effect in a run: settings with their values, who set them, and who tried in vain."""

from typing import Any, Literal, NamedTuple

from .model import Finding, Place

Surface = Literal["file", "command line", "environment", "python", "trainer", "deepspeed file", "accelerate", "default"]
State = Literal["set", "default", "open"]
LAYERS = ("accelerator", "torchrun", "command", "variable", "argument")  # and the names of plugins


class Loser(NamedTuple):
	"""Somebody who gave a setting a value that did not count, and why it did not."""

	surface: Surface
	value: Any
	place: Place | None
	reason: str


class Setting(NamedTuple):
	"""One setting as it takes effect.

	`name` begins with the layer that reads it: `argument.` of the launcher, `variable.` of the workers, `torchrun.`,
	`command.` and, in each worker, `accelerator.` or the plugin's name. `surface` and `place` are those of the value;
	a value that the launcher or the library makes up has no place. Of an open one `value` says what it depends on.
	`reader` is who takes it up: "" where nobody does, as happens to arguments that the launcher of the run passes over.
	`doubted` is one that is open only because not all of the run is known.
	"""

	name: str
	value: Any
	surface: Surface = "default"
	place: Place | None = None
	losers: tuple[Loser, ...] = ()
	state: State = "default"
	reader: str = ""
	doubted: bool = False

	@property
	def argued(self) -> bool:
		"""Whether an argument in Python gives it, or one of TrainingArguments."""
		return self.surface in ("python", "trainer")

	def becomes(self, value: Any, name: str = "") -> "Setting":
		"""The same setting a step further on its way, in another form; an open one stays open."""
		return self._replace(name=name or self.name, value=self.value if self.state == "open" else value)

	def beaten(self, reason: str) -> tuple[Loser, ...]:
		"""Who has lost once another value counts: this one, unless it is a mere default, and who lost to it."""
		if self.state == "default":
			return self.losers
		return (Loser(self.surface, self.value, self.place, reason), *self.losers)

	@property
	def told(self) -> bool:
		"""Whether it is worth a line: somebody set it, tried to, or has yet to."""
		default = self.state == "default" or (self.doubted and self.surface == "default")
		return not default or bool(self.losers)

	@property
	def layer(self) -> str:
		head = self.name.partition(".")[0]
		return head if head in LAYERS else "plugin"


class Effective(NamedTuple):
	"""The settings of one run for one release of Accelerate. `route` is the launcher that the run takes.

	`place` is that of its command or config, `others` are further runs. `doubt` is what may set more.
	"""

	release: str
	route: str
	settings: tuple[Setting, ...]
	doubt: str = ""
	place: Place | None = None
	others: tuple["Effective", ...] = ()


class Change(NamedTuple):
	"""A setting that another release gives another value, or does not have; None is the side that lacks it. `run` is
	the place of the run, where there are several."""

	name: str
	before: Setting | None
	after: Setting | None
	run: Place | None = None


class Comparison(NamedTuple):
	"""What an upgrade changes in a run: settings, and findings that appear or go."""

	before: str
	after: str
	changes: tuple[Change, ...]
	appear: tuple[Finding, ...] = ()
	go: tuple[Finding, ...] = ()
