"""The words of a shell script, without running it: bash's own lexical rules, in linear time.

Every character carries where it comes from, so that a word that a variable put into a command still has a place.
A character that only the shell can fill in is HOLE; an array is ITEM, and its items with ITEM behind each. Source: the
Bash reference manual, "Shell Operation".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..model import Extent

HOLE = "\0"  # never in a decoded text: a file with it is refused as binary
ITEM = "\1"
PLAIN = re.compile(r"[^\s\\'\"`$#;&|<>()*?\[\]{}~!]+")
PLACEHOLDER = re.compile(r"<[A-Za-z][\w .-]{0,80}>|\{[A-Za-z_][\w.-]{0,80}\}")  # what a page leaves to its readers
OPERATOR = re.compile(r"\r\n|\n|\r|;;&|;;|;&|;|&&|\|\||\|&|\||&(?!>)|\(|\)")
REDIRECTION = re.compile(r"(?:\d+|\{\w+\})?(?:&>>?|<<<|<<-?|<>|>>|>\||[<>]&?)")
NAME = re.compile(r"[A-Za-z_]\w*")
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[[^\]\n]{0,200}\])?\+?=")
CONTINUED = re.compile(r"\\(?:\r\n|\n|\r)")
GOES_ON = re.compile(r"(?:\s|#[^\r\n]*[\r\n])*-")
COMMENT = re.compile(r"#[^\r\n]*")
REST = re.compile(r"[^\r\n]*")
VARIABLE = re.compile(r"([A-Za-z_]\w*)(\[[@*]\])?")
OPENERS = {"(": ")", "{": "}"}
GLOB = "*?["


class Text(NamedTuple):
	"""Characters, and for each the offset in the whole text that it comes from."""

	chars: str
	spots: Sequence[int]

	@property
	def extent(self) -> Extent:
		"""Where the characters stand, from the first to the last of them."""
		return Extent(min(self.spots), max(self.spots) + 1) if len(self.spots) else Extent(0, 0)


class Token(NamedTuple):
	"""A word (`kind` "word"), an assignment, an operator, a comment, or a flaw.

	Flaws: "unclosed" a quote or an array, "blank" an escaped blank in the place of a continued line, "cut" a comment
	that ends a continued command although options follow."""

	kind: str
	text: Text
	extent: Extent
	quoted: bool = False


Lookup = Callable[[str], "Text | None"]


class Lexer:
	"""Reads tokens; variables are asked for at the moment they stand in a word, so that a caller may set them."""

	def __init__(self, source: Text, lookup: Lookup, in_array: bool = False) -> None:
		self.chars, self.spots = source.chars, source.spots
		self.lookup, self.in_array = lookup, in_array
		self.position, self.torn = 0, False
		self.heredocs: list[tuple[str, bool]] = []
		self.inner: list[Extent] = []  # the commands inside `$( )`, to be read on their own

	def place(self, start: int, end: int) -> Extent:
		if not len(self.spots):
			return Extent(0, 0)
		last = self.spots[min(max(end - 1, start), len(self.spots) - 1)]
		first = self.spots[min(start, len(self.spots) - 1)]
		return Extent(first, last + 1) if first <= last else Extent(first, first + 1)

	def part(self, start: int, end: int) -> Text:
		return Text(self.chars[start:end], self.spots[start:end])

	def tokens(self) -> Iterator[Token]:
		"""Give the tokens one by one."""
		start_of_word, continued = True, False
		while self.position < len(self.chars):
			here, char = self.position, self.chars[self.position]
			if char in " \t\f\v":
				self.position += 1
				start_of_word = True
			elif found := CONTINUED.match(self.chars, here):
				self.position = found.end()
				continued = True
				continue
			elif char == "#" and (start_of_word or continued):
				self.position = self._end_of(COMMENT)
				cuts = continued and GOES_ON.match(self.chars, self.position)
				kind = "cut" if cuts else "comment"
				yield Token(kind, self.part(here, self.position), self.place(here, self.position))
			elif not PLACEHOLDER.match(self.chars, here) and (found := REDIRECTION.match(self.chars, here)):
				self._redirect(found)
				start_of_word = True
			elif found := OPERATOR.match(self.chars, here):
				yield from self._operator(found)
				start_of_word = True
			else:
				yield from self._word()
				start_of_word = False
			continued = continued and char in " \t\f\v"

	def _end_of(self, pattern: re.Pattern[str]) -> int:
		found = pattern.match(self.chars, self.position)
		return found.end() if found else self.position

	def _operator(self, found: re.Match[str]) -> Iterator[Token]:
		start, text = found.start(), found.group()
		if self.chars.startswith("((", start):
			self.position = self.closing(start)
			return
		self.position = found.end()
		if text[0] in "\r\n":
			self._skip_heredocs()
			text = "\n"
		yield Token("operator", Text(text, ()), self.place(start, found.end()))

	def _redirect(self, found: re.Match[str]) -> None:
		self.position = found.end()
		if found.group().endswith("<") and self.chars.startswith("(", self.position):
			self.position = self.closing(self.position)
			return
		while self.position < len(self.chars) and self.chars[self.position] in " \t":
			self.position += 1
		heredoc = re.search(r"(?<!<)<<(-?)$", found.group())
		start = self.position
		for _ in self._word():
			pass
		if heredoc and self.position > start:
			mark = re.sub(r"[\\'\"]", "", self.chars[start : self.position])
			self.heredocs.append((mark, bool(heredoc.group(1))))

	def _skip_heredocs(self) -> None:
		for mark, indented in self.heredocs:
			blanks = r"\t*" if indented else ""
			closing = re.compile(rf"^{blanks}{re.escape(mark)}[ \t]*\r?$", re.MULTILINE)
			found = closing.search(self.chars, self.position)
			self.position = min(found.end() + 1, len(self.chars)) if found else len(self.chars)
		self.heredocs = []

	def closing(self, start: int) -> int:
		"""The position behind the bracket that closes the one at `start`; the end of the text without one."""
		stack, position = [OPENERS[self.chars[start]]], start + 1
		while stack and position < len(self.chars):
			char = self.chars[position]
			if char == "\\" and stack[-1] != "'":
				position += 1
			elif char == stack[-1]:
				stack.pop()
			elif stack[-1] == "'":
				pass
			elif stack[-1] == '"':
				if self.chars.startswith(("$(", "${"), position):
					position += 1
					stack.append(OPENERS[self.chars[position]])
			elif char in "'\"`":
				stack.append(char)
			elif char in OPENERS:
				stack.append(OPENERS[char])
			elif char == "#" and self.chars[position - 1] in " \t\n(" and stack[-1] == ")":
				self.position = position
				position = self._end_of(COMMENT) - 1
			position += 1
		return min(position, len(self.chars))

	# --- words ---

	def _word(self) -> Iterator[Token]:
		"""Read one word, which may come to several, or to none, by the variables in it."""
		start = self.position
		assigned = None if self.in_array else ASSIGNMENT.match(self.chars, start)
		builder = _Builder(split=assigned is None)
		if assigned and self.chars.startswith("(", assigned.end()):
			builder.add(self.part(start, assigned.end()))
			self._items(builder, assigned.end())
		while self.position < len(self.chars) and (self._in_word() or PLACEHOLDER.match(self.chars, self.position)):
			self._piece(builder)
		if self.position == start:  # nothing that could be read as part of a word
			self.position += 1
			return
		extent = self.place(start, self.position)
		yield from (self._token(text, extent, builder, assigned) for text in builder.words())
		if builder.unclosed:
			yield Token("unclosed", self.part(start, start + 1), self.place(start, start + 1))

	def _items(self, builder: _Builder, start: int) -> None:
		"""Put the items of an array in brackets, or a hole for what is none; unclosed it ends with its line."""
		end = len(self.chars) if self.torn else self.closing(start)
		if self.torn or self.chars[end - 1] != ")":
			self.position, self.torn, builder.unclosed = start, True, True
			self.position = self._end_of(REST)
			builder.hole(self.spots[start])
			return
		self.position = end
		items = list(Lexer(self.part(start + 1, self.position - 1), self.lookup, in_array=True).tokens())
		words = [item for item in items if item.kind != "comment" and item.text.chars != "\n"]
		if any(word.kind != "word" for word in words):
			builder.hole(self.spots[start])
			words = []
		else:
			builder.add(Text(ITEM, (self.spots[start],)))
		for _, text, extent, _ in words:
			builder.add(Text(text.chars + ITEM, (*text.spots, extent.end)))

	def _token(self, text: Text, extent: Extent, builder: _Builder, assigned: object) -> Token:
		whole = not builder.parted
		placed = extent if whole or not len(text.spots) or HOLE in text.chars else text.extent
		blank = whole and text.chars.strip() == "" and text.chars != "" and not builder.quoted
		kind = "assignment" if assigned else "blank" if blank else "word"
		return Token(kind, text, placed, builder.quoted)

	def _in_word(self) -> bool:
		return self.chars[self.position] not in " \t\f\v\r\n;&|<>()"

	def _piece(self, builder: _Builder) -> None:
		here, char = self.position, self.chars[self.position]
		if found := PLACEHOLDER.match(self.chars, here):
			self.position = found.end()
			builder.hole(self.spots[here])
		elif found := PLAIN.match(self.chars, here):
			self.position = found.end()
			builder.add(self.part(here, self.position))
		elif char == "\\":
			self._escaped(builder)
		elif char == "'":
			self._single(builder, here + 1)
		elif char == '"':
			self._double(builder)
		elif char in "$`":
			self._expansion(builder, quoted=False)
		else:
			self.position += 1
			builder.add(self.part(here, self.position))
			if char in GLOB or (
				char == "{" and re.match(r"[^\s{}'\"]*[,.][^\s{}'\"]*\}", self.chars[here + 1 : here + 200])
			):
				builder.glob = True

	def _escaped(self, builder: _Builder) -> None:
		here = self.position
		if found := CONTINUED.match(self.chars, here):
			self.position = found.end()
			return
		self.position = min(here + 2, len(self.chars))
		builder.add(self.part(here + 1, self.position))

	def _single(self, builder: _Builder, start: int) -> None:
		end = self.chars.find("'", start)
		builder.quoted, builder.unclosed = True, end < 0
		end = len(self.chars) if end < 0 else end
		builder.add(self.part(start, end))
		self.position = min(end + 1, len(self.chars))

	def _double(self, builder: _Builder) -> None:
		builder.quoted = True
		self.position += 1
		plain = re.compile(r'[^"\\$`]+')
		while self.position < len(self.chars):
			here, char = self.position, self.chars[self.position]
			if char == '"':
				self.position += 1
				return
			if found := plain.match(self.chars, here):
				self.position = found.end()
				builder.add(self.part(here, self.position))
			elif char in "$`":
				self._expansion(builder, quoted=True)
			elif found := CONTINUED.match(self.chars, here):
				self.position = found.end()
			else:  # a backslash
				escapes = self.chars[here + 1 : here + 2] in tuple('$`"\\')
				self.position = min(here + 2, len(self.chars))
				builder.add(self.part(here + escapes, self.position))
		builder.unclosed = True

	def _expansion(self, builder: _Builder, quoted: bool) -> None:
		here = self.position
		following = self.chars[here + 1 : here + 2]
		if self.chars[here] == "`":
			end = self.chars.find("`", here + 1)
			self.position = len(self.chars) if end < 0 else end + 1
			builder.hole(self.spots[here])
		elif following == "'" and not quoted:
			self._single(builder, here + 2)
		elif following in OPENERS:
			self.position = self.closing(here + 1)
			if following == "(" and not self.chars.startswith("((", here + 1):
				self.inner.append(Extent(here + 2, self.position - 1))
			inside = self.chars[here + 2 : self.position - 1] if following == "{" else ""
			self._put(builder, VARIABLE.fullmatch(inside), here, quoted)
		elif found := NAME.match(self.chars, here + 1):
			self.position = found.end()
			self._put(builder, VARIABLE.match(found.group()), here, quoted)
		elif following and following in "@*#?$!-0123456789":
			self.position = here + 2
			builder.hole(self.spots[here])
		else:
			self.position = here + 1
			builder.add(self.part(here, here + 1))

	def _put(self, builder: _Builder, found: re.Match[str] | None, here: int, quoted: bool) -> None:
		value = self.lookup(found[1]) if found else None
		if found is None or value is None:
			builder.hole(self.spots[here])
		elif found[2] == "[@]" and quoted and builder.split and value.chars.startswith(ITEM):
			builder.add_items(value)
		elif quoted or not builder.split:
			builder.add(as_one(value, found[2]))
		else:
			builder.add_split(as_one(value, found[2]))


def as_one(value: Text, all_items: str | None) -> Text:
	"""An array as one text: its items with blanks between them, or the first one."""
	if not value.chars.startswith(ITEM):
		return value
	chars = value.chars[1:].removesuffix(ITEM).replace(ITEM, " ") if all_items else value.chars.split(ITEM)[1]
	return Text(chars, value.spots[1 : len(chars) + 1])


class _Builder:
	"""Collects the characters of a word; an unquoted variable may part it into several."""

	def __init__(self, split: bool) -> None:
		self.split = split
		self.done: list[Text] = []
		self.chars: list[str] = []
		self.spots: list[int] = []
		self.quoted = self.unclosed = self.glob = self.parted = self.began = self.gone = False

	def add(self, text: Text) -> None:
		self.began = True
		self.chars.append(text.chars)
		self.spots.extend(text.spots)

	def hole(self, spot: int) -> None:
		self.add(Text(HOLE, (spot,)))

	def add_split(self, value: Text) -> None:
		end = 0
		for found in re.finditer(r"\s+", value.chars):
			self._add_part(value, end, found.start())
			self._finish()
			end = found.end()
			self.parted = True
		self._add_part(value, end, len(value.chars))
		self.parted = True

	def add_items(self, value: Text) -> None:
		self.parted, self.gone = True, value.chars == ITEM
		for found in re.compile(f"([^{ITEM}]*){ITEM}").finditer(value.chars, 1):
			if found.start() > 1:
				self._finish()
			self.add(Text(found[1], value.spots[slice(*found.span(1))]))

	def _add_part(self, value: Text, start: int, end: int) -> None:
		if end > start:
			self.add(Text(value.chars[start:end], value.spots[start:end]))

	def _finish(self) -> None:
		if self.chars:
			self.done.append(Text("".join(self.chars), tuple(self.spots)))
		self.chars, self.spots = [], []

	def words(self) -> list[Text]:
		"""The words that it comes to: none for an empty variable, one for an empty pair of quotes."""
		if self.glob and not self.quoted and self.chars not in (["["], ["[", "["]):
			self.hole(self.spots[-1] if self.spots else 0)
		self._finish()
		if not self.done and (self.quoted or self.began):
			return [Text("", ())] if self.quoted and not self.gone else []
		return self.done
