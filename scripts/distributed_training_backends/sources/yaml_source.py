"""YAML 1.1 as PyYAML's safe loader reads it, with the extent of every key and value.

Events are composed here rather than by PyYAML, so that the limits hold before anything is built; the values are
then made by PyYAML's own constructor, so that they are what `yaml.safe_load` gives.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from ..model import Extent, Kind, Pointer
from . import marks
from .document import Defect, Document, Node
from .limits import MAX_DEPTH, MAX_NODES, alias_expansion, check_number, too_deep, too_many_nodes

# libyaml reads these characters as PyYAML does; it differs in tabs, tags, `?`, block scalars and escapes
_SAME_IN_LIBYAML = re.compile(r"[\n A-Za-z0-9_.,:/#'\"()+=<$@~^;{}\[\]&*`-]*")
_COMMENT = re.compile(r"(?<![^ \n])#[ -!#-&(-\[\]-~]*")
_MAP, _SEQ, _STR, _MERGE = (f"tag:yaml.org,2002:{name}" for name in ("map", "seq", "str", "merge"))
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
# what PyYAML's constructors raise on a value that its tag does not fit, besides its own errors
_REFUSALS = (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError)


class _Pair(NamedTuple):
	key: yaml.Node
	value: yaml.Node
	key_extent: Extent
	value_extent: Extent


class _Open(NamedTuple):
	"""A collection whose end has not come yet."""

	node: yaml.CollectionNode
	children: list[tuple[yaml.Node, Extent]]


class _Tree:
	"""The graph of nodes of one document, with extents by occurrence, and its expanded size and depth.

	Events are `Any`, because the types of their marks differ between PyYAML and its binding of libyaml.
	"""

	def __init__(self) -> None:
		self.root: yaml.Node | None = None
		self.root_extent = Extent(0, 0)
		self.pairs: dict[int, list[_Pair]] = {}
		self.places: dict[tuple[int, int], _Pair] = {}
		self.items: dict[int, list[Extent]] = {}
		self._measure: dict[int, tuple[int, int]] = {}
		self._anchors: dict[str, yaml.Node] = {}
		self._resolver: Any = Resolver()
		self._open: list[_Open] = []
		self._total = 0

	def feed(self, event: Any, text: str) -> None:
		if isinstance(event, yaml.AliasEvent):
			self._alias(event)
		elif isinstance(event, yaml.ScalarEvent):
			self._scalar(event, text)
		elif isinstance(event, yaml.CollectionStartEvent):
			self._start(event)
		else:
			self._end(event)

	def _alias(self, event: Any) -> None:
		node = self._anchors.get(event.anchor)
		if node is None:
			raise yaml.composer.ComposerError(None, None, f"found undefined alias {event.anchor!r}", event.start_mark)
		if id(node) not in self._measure:
			raise alias_expansion()  # it contains itself
		self._total += self._measure[id(node)][0]
		if self._total > MAX_NODES:
			raise alias_expansion()
		self._attach(node, Extent(event.start_mark.index, event.end_mark.index))

	def _new(self, node: yaml.Node, anchor: str | None) -> None:
		self._total += 1
		if self._total > MAX_NODES:
			raise too_many_nodes()
		if anchor is None:
			return
		if anchor in self._anchors:
			raise yaml.composer.ComposerError(
				f"found duplicate anchor {anchor!r}; first occurrence",
				self._anchors[anchor].start_mark,
				"second occurrence",
				node.start_mark,
			)
		self._anchors[anchor] = node

	def _scalar(self, event: Any, text: str) -> None:
		tag = event.tag
		if tag is None or tag == "!":
			tag = self._resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
		if tag in _NUMBERS:
			check_number(event.value)
		node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark, style=event.style or None)
		self._new(node, event.anchor)
		self._measure[id(node)] = (1, 0)
		extent = Extent(event.start_mark.index, event.end_mark.index)
		self._attach(node, marks.block_scalar(text, extent) if event.style in ("|", ">") else extent)

	def _start(self, event: Any) -> None:
		kind, default = (
			(yaml.MappingNode, _MAP) if isinstance(event, yaml.MappingStartEvent) else (yaml.SequenceNode, _SEQ)
		)
		tag = default if event.tag is None or event.tag == "!" else event.tag
		node = kind(tag, [], event.start_mark, None, flow_style=event.flow_style)
		self._new(node, event.anchor)
		self._open.append(_Open(node, []))
		if len(self._open) > MAX_DEPTH:
			raise too_deep()

	def _end(self, event: Any) -> None:
		node, children = self._open.pop()
		node.end_mark = event.end_mark
		end = event.end_mark.index if node.flow_style or not children else children[-1][1].end
		sizes = [self._measure[id(child)] for child, _ in children]
		self._measure[id(node)] = (1 + sum(size for size, _ in sizes), 1 + max((deep for _, deep in sizes), default=0))
		if self._measure[id(node)][1] > MAX_DEPTH:
			raise too_deep()
		if isinstance(node, yaml.SequenceNode):
			node.value = [child for child, _ in children]
			self.items[id(node)] = [extent for _, extent in children]
		else:
			self._pair(node, children)
		self._attach(node, Extent(node.start_mark.index, end))

	def _pair(self, node: yaml.CollectionNode, children: list[tuple[yaml.Node, Extent]]) -> None:
		pairs = [
			_Pair(key, value, key_at, value_at)
			for (key, key_at), (value, value_at) in zip(children[::2], children[1::2], strict=True)
		]
		node.value = [(pair.key, pair.value) for pair in pairs]
		self.pairs[id(node)] = pairs
		self.places.update(((id(pair.key), id(pair.value)), pair) for pair in pairs)

	def _attach(self, node: yaml.Node, extent: Extent) -> None:
		if self._open:
			self._open[-1].children.append((node, extent))
		else:
			self.root, self.root_extent = node, extent


class _Constructor(SafeConstructor):
	"""PyYAML's constructor, which says of a value that its tag does not fit where that stands."""

	def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
		try:
			return super().construct_object(node, deep)
		except yaml.YAMLError:
			raise
		except _REFUSALS as error:
			problem = f"{type(error).__name__}: {error}"
			raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


