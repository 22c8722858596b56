"""The words on a generated page: written there by hand, they stay when its generator makes the tables anew."""

import re
from pathlib import Path
from typing import NamedTuple

from distributed_training_backends.lookup.key_pages import spelled_out

CELL = re.compile(r"(?<!\\)\|")
PART = re.compile(r": part \d+$")


class Words(NamedTuple):
	"""What stands before a table, and the meaning of each name in it, by the name as it stands there."""

	about: str
	meanings: dict[str, str]


def words_of(page: Path) -> dict[str, Words]:
	"""The words of each section, by its title; a section that is cut in parts is one."""
	found: dict[str, Words] = {}
	title, column = "", 0
	for line in spelled_out(page.read_text("utf-8")).splitlines():
		if line.startswith("##"):
			title, column = PART.sub("", line.lstrip("# ")), 0
			found.setdefault(title, Words("", {}))
		elif line.startswith("|") and title:
			cells = [cell.strip() for cell in CELL.split(line)[1:-1]]
			if not column:
				column = cells.index("meaning") if "meaning" in cells else -1
			elif column > 0 and not line.startswith("|-|"):
				found[title].meanings[cells[0]] = cells[column] if column < len(cells) else ""
		elif line and title and not found[title].about:
			found[title] = found[title]._replace(about=line)
	return found
