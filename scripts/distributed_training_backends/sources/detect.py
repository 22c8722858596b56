"""Tell what kind of config a text is, by the keys at its top; the name of the file only breaks ties."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..model import Kind
from ..resources import load_json


class Signs(NamedTuple):
	"""What speaks for a kind: keys that hardly anything else has (three points each), keys that others have too
	(one point), a prefix that keys may carry, the share of the keys that must be known, and beginnings by which a key
	counts as known although it is misspelt."""

	strong: frozenset[str]
	weak: frozenset[str]
	share: float
	prefix: str = ""
	beginnings: tuple[str, ...] = ()


_TABLES = load_json("detection.json")
SIGNS: dict[Kind, Signs] = {
	kind: Signs(
		frozenset(row["strong"]),
		frozenset(row["weak"]),
		row["share"],
		row.get("prefix", ""),
		tuple(row.get("beginnings", ())),
	)
	for kind, row in _TABLES["kinds"].items()
}
# what is a block with such a key in a DeepSpeed config is a flag, or another block, elsewhere
_BLOCKS = {"fp16": ("enabled", 2), "bf16": ("enabled", 2), "optimizer": ("type", 1), "scheduler": ("type", 1)}
# the values of a key that nothing but Accelerate has: one of them says enough, whatever stands beside it
_TYPES = r"NO|MULTI_[A-Z]+|FSDP|DEEPSPEED|MEGATRON_LM|TPU|XLA|TP"
# keys of Accelerate that other programs take, too: TRL's command line reads both from one file
_ANYBODYS = {"num_processes", "num_machines", "machine_rank", "main_process_ip", "main_process_port"}
_TRAINING = SIGNS["trainer"].strong | {*_TABLES["foreign"], "learning_rate", "max_steps", "model_name_or_path"}
_KEY_LINE = r"""(?m)^([ \t]*)(?:\{[ \t]*)?["']?([A-Za-z_]\w*)["']?[ \t]*:"""
MAX_KEY_LINES = 2000
_OUR_NAMES = r"(?i)accelerate|deepspeed|fsdp|(?:^|[_.-])(?:ds|zero\d?)(?:[_.-]|$)"


def detect(data: Any, text: str, path: str) -> Kind | None:
	"""Name the kind of a config; None when it is none of ours. `data` is None when the text could not be parsed."""
	values = data if isinstance(data, Mapping) else dict.fromkeys(keys_by_sight(text)) if data is None else {}
	keys = [key for key in values if isinstance(key, str)]
	scores = {kind: _score(signs, keys) for kind, signs in SIGNS.items()}
	scores["deepspeed"] += sum(points for key, (inner, points) in _BLOCKS.items() if _holds(values.get(key), inner))
	ranked = sorted(scores, key=lambda kind: (scores[kind], _named(kind, path)), reverse=True)
	fitting = [kind for kind in ranked if scores[kind] >= 3 and _share(SIGNS[kind], keys) >= SIGNS[kind].share]
	if "accelerate" in fitting and not _is_launched(keys, values):
		fitting.remove("accelerate")
	if not fitting or (fitting[0] == "trainer" and not set(_TABLES["foreign"]).isdisjoint(keys)):
		return "accelerate" if _is_type(values.get("distributed_type")) else None
	return fitting[0]


def _is_launched(keys: list[str], values: Mapping[Any, Any]) -> bool:
	"""Tell a config of Accelerate from the file of a program that says how many processes it wants."""
	own = SIGNS["accelerate"].strong.intersection(keys) - _ANYBODYS or any(map(_is_type, values.values()))
	return bool(own or (_TRAINING.isdisjoint(keys) and _share(SIGNS["accelerate"], keys) >= 0.5))


def _is_type(value: Any) -> bool:
	return isinstance(value, str) and re.fullmatch(_TYPES, value) is not None


def _holds(value: Any, key: str) -> bool:
	return isinstance(value, Mapping) and key in value


def keys_by_sight(text: str) -> Iterable[str]:
	"""Guess the keys at the top of a text that cannot be parsed: those with the least indentation."""
	found = [match.groups() for match, _ in zip(re.finditer(_KEY_LINE, text), range(MAX_KEY_LINES), strict=False)]
	least = min((len(indent) for indent, _ in found), default=0)
	return [key for indent, key in found if len(indent) == least]


def _bare(signs: Signs, key: str) -> str:
	return key.removeprefix(signs.prefix) if signs.prefix else key


def _score(signs: Signs, keys: list[str]) -> int:
	bare = {_bare(signs, key) for key in keys}
	return 3 * len(bare & signs.strong) + len(bare & signs.weak)


def _share(signs: Signs, keys: list[str]) -> float:
	known = sum(_is_known(signs, key) for key in keys)
	return known / len(keys) if keys else 0.0


def _is_known(signs: Signs, key: str) -> bool:
	bare = _bare(signs, key)
	return bare in signs.strong or bare in signs.weak or key.startswith(signs.beginnings)


def _named(kind: Kind, path: str) -> bool:
	name = path.replace("\\", "/").rsplit("/", 1)[-1].lower()
	return kind in name or (kind in ("deepspeed", "fsdp") and name.endswith(".json"))


def named_like_ours(path: str) -> bool:
	return re.search(_OUR_NAMES, path.replace("\\", "/").rsplit("/", 1)[-1]) is not None


_LIBRARIES = r"(?:accelerate|transformers|trl|sentence_transformers)\b"
# at the beginning of a line; in a notebook, of a text of JSON or behind a line end in one
_IMPORT = rf"(?m)(?:^[ \t]*\"?|\"|\\n[ \t]*)(?:from|import)[ \t]+{_LIBRARIES}"


def named_like_python(path: str) -> bool:
	return path.lower().endswith((".py", ".ipynb"))


def imports_ours(text: str) -> bool:
	"""Tell whether a line of a text may import one of the libraries; in a notebook, lines are texts of JSON."""
	return "import" in text and re.search(_IMPORT, text) is not None