class _Walk:
	"""Gives every entry of a constructed tree its pointer, and notes what is odd about the text of scalars."""

	def __init__(self, tree: _Tree, constructor: SafeConstructor) -> None:
		self.nodes: dict[Pointer, Node] = {}
		self.defects: list[Defect] = []
		self._tree = tree
		self._constructor = constructor

	def visit(self, node: yaml.Node, pointer: Pointer, place: Node) -> None:
		"""Record an entry and those below it. The depth is bounded by the limit on nesting."""
		self.nodes[pointer] = place
		if isinstance(node, yaml.ScalarNode):
			self.defects.extend(marks.scalar_defects(node.tag, node.value, node.style, place.value, pointer))
		elif node.tag == _SEQ and isinstance(node, yaml.SequenceNode):
			extents = self._tree.items[id(node)]
			for index, (child, extent) in enumerate(zip(node.value, extents, strict=True)):
				self.visit(child, (*pointer, index), Node(None, extent))
		elif node.tag == _MAP and isinstance(node, yaml.MappingNode):
			self._mapping(node, pointer)

	def _mapping(self, node: yaml.MappingNode, pointer: Pointer) -> None:
		self._duplicates(node, pointer)
		last = {self._key(key): self._tree.places[id(key), id(value)] for key, value in node.value}
		for key, pair in last.items():
			self.visit(pair.value, (*pointer, key), Node(pair.key_extent, pair.value_extent))

	def _duplicates(self, node: yaml.MappingNode, pointer: Pointer) -> None:
		seen: dict[Any, _Pair] = {}
		for pair in self._tree.pairs[id(node)]:
			if pair.key.tag == _MERGE:
				continue
			key = self._key(pair.key)
			if key in seen:
				extent = Extent(seen[key].key_extent.start, seen[key].value_extent.end)
				self.defects.append(Defect("duplicate-key", extent, str(key), (*pointer, key)))
			seen[key] = pair

	def _key(self, node: yaml.Node) -> Any:
		return node.value if node.tag == _STR else self._constructor.construct_object(node, deep=True)


