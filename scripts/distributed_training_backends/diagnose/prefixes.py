"""What launchers and schedulers put before the lines of a process: its rank, its host, a time."""

import re
from functools import lru_cache
from typing import NamedTuple


class Source(NamedTuple):
	"""Where a line comes from, as far as its prefix tells."""

	host: str = ""
	rank: int | None = None


NO_SOURCE = Source()
MOST = 3  # prefixes before one line
_PREFIX = re.compile(
	r"""(?:
      \[(?P<role>[A-Za-z_]{1,30})(?P<rank>[0-9]{1,6})\]:[ ]?            # torchrun: [rank3]: [default0]:
    | \[(?P<job>[0-9]{1,6}),(?P<mpi>[0-9]{1,6})\]<std(?:out|err)>:?[ ]? # mpirun --tag-output
    | [ ]{0,6}(?P<task>[0-9]{1,6}):[ ]                                  # srun --label
    | \((?:[^()\n]{0,80}\b)?(?:pid|rank)=(?P<pid>[0-9]{1,10})[^()\n]{0,60}\)[ ]  # Ray
    | (?P<host>(?:[0-9]{1,3}\.){3}[0-9]{1,3}                            # pdsh, with an address or a name
        |(?:[a-z]{1,30}[.-][a-z.-]{0,60}|node|host|worker|gpu|compute|master|trainer|dgx|cn)[0-9][a-z0-9.-]{0,80}):[ ]
    | (?P<service>[A-Za-z][\w.-]{0,60})[ ]{1,20}\|[ ]                   # docker compose
    | \[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?\]?
      [ ](?:std(?:out|err)[ ][FP][ ])?                                  # kubectl logs --timestamps, CRI
    )""",
	re.VERBOSE,
)
_STARTS = frozenset("[( 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def split_prefix(text: str) -> tuple[Source, int]:
	source, start = NO_SOURCE, 0
	for _ in range(MOST):
		if text[start : start + 1] not in _STARTS:
			break
		found = _PREFIX.match(text, start)
		if found is None:
			break
		source, start = _more(source, found), found.end()
	return source, start


def _more(known: Source, found: re.Match[str]) -> Source:
	name = found.lastgroup
	if name is None:
		return known
	value = found[name]
	if name in ("rank", "mpi", "task"):
		return known if known.rank is not None else _source(known.host, int(value))
	return known if known.host else _source(f"pid {value}" if name == "pid" else value, known.rank)


@lru_cache(maxsize=4096)
def _source(host: str, rank: int | None) -> Source:
	return Source(host, rank)
