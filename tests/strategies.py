"""What the property tests draw: values of configs, texts that say them, and texts that say nothing in particular."""

import json
from collections.abc import Sequence
from typing import Any

import yaml
from hypothesis import assume
from hypothesis import strategies as st

KEYS = [
    "distributed_type", "fsdp_config", "fsdp_version", "zero_optimization", "stage", "train_batch_size",
    "offload_optimizer", "device", "num", "mixed_precision", "machine_rank", "debug", "no", "on", "yes", "null",
    "true", "key_1", "a", "b", "c", "x.y", "with-dash"
]  # fmt: skip
WORDS = [
    "auto", "cpu", "none", "bf16", "no", "NO", "yes", "on", "off", "null", "~", "true", "1e8", "1.0e8", "010",
    "1:30", "0x1F", "FULL_SHARD", "<ip>", "${HOST}", "{{n}}"
]  # fmt: skip
AWKWARD = ["", " ", "a: b", "a #b", "#", "- x", "[1]", "{a}", "it's", '"q"', "é", "x\ny", "\\", "&a", "*a", "!t", "a,b"]

scalars: st.SearchStrategy[Any] = st.one_of(
	st.none(),
	st.booleans(),
	st.integers(-(10**12), 10**12),
	st.floats(allow_nan=False, allow_infinity=False),
	st.sampled_from(WORDS + AWKWARD),
	st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), max_size=6),
)
keys = st.one_of(st.sampled_from(KEYS), st.sampled_from(AWKWARD).filter(bool))


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
	return st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4))


values = st.recursive(scalars, _nested, max_leaves=12)
mappings = st.dictionaries(keys, values, min_size=1, max_size=5)


@st.composite
def yaml_documents(draw: st.DrawFn) -> tuple[str, dict[Any, Any]]:
	"""Draw a mapping and a YAML text that says it."""
	data = draw(mappings)
	text = yaml.safe_dump(
		data,
		default_flow_style=draw(st.sampled_from([None, False, True])),
		indent=draw(st.sampled_from([2, 4])),
		width=draw(st.sampled_from([20, 80, 1000])),
		allow_unicode=draw(st.booleans()),
		sort_keys=False,
	)
	quoted = json.dumps(data, indent=draw(st.sampled_from([None, 2]))) + "\n"
	text = quoted if draw(st.integers(0, 3)) == 0 and _means(quoted, data) else text
	other = text.replace("\n", draw(st.sampled_from(["\n", "\r\n", "\n\n", " # note\n"])))
	chosen = other if _means(other, data) else text
	assume(_means(chosen, data))  # PyYAML folds some long texts so that it reads them otherwise
	return chosen, data


def _means(text: str, data: Any) -> bool:
	try:
		return bool(yaml.safe_load(text) == data)
	except Exception:  # the constructors of PyYAML raise much
		return False


@st.composite
def json_documents(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
	"""Draw a mapping and a JSON text that says it."""
	data = draw(mappings)
	indent = draw(st.sampled_from([None, 2, 4, "\t"]))
	separators = draw(st.sampled_from([None, (",", ":"), (" , ", " : ")]))
	text = json.dumps(data, indent=indent, separators=separators, ensure_ascii=draw(st.booleans()))
	return draw(st.sampled_from(["", " ", "\n"])) + text + draw(st.sampled_from(["", "\n"])), data


def soup(tokens: Sequence[str], most: int = 20) -> st.SearchStrategy[str]:
	"""Draw texts made of the tokens of a language, in any order."""
	return st.lists(st.sampled_from(tokens), max_size=most).map("".join)


_COMMON = [
    "{", "}", "[", "]", ":", ": ", ",", '"', "'", "#", " #", "\n", " ", "a", "b", "null", "true", "-1", "1.5", "\\"
]  # fmt: skip
YAML_TOKENS = [
    *_COMMON,
    "\\", "\n  ", "\n- ", "- ", "? ", "010", "1:30", "<<: *a", "<<: [*a, *a]", "&a ", "*a", "!!str ", "!!int ", "!x",
    "|", ">", "|-\n", ">+\n", "---", "\n---\n", "...", "%YAML 1.1", "k: ", "x: y\n", "é", "=", "~", "2001-01-01",
    "!!set ", "\t", "\r\n", "\r", "\u0085", "\u2028", "\u0007", "😀", '"\\ud800"', "!!binary ", "!!omap ", "no", "@",
    "`", "{{ x }}"
]  # fmt: skip
JSON_TOKENS = [
    *_COMMON,
    "\\", "'''", "//", "/*", "*/", "\t", "false", "0", "1.0", "1e5", "1e999", "NaN", "-Infinity", "\\u00e9",
    "\\ud83d\\ude00", "\\ud800", "\\n", "\r\n", "\r", "\u00a0", "\u000b", "_", '"a":', "k:", '"x"', "٣", "\\u+123",
    "-", "a:\n'''\n x\n'''"
]  # fmt: skip
yaml_soups = soup(YAML_TOKENS)
json_soups = soup(JSON_TOKENS)


@st.composite
def damaged(draw: st.DrawFn, documents: st.SearchStrategy[tuple[str, Any]], tokens: Sequence[str]) -> str:
	"""Draw a text and damage it in one to three places."""
	text = draw(documents)[0]
	for _ in range(draw(st.integers(1, 3))):
		start = draw(st.integers(0, len(text)))
		length = draw(st.sampled_from([0, 0, 1, 3]))
		text = text[:start] + draw(st.sampled_from(["", *tokens])) + text[start + length :]
	return text


def pointers(data: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
	steps = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
	return [before, *(pointer for step, value in steps for pointer in pointers(value, (*before, step)))]
