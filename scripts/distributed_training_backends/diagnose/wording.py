"""How well a description in people's words fits a cause: by the phrases of its signature, and by all its words."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

from ..knowledge.signatures import Signature, signatures

Phrase = tuple[tuple[str, ...], ...]  # groups of words, of each of which one has to occur
_WORD = re.compile(r"[a-z0-9_]+(?:[.+-][a-z0-9_]+)*")
_JOINT = re.compile(r"[._+-]")
_PART = re.compile(r"[a-z]+|[0-9]+")
_RELEASE = re.compile(r"[0-9]{1,4}\.[0-9]{1,3}\.[0-9]{1,3}")
TWO = "two-releases"  # stands in phrases for two numbers of releases, which a description compares
STEM = 4  # letters from which a word also stands for longer ones that begin like it
AGAIN = 0.25  # what a further phrase counts, of its weight
SATURATION, LENGTH = 1.2, 0.6  # of BM25: how soon a repeated word stops to count, and how much long texts pay
_COMMON = """
a an and are as at be been but by can could did do does for from had has have i if in into is it its me my no not of on
or our so than that the their them then there these they this to use used using was we were what when where which while
who why will with without would you your
"""
COMMON = frozenset(_COMMON.split())


def words_of(text: str) -> frozenset[str]:
	whole = set(_WORD.findall(text.lower()))
	parts = {part for word in whole for piece in _JOINT.split(word) for part in (piece, *_PART.findall(piece))}
	several = {TWO} if sum(bool(_RELEASE.fullmatch(word)) for word in whole) > 1 else set()
	return frozenset((whole | parts | several) - {""})


def occurs(stem: str, words: frozenset[str]) -> bool:
	"""Whether a word, or a longer one that begins like it, is among the words."""
	return stem in words or (len(stem) >= STEM and any(word.startswith(stem) for word in words))


@lru_cache(maxsize=4096)
def phrase(text: str) -> Phrase:
	return tuple(tuple(group.split("|")) for group in text.split())


@cache
def rarity() -> Mapping[str, float]:
	"""How much a word of a phrase tells: the fewer signatures use it, the more."""
	uses: Counter[str] = Counter()
	others: set[str] = set()
	for signature in signatures():
		words = {word for text in signature.words for group in phrase(text) for word in group}
		if signature.repaired:  # each is one of many of a kind
			others |= words
		else:
			uses.update(words)
	total = sum(not signature.repaired for signature in signatures())
	return {word: math.log((total + 1) / max(uses[word], 1)) for word in others | set(uses)}


def phrase_score(phrases: Iterable[str], words: frozenset[str]) -> float:
	"""The weight of the best phrase that is wholly there, and a little for two further ones."""
	rare = rarity()
	scores = []
	for text in phrases:
		matched = [[word for word in group if occurs(word, words)] for group in phrase(text)]
		if all(matched):
			scores.append(sum(max(rare[word] for word in group) for group in matched))
	scores.sort(reverse=True)
	return scores[0] + AGAIN * sum(scores[1:3]) if scores else 0.0


@cache
def bags() -> Mapping[str, Mapping[str, float]]:
	"""By signature, the weight of each word in what is said about it (BM25)."""
	counts = {one.id: _bag(one) for one in signatures() if not one.like and not one.repaired}
	uses = Counter(word for bag in counts.values() for word in bag)
	rare = {word: math.log(1 + (len(counts) - count + 0.5) / (count + 0.5)) for word, count in uses.items()}
	length = {name: sum(bag.values()) for name, bag in counts.items()}
	mean = sum(length.values()) / len(counts)
	return {name: _weighted(bag, rare, length[name] / mean) for name, bag in counts.items()}


def _bag(signature: Signature) -> Counter[str]:
	prose = (signature.title, signature.title, signature.cause, signature.fix, *signature.messages, *signature.words)
	return Counter(word for text in prose for word in words_of(text.replace("|", " ")) if word not in COMMON)


def _weighted(bag: Counter[str], rare: Mapping[str, float], length: float) -> Mapping[str, float]:
	toll = SATURATION * (1 - LENGTH + LENGTH * length)
	return {word: rare[word] * count * (1 + SATURATION) / (count + toll) for word, count in bag.items()}


@cache
def own_words() -> Mapping[str, Mapping[str, float]]:
	alike = [signature for signature in signatures() if signature.like]
	mine = {one.id: words_of(" ".join((one.title, one.cause, *one.words)).replace("|", " ")) - COMMON for one in alike}
	uses = Counter(word for bag in mine.values() for word in bag)
	return {
		one.id: {word: math.log((len(alike) + 1) / uses[word]) for word in mine[one.id] if word not in bags()[one.like]}
		for one in alike
	}


def bag_score(signature: Signature, words: Iterable[str]) -> float:
	bag = bags().get(signature.like or signature.id, {})
	return sum(bag.get(word, 0.0) for word in words)


def own_bag_score(signature: Signature, words: Iterable[str]) -> float:
	own = own_words().get(signature.id, {})
	return sum(own.get(word, 0.0) for word in words)


def shared_words(
	signature: Signature, phrases: Iterable[Phrase], words: frozenset[str], most: int = 6
) -> tuple[str, ...]:
	own = {word for one in phrases for group in one for word in group if occurs(word, words)}
	bag = bags().get(signature.like or signature.id, {})
	rare = sorted((word for word in words if word in bag), key=lambda word: (-bag[word], word))
	return tuple(dict.fromkeys((*sorted(own), *rare)))[:most]
