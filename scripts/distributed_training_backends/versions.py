"""Release numbers: parsing, comparing, spans of releases, and the releases that are judged by default."""

import re
from functools import lru_cache
from typing import NamedTuple

# compiled when first used: the tables' own releases are plain, and a start has no time to lose
_NUMBER = r"(?s)\s*v?([0-9]+(?:\.[0-9]+)*)(.*)"
_BEFORE_RELEASE = r"(?i)[.\-_]?(?:dev|rc|a|b|alpha|beta|pre)"


class InvalidReleaseError(ValueError):
	"""A text that names no release."""


@lru_cache(maxsize=1024)
def parse(text: str) -> tuple[int, ...]:
	"""Give the release as a tuple of three or more numbers: "1.10" is (1, 10, 0).

	A development or candidate release counts as the release that it leads to ("1.16.0.dev0" is (1, 16, 0)), and
	a local part ("2.13.0+cpu") is left out. Raises InvalidReleaseError when the text holds no number.
	"""
	parts = text.split(".")
	if not all(part.isascii() and part.isdigit() for part in parts):
		found = re.fullmatch(_NUMBER, text)
		if not found or not _is_suffix(found.group(2)):
			raise InvalidReleaseError(f"{text!r} is not a release number such as 1.10.1")
		parts = found.group(1).split(".")
	numbers = tuple(map(int, parts))
	return numbers + (0,) * (3 - len(numbers))


def _is_suffix(text: str) -> bool:
	return not text.strip() or text[0] == "+" or text.startswith(".post") or bool(re.match(_BEFORE_RELEASE, text))


class Span(NamedTuple):
	"""Releases from `first` to `last`, both included; None leaves that side open."""

	first: str | None
	last: str | None

	def __contains__(self, release: object) -> bool:
		return isinstance(release, str) and in_span(release, self.first, self.last)


@lru_cache(maxsize=4096)
def in_span(release: str, first: str | None, last: str | None) -> bool:
	"""Whether a release lies between two others, both included; None leaves that side open."""
	number = parse(release)
	return (first is None or parse(first) <= number) and (last is None or number <= parse(last))


@lru_cache(maxsize=512)
def parse_spans(text: str) -> tuple[Span, ...]:
	"""Read spans as rules write them: "*", "1.6.0..", "..0.33.0", "1.4.0..1.8.1", several joined with a comma."""
	return tuple(_parse_span(part.strip()) for part in text.split(","))


def _parse_span(text: str) -> Span:
	if text == "*":
		return Span(None, None)
	first, dots, last = text.partition("..")
	return Span(first or None, (last or None) if dots else first)


@lru_cache(maxsize=4096)
def covers(spans: str, release: str) -> bool:
	return any(release in span for span in parse_spans(spans))


def newest(releases: tuple[str, ...]) -> str:
	return max(releases, key=parse)


def nearest(release: str, known: tuple[str, ...]) -> str:
	"""Give the newest known release that is not newer than `release`, or the oldest one known.

	Knowledge of a release holds until the next one that is known, so 1.15.1 is judged as 1.15.0.
	"""
	if release in known:
		return release
	number = parse(release)
	earlier = [item for item in known if parse(item) <= number]
	return max(earlier, key=parse) if earlier else min(known, key=parse)


def describe(first: str | None, last: str | None) -> str:
	"""Put a span in words: "since 1.6.0", "until 1.12.0", "1.4.0 to 1.6.0"."""
	if first and last:
		return f"in {first}" if first == last else f"{first} to {last}"
	if first:
		return f"since {first}"
	return f"until {last}" if last else "in every release"
