"""What another value of an assumed fact would change."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .assumptions import Assumption, with_fact
from .estimate import GIB
from .memory import estimate

if TYPE_CHECKING:
	from .answer import Question, Ranked

NOTHING = 0.005  # the share from which on a difference is worth a word
WORDS = {"fits": "fits", "tight": "is tight", "does_not_fit": "does not fit", "unknown": "may fit"}


class Effect(NamedTuple):
	"""What a value changes: another verdict counts most, then the amount."""

	changes_verdict: bool
	share: float
	text: str


def effects(asked: Question, best: Ranked | None) -> list[tuple[Assumption, str]]:
	rated = [(assumption, strongest(assumption, best)) for assumption in asked.assumptions]
	rated.sort(key=lambda item: (item[1].changes_verdict, item[1].share), reverse=True)
	return [(assumption, effect.text) for assumption, effect in rated]


def strongest(assumption: Assumption, best: Ranked | None) -> Effect:
	if best is None or not assumption.instead:
		return Effect(False, 0.0, "")
	return max((effect(assumption, value, best) for value in assumption.instead), key=lambda one: one[:2])


def effect(assumption: Assumption, value: object, best: Ranked) -> Effect:
	was = best.made.estimate
	now = estimate(with_fact(best.made.facts, assumption.name, value), best.setup)
	share = abs(now.smi.point - was.smi.point) / max(was.smi.point, 1.0)
	shown = ", ".join(value) if isinstance(value, tuple) else str(value).lower()
	text = f"with {shown}: {now.smi.point / GIB:.1f} GiB instead of {was.smi.point / GIB:.1f}"
	if now.verdict == was.verdict and share < NOTHING:
		return Effect(False, share, "")
	if now.verdict != was.verdict:
		text += f", and this setup then {WORDS[now.verdict]}"
	return Effect(now.verdict != was.verdict, share, text)
