"""The values of Python expressions, as far as they can be known without running anything; everything else is OPEN."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..model import Extent, Pointer
from .document import OPEN, Node
from .limits import MAX_DEPTH, MAX_NODES
from .python_scopes import Scope, dotted_name, followed

MOST_BITS = 200  # of a number that is worked out here
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
	ast.Add: operator.add,
	ast.Sub: operator.sub,
	ast.Mult: operator.mul,
	ast.Div: operator.truediv,
	ast.FloorDiv: operator.floordiv,
}
_LIBRARIES = ("accelerate", "transformers", "trl", "torch")


class Made(NamedTuple):
	"""An object that one of the recorded calls makes: its class, and which call it is."""

	name: str
	call: int


class Symbol(str):
	"""A name of a library, such as a member of an enumeration: the text is the last part, `dotted` the whole."""

	dotted: str

	@classmethod
	def of(cls, dotted: str) -> Symbol:
		found = cls(dotted.rpartition(".")[2])
		found.dotted = dotted
		return found

	@property
	def owner(self) -> str:
		return self.dotted.split(".")[-2]


class Values:
	"""Works out values, and notes where the entries of lists and mappings stand."""

	def __init__(self, extent: Callable[[ast.AST], Extent], calls: dict[ast.AST, Made]) -> None:
		self.extent = extent
		self.calls = calls
		self.nodes: dict[Pointer, Node] = {}
		self.budget = MAX_NODES

	def note(self, pointer: Pointer, value: ast.AST, key: Extent | None = None) -> None:
		self.nodes[pointer] = Node(key, self.extent(value))

	def value(self, node: ast.expr, scope: Scope, pointer: Pointer, depth: int = 0) -> Any:
		"""The value of an expression; entries in it are noted below the pointer."""
		self.budget -= 1
		if self.budget < 0 or depth > MAX_DEPTH:
			return OPEN
		if isinstance(node, ast.Name):
			return self._named(node, scope, pointer, depth)
		if isinstance(node, ast.Dict):
			return self._mapping(node, scope, pointer, depth)
		if isinstance(node, (ast.List, ast.Tuple)):
			return self._list(node.elts, scope, pointer, depth)
		if isinstance(node, ast.Call):
			return self._call(node, scope, pointer, depth)
		return self._plain(node, scope, depth)

	def _plain(self, node: ast.expr, scope: Scope, depth: int) -> Any:
		if isinstance(node, ast.Constant):
			return node.value if isinstance(node.value, (str, int, float)) or node.value is None else OPEN
		if isinstance(node, ast.Attribute):
			return member(node, scope)
		if isinstance(node, ast.UnaryOp):
			return signed(node.op, self.value(node.operand, scope, (), depth + 1))
		if isinstance(node, ast.BinOp):
			left = self.value(node.left, scope, (), depth + 1)
			return worked_out(node.op, left, self.value(node.right, scope, (), depth + 1))
		if isinstance(node, ast.JoinedStr) and all(isinstance(part, ast.Constant) for part in node.values):
			return "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
		return OPEN

	def _named(self, node: ast.Name, scope: Scope, pointer: Pointer, depth: int) -> Any:
		path = list(followed(node, scope))
		last, there = path[-1]
		if isinstance(last, ast.Name):
			return member(last, there)
		if isinstance(last, (ast.Dict, ast.List, ast.Call)) and any(map(is_changed, path)):
			return self.calls.get(last, OPEN)
		return self.value(last, there, pointer, depth + 1)

	def _list(self, items: Iterable[ast.expr], scope: Scope, pointer: Pointer, depth: int) -> Any:
		found = []
		for place, item in enumerate(items):
			if isinstance(item, ast.Starred):
				return OPEN
			self.note((*pointer, place), item)
			found.append(self.value(item, scope, (*pointer, place), depth + 1))
		return found

	def _mapping(self, node: ast.Dict, scope: Scope, pointer: Pointer, depth: int) -> Any:
		found: dict[Any, Any] = {}
		for key, item in zip(node.keys, node.values, strict=True):
			if key is None:
				more = self.value(item, scope, pointer, depth + 1)
				if not isinstance(more, dict):
					return OPEN
				found |= more
				continue
			name = self.value(key, scope, (), depth + 1)
			if not isinstance(name, (str, int, float)):
				return OPEN
			self.note((*pointer, name if isinstance(name, (str, int)) else str(name)), item, self.extent(key))
			found[name] = self.value(item, scope, (*pointer, name), depth + 1)  # type: ignore[arg-type]
		return found

	def _call(self, node: ast.Call, scope: Scope, pointer: Pointer, depth: int) -> Any:
		if node in self.calls:
			return self.calls[node]
		named = isinstance(node.func, ast.Name) and node.func.id == "dict" and all(one.arg for one in node.keywords)
		if named and not node.args and not scope.bindings("dict"):
			return self.keywords(node, scope, pointer, depth + 1)[0]
		return OPEN

	def keywords(self, node: ast.Call, scope: Scope, base: Pointer, depth: int = 0) -> tuple[dict[str, Any], bool]:
		"""The keywords of a call, those of a known mapping behind two stars too, and whether that is all of them."""
		found: dict[str, Any] = {}
		complete = True
		for one in node.keywords:
			pointer = base if one.arg is None else (*base, one.arg)
			if one.arg is not None:
				start = self.extent(one).start
				self.note(pointer, one.value, Extent(start, start + len(one.arg)))
			value = self.value(one.value, scope, pointer, depth)
			if one.arg is None:
				complete = complete and isinstance(value, dict)
			found |= {one.arg: value} if one.arg is not None else value if isinstance(value, dict) else {}
		return found, complete


def is_changed(step: tuple[ast.expr, Scope]) -> bool:
	node, scope = step
	owner = scope.owner(node.id) if isinstance(node, ast.Name) else None
	return owner is not None and isinstance(node, ast.Name) and node.id in owner.changed


def member(node: ast.expr, scope: Scope) -> Any:
	dotted = dotted_name(node, scope)
	return Symbol.of(dotted) if dotted.split(".")[0] in _LIBRARIES and "." in dotted else OPEN


def is_number(value: object) -> bool:
	return isinstance(value, (int, float))


def signed(sign: ast.unaryop, value: Any) -> Any:
	if isinstance(sign, ast.Not):
		plain = value is None or isinstance(value, (int, float, list, dict)) or type(value) is str
		return not value if plain else OPEN
	if not is_number(value) or isinstance(sign, ast.Invert):
		return OPEN
	return -value if isinstance(sign, ast.USub) else +value


def worked_out(sign: ast.operator, left: Any, right: Any) -> Any:
	if type(left) is str and type(right) is str and isinstance(sign, ast.Add):
		return left + right if len(left) + len(right) <= MAX_NODES else OPEN
	if not is_number(left) or not is_number(right):
		return OPEN
	try:
		if isinstance(sign, ast.Pow):
			small = abs(right) <= MOST_BITS and abs(left) <= 1 << 16
			found = left**right if small else OPEN
		else:
			found = _OPERATORS[type(sign)](left, right)
	except (ArithmeticError, KeyError):
		return OPEN
	too_long = isinstance(found, int) and found.bit_length() > MOST_BITS * 17
	return OPEN if too_long or isinstance(found, complex) else found
