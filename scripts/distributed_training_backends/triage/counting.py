"""Exact numbers of parameters: what Transformers' modelling code makes of the sizes of a model."""

from typing import NamedTuple

from .families import Family, Model, Sizes


class Counts(NamedTuple):
	"""Parameters of a model and of its parts.

	`linear` are those in linear layers inside the blocks, which quantization takes; `layer` is the largest block;
	`embedding` includes learned positions; `head` is 0 where it is the embedding.
	"""

	total: int
	layers: int
	layer: int
	linear: int
	embedding: int
	head: int


def count(model: Model, sizes: Sizes) -> Counts:
	family = model.family
	inside, beside = attention(model, sizes)
	beside += family.norm_weights * sizes.hidden * sizes.norms + family.layer_extra
	dense = mlp(family, sizes.hidden, sizes.intermediate, model.is_on(family.mlp_bias))
	experts, router = sparse(family, sizes) if sizes.sparse_layers else (0, 0)
	dense_layers = sizes.layers - sizes.sparse_layers
	linear = sizes.layers * inside + dense_layers * dense + sizes.sparse_layers * experts
	layers = linear + sizes.layers * beside + sizes.sparse_layers * router
	largest = inside + beside + max(dense if dense_layers else 0, experts + router)
	embedding, head, rest = ends(model, sizes)
	return Counts(layers + embedding + head + rest, layers, largest, linear, embedding, head)


def attention(model: Model, sizes: Sizes) -> tuple[int, int]:
	family = model.family
	if family.latent:
		return latent_attention(model, sizes)
	out, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
	matrices = sizes.hidden * (2 * out + 2 * keys)
	matrices += (out + 2 * keys) * model.is_on(family.qkv_bias)
	matrices += sizes.hidden * model.is_on(family.out_bias)
	beside = sizes.heads if family.sinks else 0
	if family.qk_norm and model.is_on(family.qk_norm_if):
		per_head = 2 * sizes.head_dim * family.norm_weights
		beside += per_head if family.qk_norm == "head" else out + keys
	return matrices, beside


def latent_attention(model: Model, sizes: Sizes) -> tuple[int, int]:
	"""DeepSeek's multi-head latent attention: queries, keys and values through low ranks."""
	keys = ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank")
	nope, rope, value, rank = map(model.number, keys)
	bias = model.is_on("attention_bias")
	query_rank = model.setting("q_lora_rank")
	query = sizes.heads * (nope + rope)
	matrices = query_rank * (sizes.hidden + query + bias) if query_rank else sizes.hidden * query
	matrices += (sizes.hidden + bias) * (rank + rope) + rank * sizes.heads * (nope + value)
	matrices += sizes.heads * value * sizes.hidden + sizes.hidden * bias
	return matrices, rank + (query_rank or 0)


def mlp(family: Family, hidden: int, width: int, bias: bool) -> int:
	into = 2 if family.gated else 1
	return (into + 1) * hidden * width + bias * (into * width + hidden)


def sparse(family: Family, sizes: Sizes) -> tuple[int, int]:
	assert family.experts is not None
	experts = sizes.experts * mlp(family, sizes.hidden, sizes.expert_width, family.experts.bias)
	experts += mlp(family, sizes.hidden, sizes.shared_width, False) if sizes.shared_width else 0
	router = sizes.experts * (sizes.hidden + family.experts.router_bias)
	return experts, router + sizes.hidden * (family.experts.shared_gate and sizes.shared_width > 0)


def ends(model: Model, sizes: Sizes) -> tuple[int, int, int]:
	"""Parameters of the embeddings, of the head, and of the norms and projections at both ends."""
	family = model.family
	embedding = sizes.vocab * sizes.embedding + sizes.positions * sizes.hidden
	head = 0 if sizes.tied else sizes.vocab * sizes.embedding
	rest = sizes.vocab * model.is_on(family.head_bias)
	rest += 2 * sizes.embedding * sizes.hidden if sizes.embedding != sizes.hidden else 0
	norm = family.norm_weights * sizes.hidden
	return embedding, head, rest + norm * (family.embedding_norms + model.is_on(family.final_norm))
