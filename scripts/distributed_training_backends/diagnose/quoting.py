"""Messages that are only quoted: by a line of a logger that informs, or within the argument of another exception."""

import re
from collections.abc import Sequence

from .scan import Hit
from .templates import Template, plain
from .tracebacks import Raised

LEAST = 3  # words of a message that can be told from a name
# Exceptions that put what they were given, a key or a value, into quotes.
QUOTING = frozenset(("KeyError", "ValueError", "IndexError", "LookupError", "TypeError", "AssertionError", "NameError"))
_QUOTES = re.compile(r"'[^'\n]{8,400}'|\"[^\"\n]{8,400}\"")


def is_quoted(hit: Hit, raised: Sequence[Raised]) -> bool:
    """Tell whether a message stands only in quotes of exceptions, and in the code that raised these."""
    telling = [one for one in raised if one.name in QUOTING and _in_quotes(hit.template, one.message)]
    return bool(telling) and all(any(one.head <= spot.line <= one.end for one in telling) for spot in hit.spots)


def _in_quotes(template: Template, message: str) -> bool:
    if len(template.words) < LEAST or template.find(plain(_QUOTES.sub(" ", message))):
        return False
    return any(template.find(plain(quote)) for quote in _QUOTES.findall(message))
