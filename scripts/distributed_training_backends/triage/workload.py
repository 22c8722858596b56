"""What a model asks for, as ranking counts it: parameters used, trained and sent."""

from typing import NamedTuple

from .facts import Facts
from .run import trained
from .shapes import Shape, shape_of
from .states import quantized_size


class Work(NamedTuple):
	"""Parameters in all, used for a token, trained; layers, width, width of keys, bytes of a weight that is sent."""

	params: float
	active: float
	trained: float
	layers: int
	hidden: int
	kv_width: int
	weight_bytes: float


def work_of(facts: Facts) -> Work:
	shape = shape_of(facts.model)
	return Work(
		params=float(shape.params),
		active=active(shape),
		trained=float(trained(facts, shape)[0]),
		layers=shape.layers,
		hidden=shape.hidden,
		kv_width=shape.kv_heads * shape.head_dim,
		weight_bytes=weight_bytes(facts),
	)


def active(shape: Shape) -> float:
	"""Parameters that a token passes: of the experts only those that are chosen for it."""
	if shape.experts <= 1:
		return float(shape.params - shape.counts.embedding * (not shape.tied))
	matrices = 3 if shape.gated else 2
	width = shape.intermediate // max(1, shape.experts_per_token)
	idle = (shape.experts - shape.experts_per_token) * matrices * shape.hidden * width * shape.layers
	return float(max(shape.params - idle, shape.params * shape.experts_per_token / shape.experts))


def weight_bytes(facts: Facts) -> float:
	"""Bytes of a weight when it is gathered: packed, or in the precision of the computation."""
	packed = quantized_size(facts.task.quantization or "none")
	return packed or (4.0 if facts.precision == "fp32" and facts.weights == "fp32" else 2.0)


# The sizes that conditions ask about. The others stay as they were told: from them the model is counted.
ASKED = ("params", "layers", "hidden", "heads", "kv_heads", "vocab", "experts", "tied")


def with_sizes(facts: Facts) -> Facts:
	"""Facts with the sizes of the model that its name or config tells. Raises UnknownModelError."""
	shape, model = shape_of(facts.model), facts.model
	missing = {name: getattr(shape, name) for name in ASKED if getattr(model, name) is None}
	return facts._replace(model=model._replace(**missing))
