"""The messages that libraries raise or warn with, out of their sources; how many of them diagnosis leads to a cause.

python tools/diagnosis_messages.py ACCELERATE_PACKAGE DEEPSPEED_PACKAGE [--rest]
"""

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import project  # noqa: F401 (it finds the code)
from distributed_training_backends import api

# What is about backends: Accelerate as a whole without what dispatches big models, trackers and the terminal; of
# DeepSpeed the configuration, the engine, ZeRO, communication and the launcher.
ACCELERATE_WITHOUT = "big_modeling hooks tracking menu test_utils estimate offload modeling tqdm"
DEEPSPEED_PARTS = """
__init__.py comm/comm.py comm/torch.py launcher/launch.py launcher/runner.py ops/adam/cpu_adam.py
ops/op_builder/builder.py runtime/base_optimizer.py runtime/bf16_optimizer.py runtime/config.py runtime/config_utils.py
runtime/dataloader.py runtime/engine.py runtime/fp16 runtime/lr_schedules.py runtime/pipe/engine.py
runtime/pipe/module.py runtime/precision_config.py runtime/sequence_parallel runtime/tensor_parallel runtime/zero
sequence/layer.py utils/groups.py checkpoint/ds_to_universal.py
"""
PLACES = {"rank": "0", "world_size": "8"}


class Message(NamedTuple):
	place: str
	line: str


def messages(path: Path, name: str) -> Iterator[Message]:
	for node in ast.walk(ast.parse(path.read_text("utf-8"))):
		if said := said_by(node):
			kind, expression = said
			text = " ".join(text_of(expression).split())
			if len([word for word in text.split() if word.isalpha()]) >= 3:
				yield Message(f"{name}:{expression.lineno}", f"{kind}: {text}" if kind else f"[WARNING] {text}")


def said_by(node: ast.AST) -> tuple[str, ast.expr] | None:
	match node:
		case ast.Assert(msg=ast.expr() as text):
			return "AssertionError", text
		case ast.Raise(exc=ast.Call(func=kind, args=[text, *_])):
			return ast.unparse(kind).split(".")[-1], text
		case ast.Call(func=ast.Attribute(attr="warn" | "warning" | "warning_once" | "error"), args=[text, *_]):
			return "", text
	return None


def text_of(node: ast.expr) -> str:
	match node:
		case ast.Constant(value=value):
			return str(value)
		case ast.JoinedStr(values=parts):
			return "".join(map(text_of, parts))
		case ast.FormattedValue(value=value):
			return PLACES.get(ast.unparse(value), "value")
		case ast.BinOp(left=left, op=ast.Add(), right=right):
			return text_of(left) + text_of(right)
		case ast.BinOp(left=text, op=ast.Mod()):
			return text_of(text).replace("%s", "value").replace("%d", "8")
		case ast.Call(func=ast.Attribute(value=text, attr="format" | "join")):
			return text_of(text).replace("{}", "value")
	return "value"


def of_accelerate(package: Path) -> Iterator[Message]:
	for path in sorted(package.rglob("*.py")):
		name = path.relative_to(package.parent).as_posix()
		if not any(part in name for part in ACCELERATE_WITHOUT.split()):
			yield from messages(path, name)


def of_deepspeed(package: Path) -> Iterator[Message]:
	for path in sorted(package.rglob("*.py")):
		name = path.relative_to(package).as_posix()
		if name.startswith(tuple(DEEPSPEED_PARTS.split())):
			yield from messages(path, f"deepspeed/{name}")


def known(message: Message) -> tuple[bool, bool]:
	"""Whether a message leads to a cause: by its text alone, and with the file that raises it in the traceback."""
	if message.line.startswith("["):
		found = bool(api.diagnose(f"{message.line}\nValueError: stopped\n").causes)
		return found, found
	head, file = "Traceback (most recent call last):", f"/opt/lib/python3/site-packages/{message.place.split(':')[0]}"
	texts = (f'{head}\n  File "{place}", line 8, in f\n{message.line}\n' for place in ("train.py", file))
	alone, placed = (bool(api.diagnose(text).causes) for text in texts)
	return alone, placed


def main() -> int:
	parser = argparse.ArgumentParser(description=__doc__)
	parser.add_argument("accelerate", type=Path)
	parser.add_argument("deepspeed", type=Path)
	parser.add_argument("--rest", action="store_true", help="list what leads to no cause by its text")
	given = parser.parse_args()
	both = {"Accelerate": of_accelerate(given.accelerate), "DeepSpeed": of_deepspeed(given.deepspeed)}
	for library, listed in both.items():
		found = [(message, known(message)) for message in dict.fromkeys(listed)]
		alone, placed = (sum(ways[place] for _, ways in found) for place in (0, 1))
		by_text, by_file = (f"{number} ({number / len(found):.0%})" for number in (alone, placed))
		print(f"{library}: {len(found)} messages; {by_text} lead to a cause by their text, {by_file} with their file")
		if given.rest:
			print("\n".join(f"  {message.place}: {message.line[:200]}" for message, ways in found if not ways[0]))
	return 0


if __name__ == "__main__":
	raise SystemExit(main())
