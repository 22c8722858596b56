"""Models as sizes and exact numbers of parameters, counted from a config.json as Transformers builds the model."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..resources import load_json
from ..rules.suggest import closest, did_you_mean, shown
from .counting import Counts, count
from .facts import ModelFacts, roles
from .families import Family, Model, UnknownModelError, family_of, sizes_of

ARCHITECTURES = "architectures.json"
SIZES = (
	*("layers", "hidden", "heads", "kv_heads", "head_dim", "vocab", "intermediate"),
	*("experts", "experts_per_token", "tied"),
)
NEEDED = ("layers", "hidden", "heads", "vocab")
# How far the number of parameters that is told may be from the one that the sizes give.
LIKELY = 1.35


class Shape(NamedTuple):
	"""What memory depends on. `intermediate` is the MLP width that a token passes, over all of its experts."""

	name: str
	family: str
	layers: int
	hidden: int
	heads: int
	kv_heads: int
	head_dim: int
	vocab: int
	intermediate: int
	experts: int
	experts_per_token: int
	tied: bool
	gated: bool
	parallel: bool
	rms_norm: bool
	dropout: bool
	norms: int
	qk_norm: bool
	counts: Counts

	@property
	def params(self) -> int:
		return self.counts.total


def shape_of(model: ModelFacts) -> Shape:
	"""The shape of a model. Raises UnknownModelError, whose text says what is missing or cannot be judged."""
	if model.config is not None:
		config: Mapping[str, Any] = model.config
		name = model.name or str(config.get("_name_or_path") or config.get("model_type"))
	elif model.name is not None:
		config, name = named(model.name), model.name
	else:
		return shaped(model, *plain(model), model.name or "the model")
	family = family_of(config)
	return shaped(model, family, {**config, **told(model, family)}, name)


def told(model: ModelFacts, family: Family) -> dict[str, Any]:
	sizes = {size: value for size in SIZES if (value := getattr(model, size)) is not None}
	return {family.keys.get(size, size).partition("|")[0]: value for size, value in sizes.items()}


def shaped(model: ModelFacts, family: Family, config: Mapping[str, Any], name: str) -> Shape:
	if max(model.experts or 1, model.experts_per_token or 1) > 1 and family.experts is None:
		said = f"{shown(name)} has no experts ({family.name} models are dense); leave experts out"
		raise UnknownModelError("/model/experts", said)
	sizes = sizes_of(Model(family, config))
	counts = count(Model(family, config), sizes)
	if model.params:
		counts = rescaled(counts, model.params)
	return Shape(
		**{size: getattr(sizes, size) for size in SIZES if size != "intermediate"},
		name=name,
		family=family.name,
		intermediate=sizes.active_width,
		gated=family.gated,
		parallel=family.parallel,
		rms_norm=family.norm == "rms",
		dropout=family.dropout,
		norms=family.layer_norms,
		qk_norm=family.qk_norm is not None,
		counts=counts,
	)


def rescaled(counts: Counts, params: int) -> Counts:
	if not 1 / LIKELY <= params / counts.total <= LIKELY:
		said = f"the sizes make {counts.total / 1e9:.2f}B parameters, not {params / 1e9:.2f}B; correct or leave out one"
		raise UnknownModelError("/model/params", said)
	layers = counts.layers + params - counts.total
	ratio = layers / counts.layers
	return counts._replace(
		total=params, layers=layers, layer=round(counts.layer * ratio), linear=round(counts.linear * ratio)
	)


def named(name: str) -> Mapping[str, Any]:
	"""The config of a model that is known by name; case, an owner in front and "-hf", "-instruct" … do not count."""
	data = load_json(ARCHITECTURES)
	known: Mapping[str, Mapping[str, Any]] = data["models"]
	plain_name = bare(name)
	for key, row in known.items():
		if plain_name == key or plain_name in row.get("aliases", ()):
			sizes = zip(data["columns"], row.get("sizes", ()), strict=False)
			return {**{size: value for size, value in sizes if value is not None}, **row.get("config", {})}
	near = closest(plain_name, known)
	raise UnknownModelError(
		"/model/name",
		f"no model is called {shown(name)} here{did_you_mean(near)}; give the content of its config.json or its sizes",
	)


def bare(name: str) -> str:
	text = name.rsplit("/", 1)[-1].lower().replace("_", "-")
	text = re.sub(r"(?:-hf|-instruct|-chat|-base|-it|-v0\.1|-v0\.3)+$", "", text)
	return text.replace("meta-llama-", "llama-")


def plain(model: ModelFacts) -> tuple[Family, Mapping[str, Any]]:
	"""A model told by its sizes: built like Llama, Mixtral or Starcoder2, with what is told otherwise."""
	missing = [name for name in NEEDED if getattr(model, name) is None]
	if missing:
		raise UnknownModelError(
			f"/model/{missing[0]}",
			f"{missing[0]} is missing; give a name, the content of a config.json, or sizes: {', '.join(NEEDED)}",
		)
	gated = model.gated is not False
	# a model without a gate mostly has LayerNorm and biases too
	kind = ("mixtral" if (model.experts or 1) > 1 else "llama") if gated else "starcoder2"
	family = family_of({"model_type": kind})
	width = model.intermediate or (round(8 * (model.hidden or 0) / 3) if gated else 4 * (model.hidden or 0))
	return family, {"intermediate_size": width, **told(model, family)}


# --- LoRA: which matrices adapters sit on, and how many parameters they have ---


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