def parse_yaml(path: str, text: str, kind: Kind) -> Document:
	"""Read one YAML document. Raises `LimitError`; whatever PyYAML refuses becomes a defect."""
	try:
		data, nodes, defects = _read(text)
	except _REFUSALS as error:
		defects = [_refusal(error, text), *marks.template_marks(text)]
		return Document(path, kind, "yaml", text, None, {}, tuple(defects), parsed=False)
	return Document(path, kind, "yaml", text, data, nodes, (*defects, *marks.shape_defects(data, text)))


def _read(text: str) -> tuple[Any, dict[Pointer, Node], list[Defect]]:
	tree = _compose(text)
	if tree.root is None:
		return None, {}, []
	constructor = _Constructor()
	data = constructor.construct_document(tree.root)
	walk = _Walk(tree, constructor)
	walk.visit(tree.root, (), Node(None, tree.root_extent))
	return data, walk.nodes, walk.defects


def plain_data(text: str) -> tuple[Any, bool]:
	"""The data alone, by libyaml, several times faster; and whether that is sure: no key twice, no anchor, no alias,
	and nothing that libyaml and PyYAML read differently."""
	fast = _libyaml_for(text)
	if fast is None or "&" in text or "*" in text or "<<" in text:
		return None, False
	try:
		root = yaml.compose(text, fast)
		data = _Constructor().construct_document(root) if root is not None else None
	except _REFUSALS:
		return None, False
	return data, root is not None and _pairs(root) == _keys(data)


def _pairs(node: yaml.Node) -> int:
	if isinstance(node, yaml.MappingNode):
		return sum(1 + _pairs(value) for _, value in node.value)
	return sum(map(_pairs, node.value)) if isinstance(node, yaml.SequenceNode) else 0


def _keys(data: Any) -> int:
	if isinstance(data, dict):
		return sum(1 + _keys(value) for value in data.values())
	return sum(map(_keys, data)) if isinstance(data, list) else 0


def _libyaml_for(text: str) -> Any:
	fast = getattr(yaml, "CSafeLoader", None)
	return fast if fast is not None and _SAME_IN_LIBYAML.fullmatch(_COMMENT.sub("", text)) else None


def _compose(text: str) -> _Tree:
	fast = _libyaml_for(text)
	if fast is not None:
		try:
			tree = _compose_with(fast, text)
		except yaml.YAMLError:
			return _compose_with(yaml.SafeLoader, text)  # PyYAML's own parser has the last word, and its own words
		# libyaml places the missing value of `{key: }` behind the blank
		if not any(_astray(pair, text) for pair in tree.places.values()):
			return tree
	return _compose_with(yaml.SafeLoader, text)


def _astray(pair: _Pair, text: str) -> bool:
	start, end = pair.value_extent
	return start == end and text[start - 1 : start] in (" ", "\n")


def _compose_with(loader: Any, text: str) -> _Tree:
	tree = _Tree()
	for event in _root_events(loader(text)):
		tree.feed(event, text)
	return tree


def _root_events(parser: Any) -> Iterator[yaml.Event]:
	"""Give the events of the only document; a second one is refused as `safe_load` refuses it."""
	parser.get_event()
	if parser.check_event(yaml.StreamEndEvent):
		return
	document = parser.get_event()
	while not parser.check_event(yaml.DocumentEndEvent):
		yield parser.get_event()
	parser.get_event()
	if not parser.check_event(yaml.StreamEndEvent):
		raise yaml.composer.ComposerError(
			"expected a single document in the stream",
			document.start_mark,
			"but found another document",
			parser.get_event().start_mark,
		)


def _refusal(error: Exception, text: str) -> Defect:
	mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
	position = getattr(error, "position", 0) if mark is None else mark.index
	if isinstance(error, yaml.MarkedYAMLError):
		said = ", ".join(part for part in (error.context, error.problem) if part)
	elif isinstance(error, yaml.reader.ReaderError):
		said = str(error).split("\n", 1)[0]
	else:
		said = f"{type(error).__name__}: {error}"
	return Defect("syntax-error", marks.around(text, position), said)
