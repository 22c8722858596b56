"""What was asked, cleaned: words, a key, a flag, a class, a variable, a code, or a line of an error."""

from __future__ import annotations

import re
from typing import NamedTuple

from distributed_training_backends.lookup.words import chunks, is_name, name_of, words_of
from distributed_training_backends.model import BadQueryError

LONGEST = 10_000
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffd]")


class Query(NamedTuple):
    """The words of a question, and the names in it; `is_one_name` where it asks for one name and nothing else."""

    text: str
    words: tuple[str, ...]
    names: tuple[str, ...]
    is_one_name: bool


def read_query(text: str) -> Query:
    """Take a question apart. Raises BadQueryError for one that is empty, huge or not text."""
    if len(text) > LONGEST:
        raise BadQueryError(f"the query has {len(text)} characters; give a name, a few words or one line, not a log")
    cleaned = _ANSI.sub("", text).strip()
    if _CONTROL.search(cleaned):
        raise BadQueryError("the query is not text: it holds control characters or broken UTF-8")
    asked = list(dict.fromkeys(chunks(cleaned)))
    if not cleaned:
        raise BadQueryError("the query is empty; give words, a key, a flag, a class, a rule code or an error line")
    if not asked:
        raise BadQueryError(f"the query {cleaned[:40]!r} has no word or name in it that could be looked up")
    found = [word for chunk in asked for word in words_of(chunk)]
    names = [name_of(chunk) for chunk in asked if is_name(chunk)]
    bare = re.sub(r"^[-'\"`(\[{$]+|[=:].*$|\(.*$|[-'\"`)\]}.,;]+$", "", cleaned, flags=re.DOTALL)
    alone = len(bare.split()) == 1 and len(chunks(bare)) == 1
    return Query(cleaned, tuple(dict.fromkeys(found)), tuple([name_of(bare)] if alone else names), alone)
