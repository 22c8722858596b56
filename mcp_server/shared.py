"""What several tools have in common: the releases to judge against, and how much of a long answer is given."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from distributed_training_backends import api
from distributed_training_backends.versions import InvalidReleaseError, parse

from .tool import Answer, Arguments, CallError, Schema, choice, text, whole

LIBRARIES = ("accelerate", "deepspeed", "transformers", "torch")
VERSIONS: dict[str, Schema] = {
	"accelerate_version": text("1.10.1; default: the newest known"),
	"deepspeed_version": text(),
	"transformers_version": text(),
	"torch_version": text(),
}
# Bytes of the items in an answer. With the default it has at most 1,200 tokens, of which tables take one for three
# bytes; what is beyond some 25,000 tokens, clients cut off.
BUDGETS = {"concise": 2_800, "full": 32_000}
FILE = re.compile(r"\s*[\w./\\~:-]{1,200}\.(?:ya?ml|json|py|sh|slurm|log|txt|out|err)\s*", re.IGNORECASE)


def paging(limit: int, most: int) -> dict[str, Schema]:
	return {
		"detail": choice("concise", "full"),
		"limit": whole(maximum=most, default=limit),
		"offset": whole(minimum=0, default=0),
	}


def refuse_paths(given: Arguments, *names: str) -> None:
	for name in names:
		if FILE.fullmatch(given.get(name, "")):
			raise CallError(f"{name} is the name of a file, and this tool reads no files; pass the text in the file")


def targets_from(given: Arguments) -> api.Targets:
	"""The releases that a call names, and the newest known ones for the rest."""
	newest = api.default_targets()
	chosen = {name: str(given.get(f"{name}_version") or newest.of(name)).strip() for name in LIBRARIES}
	for name, release in chosen.items():
		try:
			parse(release)
		except InvalidReleaseError:
			raise CallError(f"{name}_version is {release[:60]!r}; write a release number such as 1.10.1") from None
	return api.Targets(**chosen)


def about(targets: api.Targets) -> Iterator[str]:
	yield from (f"{said}." for said in api.about_targets(targets))


def compact(answer: Answer) -> str:
	"""An answer as text: the same as the structured one, in as few characters as JSON allows."""
	return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def size(said: str) -> int:
	return len(said.encode("utf-8", "replace"))


def fitting(items: Sequence[Any], given: Arguments, share: float = 1) -> list[Any]:
	"""As many items, from the offset on, as are asked for and leave room for the rest of the answer; at least one."""
	asked = list(items[given["offset"] : given["offset"] + given["limit"]])
	room = BUDGETS[given["detail"]] * share
	for count, item in enumerate(asked):
		room -= size(compact(item)) + 1
		if room < 0 and count:
			return asked[:count]
	return asked


def following(shown: Sequence[Any], total: int, given: Arguments) -> int:
	"""The offset of what comes after the items that are shown; -1 if nothing does."""
	offset: int = given["offset"] + len(shown)
	return offset if shown and offset < total else -1


def left_out(shown: Sequence[Any], total: int, given: Arguments) -> Iterator[str]:
	first = given["offset"] + 1
	if total and not shown:
		yield f"Offset {given['offset']} is beyond the last of {total}."
	elif len(shown) < total:
		more = f"; go on with offset {first - 1 + len(shown)}" if following(shown, total, given) > 0 else ""
		yield f"Shown: {first} to {first - 1 + len(shown)} of {total}{more}."
