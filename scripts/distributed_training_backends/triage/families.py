"""Families of models: how a config.json of a kind spells its sizes, and what its layers are made of."""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from ..resources import load_json
from ..rules.suggest import shown

ARCHITECTURES = "architectures.json"
KEYS = {
	"layers": "num_hidden_layers",
	"hidden": "hidden_size",
	"heads": "num_attention_heads",
	"kv_heads": "num_key_value_heads",
	"head_dim": "head_dim",
	"vocab": "vocab_size",
	"intermediate": "intermediate_size",
	"tied": "tie_word_embeddings",
}
Switch = bool | str


class UnknownModelError(ValueError):
	"""A model that nothing can be said about: one line that says why, and a pointer to the fact."""

	def __init__(self, pointer: str, message: str) -> None:
		super().__init__(message)
		self.pointer = pointer


def bad_config(message: str) -> UnknownModelError:
	return UnknownModelError("/model/config", message)


class Experts(NamedTuple):
	"""How a mixture of experts spells itself; None is what the family does not have."""

	number: str
	per_token: str
	defaults: tuple[int, int]
	width: str | None = None
	shared: str | None = None
	shared_width: str | None = None
	shared_gate: bool = False
	first: str | None = None
	step: str | None = None
	dense: str | None = None
	bias: bool = False
	router_bias: bool = False


class Family(NamedTuple):
	"""What the models of a family have in common. A switch is a fact, or the key of the config that tells it."""

	name: str
	keys: Mapping[str, str]
	defaults: Mapping[str, Any]
	qkv_bias: Switch = False
	out_bias: Switch = False
	mlp_bias: Switch = False
	head_bias: Switch = False
	gated: bool = True
	parallel: bool = False
	norm: str = "rms"
	norm_weights: int = 1
	layer_norms: int = 2
	qk_norm: str | None = None
	qk_norm_if: Switch = True
	final_norm: Switch = True
	positions: int | None = None
	embedding_norms: int = 0
	embedding: str | None = None
	expansion: int | None = None
	multi_query: str | None = None
	grouped: str | None = None
	parallel_if: str | None = None
	tied: bool = False
	dropout: bool = False
	sinks: bool = False
	latent: bool = False
	layer_extra: int = 0
	experts: Experts | None = None


class Sizes(NamedTuple):
	layers: int
	hidden: int
	heads: int
	kv_heads: int
	head_dim: int
	vocab: int
	intermediate: int
	expert_width: int
	shared_width: int
	experts: int
	experts_per_token: int
	sparse_layers: int
	positions: int
	embedding: int
	norms: int
	tied: bool

	@property
	def active_width(self) -> int:
		if not self.sparse_layers:
			return self.intermediate
		return self.expert_width * self.experts_per_token + self.shared_width


@cache
def families() -> Mapping[str, Family]:
	found = {}
	for name, record in load_json(ARCHITECTURES)["families"].items():
		settings = {key: value for key, value in record.items() if key not in ("types", "keys", "defaults", "experts")}
		mixture = record.get("experts")
		experts = Experts(**{**mixture, "defaults": tuple(mixture["defaults"])}) if mixture else None
		spelled = {"experts": experts.number, "experts_per_token": experts.per_token} if experts else {}
		keys = {**KEYS, **spelled, **record.get("keys", {})}
		family = Family(name=name, keys=keys, defaults=record.get("defaults", {}), experts=experts, **settings)
		found.update(dict.fromkeys(record["types"], family))
	return found


def family_of(config: Mapping[str, Any]) -> Family:
	"""The family of a config.json. Raises UnknownModelError for what is no language model that is known here."""
	kind = config.get("model_type")
	if isinstance(kind, str) and kind in families():
		return families()[kind]
	if any(isinstance(config.get(part), Mapping) for part in ("text_config", "vision_config", "audio_config")):
		text = "; give its text_config as model.config to estimate the language part alone"
		rest = text if isinstance(config.get("text_config"), Mapping) else ""
		raise bad_config(f"{shown(kind)} is a model of several modalities, not counted here{rest}")
	if kind is None:
		raise bad_config("the config has no model_type; give the model's config.json, or sizes")
	for what, kinds in load_json(ARCHITECTURES)["refused"].items():
		if kind in kinds or (what == "an encoder with a decoder" and config.get("is_encoder_decoder") is True):
			raise bad_config(f"{shown(kind)} is {what}; only decoder-only language models are estimated here")
	sizes = "params, layers, hidden, heads, kv_heads, vocab and intermediate"
	raise bad_config(f"the model_type {shown(kind)} is not known here; give {sizes} instead")


