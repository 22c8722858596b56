"""What the releases that a question is about know of the names in it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from ..knowledge import history
from ..model import Targets
from ..resources import load_json
from ..versions import describe, in_span, nearest
from .query import Query
from .words import name_of

# By file, the library that it is about and the branches whose names a user writes.
SURFACES = {
	"accelerate.json": ("accelerate", ("options", "fields", "enums")),
	"accelerate_api.json": ("accelerate", ("parameters",)),
	"deepspeed.json": ("deepspeed", ("keys",)),
	"transformers.json": ("transformers", ("training_arguments", "fsdp_config")),
}
MOST = 5


class Life(NamedTuple):
	"""The releases of a library that have a name somewhere; `written` is how it is spelled there."""

	file: str
	library: str
	written: str
	spans: tuple[tuple[str, str | None], ...]

	def holds(self, release: str) -> bool:
		known = nearest(release, tuple(load_json(self.file)["releases"]))
		return any(in_span(known, first, last) for first, last in self.spans)

	@property
	def told(self) -> Iterator[str]:
		"""The releases in words; nothing is known of what was before the oldest one listed."""
		oldest = load_json(self.file)["releases"][0]
		return (describe(None if first == oldest else first, last) for first, last in self.spans)


def notes(query: Query, targets: Targets) -> Iterator[str]:
	for name in query.names[:MOST]:
		by_library: dict[str, list[Life]] = defaultdict(list)
		for life in lives().get(name, ()):
			by_library[life.library].append(life)
		for library, found in by_library.items():
			release = targets.of(library)
			if not any(life.holds(release) for life in found):
				told = ", ".join(dict.fromkeys(text for life in found for text in life.told))
				yield f"{library} {release} does not have {found[0].written} ({told})"


@cache
def lives() -> Mapping[str, tuple[Life, ...]]:
	"""Every name that some release has; a dotted one by its last part too."""
	found: dict[str, list[Life]] = defaultdict(list)
	for file, (library, branches) in SURFACES.items():
		for branch in branches:
			for path in leaves((branch,), history.branch(file, (branch,))):
				spans = tuple(history.presence(file, path))
				written = path[-1]
				for name in {name_of(written), name_of(written.rpartition(".")[2])}:
					found[name].append(Life(file, library, written, spans))
	return {name: tuple(items) for name, items in found.items()}


def leaves(path: tuple[str, ...], below: object) -> Iterator[tuple[str, ...]]:
	if isinstance(below, dict):
		for name, item in below.items():
			yield from leaves((*path, name), item)
	else:
		yield path
