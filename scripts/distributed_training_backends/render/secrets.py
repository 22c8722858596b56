"""Where secrets stand in a text: tokens by their shape, and values by the name of their key.

Every pattern is bounded or starts only where a word or line starts, so that the time stays linear in the text.
"""

import re
from collections.abc import Iterator

_KEYWORD = (
	r"(?:password|passwd|passphrase|secret|(?<!per_)token|api[_-]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?key"
	r"|private[_-]?key|wandb[_-]?key|h(?:f|ub)[_-]?key|account[_-]?key|auth[_-]?key|credentials?|pwd|(?:db|user|root|admin|mysql|smtp|ftp)_?pass)"
)
# Values that tell nothing, marks that tokenizers use, and the words that follow a key's name in a sentence are no
# secrets: hiding them would only confuse.
_HARMLESS = re.compile(
	r"(?:true|false|yes|no|on|off|null|none|~|auto|</?\w{1,20}>|<\|\w{1,30}\|>|\[[A-Z]{3,6}\]|\$\{?[\w.:-]+\}?"
	r"|an?|and|as|at|by|did|for|from|give|has|if|in|is|it|must|needs?|of|or|pass|put|takes?|that|the|to|use|when|which"
	r"|with|write)?",
	re.IGNORECASE,
)
_TOKENS = re.compile(
	r"(?<![A-Za-z0-9])(?:"
	r"hf_[A-Za-z0-9]{16,}|api_org_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}"
	r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{10,}"
	r"|AIza[0-9A-Za-z_-]{30,}|ya29\.[0-9A-Za-z_-]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{16,}"
	r"|(?:hf_|sk-|gh[pousr]_|glpat-)[A-Za-z0-9_-]{4,}(?=\.\.\.|…)"  # cut for a message
	r")"
)
# The part before the dots may hold the mark again; starting only where a word starts keeps the search linear.
_JWT = re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]{4,}){1,2}")
_BEARER = re.compile(
	r"\b(?:bearer|authorization[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?(?:\w{1,20})?)[ \t]{1,8}([A-Za-z0-9._~+/=-]{8,})",
	re.IGNORECASE,
)
_URL_PASSWORD = re.compile(r"://[^\s/:@\"']{0,200}:([^\s/\"']{1,400})@")
# the same without a scheme (user:password@host), and a password that a sentence tells
_USER_AT = re.compile(
	r"(?<![\w@/.-])(?!mailto:|ssh:)[A-Za-z][\w.-]{0,60}:(?![0-9]{1,5}@)([^\s:/@\"'][^\s:/\"']{0,200})@(?!sha256)[A-Za-z0-9]"
)
_TOLD = re.compile(
	r"(?:password|passwd|passphrase|(?:api|secret|access)[ _-]key)[ \t]{1,8}(?:is|was)[ \t]{1,8}"
	r"(?!(?:empty|expired|given|here|in\w*|missing|needed|never|no\w?|only|required|set|too|wrong)\b)([^\s\"'`]{4,})",
	re.IGNORECASE,
)
# a signed address, a cookie, a user with a password on a command line, a login with a key
_SIGNED = re.compile(r"[?&][\w-]{0,40}sig(?:nature)?=([^\s&\"']+)", re.IGNORECASE)
_COOKIE = re.compile(r"\bcookie[\"']?[ \t]{0,8}[:=][ \t]{0,8}([^\r\n\"']+)", re.IGNORECASE)
_USER = re.compile(r"[ \t](?:-u|--user)[ =][\"']?[^\s:\"']{1,80}:([^\s\"']+)")
_LOGIN = re.compile(r"\blogin[ \t]+([0-9a-f]{32,})")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(.*?)(?:-----END|\Z)", re.DOTALL)
# The value of a key that names a secret: in quotes, perhaps on the next line, or plain up to what may end it.
_QUOTED = re.compile(
	rf"{_KEYWORD}[\"']?\]?[ \t]{{0,40}}[:=]\s{{0,80}}"
	r"(?:\"((?:[^\"\\\n]|\\.)*)(?:\"(?![ \t]{0,40}:)|$)|'([^'\n]*)(?:'(?![ \t]{0,40}:)|$))",
	re.IGNORECASE | re.MULTILINE,
)
_PLAIN = re.compile(
	_KEYWORD + r"[\"']?[ \t]{0,40}[:=][ \t]{0,40}([^\s\"'`,;)}\]{\[|>&*!][^\s\"'`,;)}\]]*)", re.IGNORECASE
)
_OPTION = re.compile(_KEYWORD + r"[ \t]{1,8}([^\s\"'`]+)", re.IGNORECASE)
_DASHES = re.compile(r"--[\w-]{0,40}\Z")
# In block YAML a plain value goes on to the end of the line, and a block scalar to the next line as shallow.
_LINE = re.compile(
	r"^[ \t]*(?:- +)?[\"']?[\w.-]{0,80}?"
	+ _KEYWORD
	+ r"[\"']?[ \t]{0,40}:[ \t]{1,40}([^\s\"'#&*!|>{\[][^\n]*?)(?:[ \t]#.*)?\r?$",
	re.IGNORECASE | re.MULTILINE,
)
_BLOCK = re.compile(
	r"^([ ]*)(?:- +)?[\"']?[\w.-]{0,80}?" + _KEYWORD + r"[\"']?[ \t]{0,40}:[ \t]{1,40}[|>][-+0-9]{0,2}[ \t]*\r?\n",
	re.IGNORECASE | re.MULTILINE,
)


_TELLING = (
	*(_BEARER, _URL_PASSWORD, _USER_AT, _TOLD, _SIGNED, _COOKIE, _USER, _LOGIN),
	*(_PRIVATE_KEY, _QUOTED, _PLAIN, _LINE),
)


def find_secrets(text: str) -> Iterator[tuple[int, int]]:
	"""Give the extents of what looks like a secret; they may overlap."""
	for pattern in (_TOKENS, _JWT):
		yield from (found.span() for found in pattern.finditer(text))
	for pattern in _TELLING:
		yield from (extent for found in pattern.finditer(text) if (extent := _telling(found)))
	for found in _OPTION.finditer(text):
		extent = _telling(found)
		if extent and _DASHES.search(text[max(0, found.start() - 42) : found.start()]):
			yield extent
	yield from _blocks(text)


def _blocks(text: str) -> Iterator[tuple[int, int]]:
	"""Give the extents of block scalars below telling keys; what stands within one is not looked at again."""
	position = 0
	while found := _BLOCK.search(text, position):
		position = max(found.end(), _end_of_block(text, found.end(), len(found.group(1))))
		yield found.end(), position


def _telling(found: re.Match[str]) -> tuple[int, int] | None:
	group = found.lastindex or 0
	value = found.group(group).rstrip(", \t\r")
	return None if _HARMLESS.fullmatch(value) else (found.start(group), found.start(group) + len(value))


def _end_of_block(text: str, start: int, indent: int) -> int:
	deeper = re.compile(rf"(?:[ \t]*\r?\n|[ ]{{{indent + 1},}}[^\n]*(?:\n|\Z))*")
	found = deeper.match(text, start)
	return found.end() if found else start
