"""Is a message, as a page quotes it, one that a library can give? Looks for it among the texts of their sources."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.oracle.environment import Environment
from tests.pages import matches

# The whole of torch and Transformers would take minutes; these parts speak about distributed training.
SEARCHED = (
	"accelerate",
	"deepspeed",
	"torch/distributed",
	"torch/nn/parallel",
	"torch/nn/modules",
	"torch/cuda",
	"torch/utils/checkpoint.py",
	"transformers/integrations",
	"transformers/modeling_utils.py",
	"transformers/trainer.py",
	"transformers/training_args.py",
)
# Words of so many letters are in nearly every file.
SHORT = 4
PLACEHOLDER = "\N{OBJECT REPLACEMENT CHARACTER}"


def packages(environment: Environment) -> Path:
	return next(environment.home.glob("lib/python3.*/site-packages"))


@cache
def sources(environment: Environment) -> dict[Path, str]:
	roots = [packages(environment) / name for name in SEARCHED]
	files = [file for root in roots for file in ([root] if root.is_file() else sorted(root.rglob("*.py")))]
	return {file: file.read_text(encoding="utf-8", errors="replace") for file in files}


def is_given(message: str, environment: Environment) -> bool:
	"""Whether a text of some source holds the message; `…` in it stands for any text."""
	words = [word for word in re.findall(r"[A-Za-z_]+", message) if len(word) > SHORT]
	return any(
		matches(message, text)
		for file, source in sources(environment).items()
		if all(word in source for word in words)
		for text in texts(file)
	)


@cache
def texts(file: Path) -> list[str]:
	return list(_texts(ast.parse(file.read_text(encoding="utf-8", errors="replace"))))


def _texts(tree: ast.AST) -> Iterator[str]:
	for node in ast.walk(tree):
		if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp) and (text := _text(node)):
			yield text


def _text(node: ast.AST) -> str:
	if isinstance(node, ast.Constant):
		return node.value if isinstance(node.value, str) else ""
	if isinstance(node, ast.JoinedStr):
		return "".join(_text(part) for part in node.values)
	if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
		return _text(node.left) + _text(node.right)
	return PLACEHOLDER
