"""LoRA adapters: which matrices they sit on, and how many parameters they have."""

from collections.abc import Iterable
from typing import NamedTuple

from .facts import roles
from .shapes import Shape


class Site(NamedTuple):
	"""Matrices of one kind with an adapter: what goes in and comes out of each, and how many a layer has.

	`active` are those that a token passes; the others are experts that it does not choose.
	"""

	role: str
	width_in: int
	width_out: int
	per_layer: int = 1
	active: int = 1


def sites(shape: Shape, targets: Iterable[str]) -> list[Site]:
	wanted = roles(targets)
	hidden, width = shape.hidden, shape.intermediate // (shape.experts_per_token or 1)
	out, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
	experts, active = shape.experts, shape.experts_per_token
	every = [
		Site("q", hidden, out),
		Site("k", hidden, keys),
		Site("v", hidden, keys),
		Site("o", out, hidden),
		Site("up", hidden, width, experts, active),
		Site("down", width, hidden, experts, active),
	]
	if shape.gated:
		every.insert(4, Site("gate", hidden, width, experts, active))
	return [site for site in every if site.role in wanted]


def adapter_params(shape: Shape, targets: Iterable[str], rank: int) -> int:
	per_layer = sum(site.per_layer * rank * (site.width_in + site.width_out) for site in sites(shape, targets))
	return per_layer * shape.layers
