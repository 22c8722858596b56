"""The commands of a shell script with the variables that are plainly set before them. Nothing is run.

A variable that is set inside a branch, a loop or a function is known there only, and open behind it; one that a loop or
a function sets again is open from its beginning.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ..model import Extent
from .shell import HOLE, ITEM, NAME, Lexer, Text, Token

OPENING = {"if": "if", "case": "if", "for": "loop", "while": "loop", "until": "loop", "select": "loop", "{": "group"}
CLOSING = ("fi", "done", "esac", "}")
AGAIN = ("else", "elif")
LEADING = ("then", "do", "!", "time", "coproc", "function", "$", "%", ">", *OPENING, *CLOSING, *AGAIN)
DECLARING = ("export", "declare", "typeset", "readonly", "local")
READING = ("read", "mapfile", "readarray", "getopts", "unset")
MAX_DEPTH = 100
MAX_VALUE = 20_000  # characters of a variable
MAX_EXPANDED = 1_000_000  # characters that variables put into commands, over the whole script
MAX_EXPORTED = 200  # variables that each command of a script is told
UNKNOWN = Text(HOLE, (0,))


class Variable(NamedTuple):
	"""What a variable is set to, and where its name stands."""

	value: Text
	name: Extent
	place: Extent


class Command(NamedTuple):
	"""A simple command: its words without what leads it, the variables set for it alone, and those exported by then
	(the same mapping for all commands, which changes as the walk goes on).

	`flaw` is the comment that cuts off a continued command, or what is never closed.
	"""

	words: list[Token]
	own: dict[str, Variable]
	exported: dict[str, Variable]
	flaw: Token | None = None


class Scope(NamedTuple):
	"""A block of the script. Names whose value is None are open."""

	kind: str
	names: dict[str, Variable | None]


class Script:
	"""Walks over a text, or a stretch of it."""

	def __init__(self, source: Text, scopes: list[Scope] | None = None, exported: dict[str, Variable] | None = None):
		self.source = source
		self.scopes = scopes or [Scope("script", {})]
		self.exported: dict[str, Variable] = exported or {}
		self.sets = Counter(re.findall(r"(?<![\w$-])([A-Za-z_]\w*)(?:\+?=| in\b)", source.chars))
		self.expanded = [0]  # shared with the scripts inside
		self.functions: set[str] = set()
		self.grouped: set[str] = set()  # names that functions set
		self.expects = ""  # what the next word is the name of: a "variable" of a loop, a "function"
		self.lexer = Lexer(source, self.lookup)
		self.flaw: Token | None = None  # what is never closed

	def lookup(self, name: str) -> Text | None:
		found = self.find(name)
		if found is None or found.value is UNKNOWN:
			return None
		self.expanded[0] += len(found.value.chars)
		return found.value if self.expanded[0] <= MAX_EXPANDED else None

	def inside(self, source: Text, *scopes: Scope) -> "Script":
		"""A command line that this one hands to another shell, or the commands of a `$( )`."""
		inner = Script(source, [*self.scopes, *scopes] if scopes else self.scopes, self.exported)
		inner.expanded = self.expanded
		return inner

	def find(self, name: str) -> Variable | None:
		changing = False
		for scope in reversed(self.scopes):
			if name in scope.names:
				return None if changing and self.sets[name] > 1 else scope.names[name]
			changing = changing or scope.kind in ("loop", "group")
		return None

	def commands(self) -> Iterator[Command]:
		"""Give the commands one by one, those inside `$( )` behind the one that they stand in."""
		words: list[Token] = []
		for token in self.lexer.tokens():
			if token.kind in ("operator", "cut", "unclosed"):
				self.flaw = self.flaw or (token if token.kind == "unclosed" else None)
				if len(words) == 1 and token.text.chars == "(":
					self.functions.add(words[0].text.chars)
				elif words:
					yield from self._command(words, token if token.kind == "cut" else None)
				words = []
				self._operator(token)
			elif token.kind != "comment" and (words or not self._keyword(token)):
				words.append(token)
			yield from self._inner()
		if words:
			yield from self._command(words, None)

	def _inner(self) -> Iterator[Command]:
		stretches, self.lexer.inner = self.lexer.inner, []
		for extent in stretches:
			if len(self.scopes) < MAX_DEPTH // 5:
				yield from self.inside(self.lexer.part(*extent), Scope("shell", {})).commands()

	def _operator(self, token: Token) -> None:
		if token.text.chars == "(":
			self._enter("shell")
		elif token.text.chars == ")" and self.scopes[-1].kind == "shell":
			self.scopes.pop()

	def _enter(self, kind: str) -> None:
		if len(self.scopes) < MAX_DEPTH:
			self.scopes.append(Scope(kind, {}))

	def _leave(self) -> None:
		if len(self.scopes) > 1:
			gone = self.scopes.pop()
			self.scopes[-1].names.update(dict.fromkeys(gone.names))
			self.grouped.update(gone.names if gone.kind == "group" else ())

	def _command(self, words: list[Token], flaw: Token | None) -> Iterator[Command]:
		if self.expects == "variable":
			self.set(words[0].text.chars, None)
		told, self.expects = self.expects, ""
		if told == "variable":
			return
		own: dict[str, Variable] = {}
		while words and words[0].kind == "assignment":
			self._assign(words.pop(0), own)
		if not words:
			for name, variable in own.items():
				self.set(name, variable)
			return
		name = words[0].text.chars
		if name in DECLARING:
			self._declare(words)
		elif name in READING:
			for word in words[1:]:
				self.set(word.text.chars, None)
		elif name in self.functions and self.expanded[0] <= MAX_EXPANDED:
			self.expanded[0] += len(self.grouped)
			for each in self.grouped:
				self.set(each, None)
		yield Command(words, own, self.exported, flaw or self.flaw)

	def _keyword(self, token: Token) -> bool:
		"""Take a word that begins, or ends, a block; what follows it is the command."""
		word = token.text.chars
		if self.expects == "function":
			self.expects = ""
			self.functions.add(word)
			return True
		if token.quoted or word not in LEADING or self.expects:
			return False
		if word in CLOSING:
			self._leave()
		elif word in AGAIN:
			kind = self.scopes[-1].kind
			self._leave()
			self._enter(kind)
		elif word in OPENING:
			self._enter(OPENING[word])
		self.expects = {"for": "variable", "select": "variable", "function": "function"}.get(word, "")
		return True

	def _assign(self, token: Token, into: dict[str, Variable]) -> None:
		chars = token.text.chars
		name, _, value = chars.partition("=")
		skipped = len(chars) - len(value)
		text = Text(value, token.text.spots[skipped:])
		bare = re.split(r"[\[+]", name)[0]
		known = self.find(bare)
		old, several = known.value if known else Text("", ()), value.startswith(ITEM)
		if name == f"{bare}+" and known is not None and old.chars.startswith(ITEM) == several:
			text = Text(old.chars + value[several:], (*old.spots, *text.spots[several:]))
		elif name != bare:
			text = UNKNOWN
		elif old.chars.startswith(ITEM) and not several:  # the first item
			rest = old.chars.find(ITEM, 1)
			text = Text(f"{ITEM}{value}{old.chars[rest:]}", (token.extent.end, *text.spots, *old.spots[rest:]))
		self.expanded[0] += len(text.chars)
		if len(text.chars) > MAX_VALUE or self.expanded[0] > 2 * MAX_EXPANDED:
			text = UNKNOWN
		start = token.extent.start
		place = Extent(min(start + skipped, token.extent.end), token.extent.end)
		into[bare] = Variable(text, Extent(start, start + len(bare)), place)

	def _declare(self, words: list[Token]) -> None:
		for word in words[1:]:
			made: dict[str, Variable] = {}
			if word.kind == "assignment":
				self._assign(word, made)
				for name, fresh in made.items():
					self.set(name, fresh)
			name = re.split(r"[\[+=]", word.text.chars)[0]
			variable = self.find(name) if NAME.fullmatch(name) else None
			room = len(self.exported) < MAX_EXPORTED or name in self.exported
			if words[0].text.chars == "export" and variable is not None and room:
				self.exported[name] = variable

	def set(self, name: str, variable: Variable | None) -> None:
		if not NAME.fullmatch(name):
			return
		self.scopes[-1].names[name] = variable
		if name in self.exported:
			self.exported[name] = variable or self.exported[name]._replace(value=UNKNOWN)
