"""Facts from the command line: a flag for each fact of the schema, over those of a file."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import cli_common as common
from . import cli_parser
from .resources import load_json
from .sources.limits import MAX_BYTES, Unreadable
from .sources.reading import Raw, decode, read_path
from .triage.fact_schema import HINTS, spelled_out

SCHEMA = "schemas/facts.schema.json"
# Facts whose flag is not called like them.
FLAGS = {"model.name": "model", "task.kind": "task"}


def add_fact_arguments(parser: argparse.ArgumentParser) -> None:
	group = parser.add_argument_group("facts")
	group.add_argument("--facts", metavar="FILE", help="facts as YAML or JSON, - for standard input; flags win")
	for name, schema in leaves():
		if not name.startswith("versions."):
			add_fact(group, name, schema)
	releases = parser.add_argument_group("releases (default: the newest ones known)")
	for library in (*common.LIBRARIES, "bitsandbytes"):
		releases.add_argument(f"--{library}-version", metavar="X.Y.Z", type=cli_parser.release)
	releases.add_argument("--installed", action="store_true", help="those that this Python has installed")


def leaves(schema: Mapping[str, Any] | None = None, above: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
	for name, part in (schema or load_json(SCHEMA))["properties"].items():
		if "properties" in part:
			yield from leaves(part, f"{above}{name}.")
		else:
			yield above + name, part


def add_fact(group: Any, name: str, schema: Mapping[str, Any]) -> None:
	flag = "--" + FLAGS.get(name, name.rpartition(".")[2]).replace("_", "-")
	text = schema.get("description", "").replace("%", "%%")
	options: dict[str, Any] = {"dest": name, "default": None, "help": text}
	if schema["type"] == "boolean":
		group.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
	elif schema["type"] == "array":
		group.add_argument(flag, nargs="+", metavar="NAME", **options)
	elif "enum" in schema:
		kind_of = task_kind if name == "task.kind" else str
		group.add_argument(flag, choices=schema["enum"], type=kind_of, **options)
	elif name == "model.config":
		group.add_argument(flag, metavar="FILE", **{**options, "help": "a Hugging Face config.json"})
	else:
		kinds: dict[str, Callable[[str], Any]] = {"integer": number, "number": number, "string": str}
		kind = tokens if name == "batch.seq" else kinds[schema["type"]]
		metavar = "NAME" if schema["type"] == "string" else "N"
		group.add_argument(flag, metavar=metavar, type=kind, **options)


def number(text: str) -> float | int:
	value = spelled_out(text)
	if value is None:
		try:
			return int(text)  # a negative one, which the check of the facts explains
		except ValueError:
			raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 8, 80.5, 8e9 or 7b") from None
	return value


def tokens(text: str) -> float | int:
	value = spelled_out(text, 1024)
	return number(text) if value is None else value


def task_kind(text: str) -> str:
	hint = HINTS.get(text.lower())
	if hint and text not in load_json(SCHEMA)["properties"]["task"]["properties"]["kind"]["enum"]:
		raise argparse.ArgumentTypeError(f"{text!r} is no kind of task; {hint}")
	return text


def facts_from(args: argparse.Namespace) -> dict[str, Any]:
	facts: dict[str, Any] = loaded(args.facts) if args.facts else {}
	for name, _ in leaves():
		value = getattr(args, name, None)
		if value is not None:
			put(facts, name, json_file(value) if name == "model.config" else value)
	for library, release in releases(args):
		put(facts, f"versions.{library}", release)
	return facts


def put(facts: dict[str, Any], name: str, value: Any) -> None:
	group, _, inner = name.rpartition(".")
	target = facts.setdefault(group, {}) if group else facts
	if not isinstance(target, dict):
		raise common.UsageError(f"{group} in the file is no mapping, so that a flag cannot add to it")
	target[inner] = value


def releases(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
	libraries = (*common.LIBRARIES, "bitsandbytes")
	if args.installed:
		from . import installed

		yield from ((name, found) for name, found in installed.releases(libraries).items() if found)
	for library in libraries:
		if given := getattr(args, f"{library}_version"):
			yield library, given


def loaded(path: str) -> dict[str, Any]:
	from .triage.fact_text import facts_in

	if path == "-" and sys.stdin is None:
		raise common.UsageError("--facts -: standard input is closed")
	raw = decode(sys.stdin.buffer.read(MAX_BYTES + 1), "-") if path == "-" else read_path(path)
	return facts_in(text_of(raw, path), path)


def text_of(raw: Raw | Unreadable, path: str) -> str:
	if isinstance(raw, Unreadable):
		raise common.UsageError(f"{path}: {raw.message}")
	return raw.text


def json_file(path: str) -> Any:
	text = text_of(read_path(path), path)
	try:
		return json.loads(text)
	except RecursionError:
		raise common.UsageError(f"{path}: it is nested too deep") from None
	except ValueError as error:
		raise common.UsageError(f"{path} is no JSON: {error}") from None
