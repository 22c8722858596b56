"""The data files that come with the package."""

import json
from functools import cache
from os.path import dirname, isdir, isfile, join
from typing import Any

DATA = join(dirname(__file__), "data")
BY_COLUMN = "by column"


@cache
def load_json(name: str) -> Any:
	"""The content of a data file, read once. Callers share it and must not change it."""
	return by_row(json.loads(read(join(DATA, name))))


def by_row(content: Any) -> Any:
	"""A table whose parts may be packed by column: names of rows, columns, and last what only some rows have."""
	for part in content.pop(BY_COLUMN, ()):
		names, *columns = content[part]
		if isinstance(some := columns[-1], dict):
			columns[-1] = [{} for _ in names]
			for name, cells in some.items():
				for row, cell in zip(columns[-1], cells, strict=True):
					if cell is not None:
						row[name] = cell
		content[part] = dict(zip(names, map(list, zip(*columns, strict=True)), strict=True))
	return content


def read(path: str) -> bytes:
	"""The content of a file, or of the one that is packed in its place, as large tables are."""
	if isfile(path):
		with open(path, "rb") as file:
			return file.read()
	import zlib  # gzip would be three times as long to import, for nothing more

	with open(f"{path}.gz", "rb") as file:
		return zlib.decompress(file.read(), wbits=31)  # with a header of gzip


@cache
def references() -> str:
	"""The folder of the reference pages: inside the package where a wheel put it, else beside scripts/."""
	inside = join(dirname(__file__), "references")
	return inside if isdir(inside) else join(dirname(dirname(dirname(__file__))), "references")
