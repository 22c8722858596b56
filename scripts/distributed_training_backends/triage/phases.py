"""How much memory a run needs: the most over loading, the forward and backward pass, and the optimizer step."""

from typing import NamedTuple

from ..versions import in_span
from .activations import Layer, Logits, layer_of, logits_of, residual
from .buffers import Buffers, buffers_of, loading_bytes
from .estimate import Part, Phase
from .facts import Facts
from .run import REPLICATED, Run, coefficient, resolved
from .setup import Setup
from .shapes import shape_of
from .states import States, states_of

Parts = tuple[Part, ...]


class Pieces(NamedTuple):
	"""Everything that the phases are made of, in bytes on one GPU."""

	run: Run
	states: States
	layer: Layer
	logits: Logits
	buffers: Buffers

	@property
	def retained(self) -> float:
		"""Activations kept until the backward pass reaches them; a pipeline's first stage has several batches."""
		return self.layer.retained * self.run.tokens * self.run.layers * self.run.setup.pp

	@property
	def recomputed(self) -> float:
		return self.layer.recomputed * self.run.tokens

	@property
	def frozen_inputs(self) -> float:
		"""What FSDP1 keeps of each layer with frozen weights until the backward pass ends.

		It waits for the gradient of the input before it frees a layer; the reentrant checkpoint, which Transformers
		used by default before 5.0.0, makes a leaf of that input, so that both stay.
		"""
		run = self.run
		reentrant = in_span(run.facts.versions.transformers, None, "4.99") and run.setup.checkpointed_by == "model"
		if run.setup.backend != "fsdp1" or not run.adapted or run.checkpointing == "none" or not reentrant:
			return 0.0
		each = residual(run) * run.shape.hidden * run.tokens
		return each * run.layers * (coefficient("fsdp1_frozen_inputs") - 1)

	@property
	def loss(self) -> Logits:
		return Logits(self.logits.forward * self.run.tokens, self.logits.backward * self.run.tokens)

	@property
	def earlier(self) -> float:
		"""Gradients that are there before the backward pass: of earlier batches, or in Megatron's own buffer."""
		accumulates = self.run.accumulation > 1 and self.run.trains
		return self.states.gradients if accumulates or self.run.setup.backend == "megatron" else 0.0


def pieces_of(facts: Facts, setup: Setup) -> Pieces:
	"""Raises UnknownModelError."""
	run = resolved(facts, setup, shape_of(facts.model))
	return Pieces(run, states_of(run), layer_of(run), logits_of(run), buffers_of(run))


def phases_of(pieces: Pieces) -> tuple[Phase, ...]:
	states = pieces.states
	kept = {"weights": states.weights, "optimizer": states.optimizer, "communication": states.buckets}
	always = tuple(Part(*item) for item in kept.items())
	if not pieces.run.trains:
		return (loading(pieces), inference(pieces, always))
	step = (*always, Part("gradients", states.gradients), Part("step", states.step))
	return (loading(pieces), forward(pieces, always), backward(pieces, always), Phase("step", step))


def loading(pieces: Pieces) -> Phase:
	size = loading_bytes(pieces.run) or pieces.states.weights
	return Phase("load", (Part("weights", size), Part("communication", pieces.states.buckets)))


def inference(pieces: Pieces, always: Parts) -> Phase:
	run = pieces.run
	size = pieces.layer.kept * run.tokens
	logits = run.tokens * run.shape.vocab / run.setup.tp * run.compute
	gathered = Part("gathered", pieces.buffers.forward)
	return Phase("forward", (*always, Part("activations", size), Part("logits", logits), gathered))


def at_loss(pieces: Pieces, always: Parts, logits: float, gathered: float) -> Parts:
	return (
		*always,
		Part("gradients", pieces.earlier),
		Part("activations", pieces.retained / pieces.run.setup.pp),
		Part("logits", logits),
		Part("gathered", gathered),
	)


def forward(pieces: Pieces, always: Parts) -> Phase:
	"""The end of the forward pass; with a pipeline the first stage may have more."""
	end = Phase("forward", at_loss(pieces, always, pieces.loss.forward, pieces.buffers.forward))
	if pieces.run.setup.pp == 1:
		return end
	held = (Part("gradients", pieces.earlier), Part("activations", pieces.retained))
	first = Phase("forward", (*always, *held, Part("gathered", pieces.buffers.forward)))
	return max(end, first, key=lambda phase: phase.size)


def backward(pieces: Pieces, always: Parts) -> Phase:
	"""The worst of three moments: at the loss, at the last layer, and at the first, when all gradients are there."""
	run, states, buffers = pieces.run, pieces.states, pieces.buffers
	gathered = Part("gathered", buffers.backward)
	loss = at_loss(pieces, always, pieces.loss.backward, buffers.backward)
	head = run.shape.counts.head * run.kept if run.setup.backend in REPLICATED and not run.adapted else 0.0
	last = (
		*always,
		Part("gradients", max(pieces.earlier, min(head, states.gradients)) + buffers.gradients),
		Part("activations", pieces.retained + pieces.recomputed + pieces.frozen_inputs),
		gathered,
	)
	one = pieces.layer.recomputed * run.tokens
	first = (*always, Part("gradients", states.gradients + buffers.gradients), Part("activations", one), gathered)
	return max((Phase("backward", parts) for parts in (loss, last, first)), key=lambda phase: phase.size)