class Model(NamedTuple):
	"""A config.json, and the family by which it is read."""

	family: Family
	config: Mapping[str, Any]

	def setting(self, key: str | None, default: Any = None) -> Any:
		"""A key of the config; null counts as left out."""
		value = self.config.get(key) if key else None
		return self.family.defaults.get(key or "", default) if value is None else value

	def is_on(self, switch: Switch | None) -> bool:
		"""Whether something is there: as the family says, or as the config tells."""
		return bool(self.setting(switch, False) if isinstance(switch, str) else switch)

	def number(self, key: str, default: int | None = None) -> int:
		"""A size as a whole number of at least 1; some keys have two spellings."""
		spellings = key.split("|")
		key = next((one for one in spellings if self.config.get(one) is not None), spellings[0])
		value = self.setting(key, default)
		if value is None:
			raise bad_config(f"the config has no {key}, which a {self.family.name} model needs")
		if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10**8:
			raise bad_config(f"{key} is {shown(value)}, which is no whole number from 1 to 100000000")
		return value

	def size(self, name: str, default: int | None = None) -> int:
		return self.number(self.family.keys.get(name, name), default)


def sizes_of(model: Model) -> Sizes:
	family, whole = model.family, model.size

	hidden, heads, layers = whole("hidden"), whole("heads"), whole("layers")
	if hidden % heads and not any(model.setting(key) for key in family.keys["head_dim"].split("|")):
		raise bad_config(f"{heads} heads do not divide the hidden size {hidden}; correct one, or add head_dim")
	head_dim = whole("head_dim", hidden // heads if hidden % heads == 0 else None)
	intermediate = whole("intermediate", family.expansion * hidden if family.expansion else None)
	experts, per_token, sparse, width, shared = mixture(model, layers, intermediate)
	return Sizes(
		layers=layers,
		hidden=hidden,
		heads=heads,
		kv_heads=kv_heads(model, heads),
		head_dim=head_dim,
		vocab=whole("vocab"),
		intermediate=intermediate,
		expert_width=width,
		shared_width=shared,
		experts=experts,
		experts_per_token=per_token,
		sparse_layers=sparse,
		positions=0 if family.positions is None else whole("positions") + family.positions,
		embedding=model.number(family.embedding, hidden) if family.embedding else hidden,
		norms=norms(model),
		tied=bool(model.setting(family.keys["tied"], family.tied)),
	)


def kv_heads(model: Model, heads: int) -> int:
	family = model.family
	if model.is_on(family.grouped):
		return model.number("num_kv_heads", heads)
	if family.multi_query:
		return 1 if model.is_on(family.multi_query) else heads
	if family.latent:
		return heads
	found = model.size("kv_heads", heads)
	if heads % found:
		raise bad_config(f"{found} key/value heads do not divide the {heads} heads")
	return found


def norms(model: Model) -> int:
	"""How many norms of the hidden size a layer has; one where attention and MLP share it."""
	if model.is_on(model.family.grouped):
		return int(model.setting("num_ln_in_parallel_attn", 2))
	return 1 if model.is_on(model.family.parallel_if) else model.family.layer_norms


def mixture(model: Model, layers: int, intermediate: int) -> tuple[int, int, int, int, int]:
	"""Experts, experts per token, layers that have them, the width of one, and of what every token passes."""
	spelled = model.family.experts
	if spelled is None:
		return 1, 1, 0, intermediate, 0
	experts = model.number(spelled.number, spelled.defaults[0])
	per_token = model.number(spelled.per_token, spelled.defaults[1])
	if per_token > experts:
		raise bad_config(f"{spelled.per_token} is {per_token}, more than the number of experts, {experts}")
	width = model.number(spelled.width) if spelled.width else intermediate
	shared = int(model.setting(spelled.shared_width, 0)) + width * int(model.setting(spelled.shared, 0))
	return experts, per_token, len(sparse_layers(model, spelled, layers)), width, shared


def sparse_layers(model: Model, spelled: Experts, layers: int) -> list[int]:
	"""The layers that have experts; the others have one MLP."""
	first, step = int(model.setting(spelled.first, 0)), int(model.setting(spelled.step, 1))
	dense = set(model.setting(spelled.dense, ()))
	return [layer for layer in range(first, layers) if layer not in dense and (layer + 1) % max(step, 1) == 0]
