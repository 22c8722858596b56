"""The tool lookup_reference: a question in, sections of the reference out."""

from distributed_training_backends import api
from distributed_training_backends.render.lookup import lookup_data

from .shared import VERSIONS, fitting, paging, targets_from
from .tool import ROWS, Answer, Arguments, CallError, Tool, text

QUOTED = 200  # code points of the question that the answer repeats


def call(given: Arguments) -> Answer:
	"""Look up, with fewer sections than were asked for where all would make the answer too long."""
	answer = looked_up(given, given["limit"])
	room = fitting(answer["sections"], {**given, "offset": 0})
	return answer if len(room) == len(answer["sections"]) else looked_up(given, len(room))


def looked_up(given: Arguments, limit: int) -> Answer:
	try:
		report = api.look_up(given["query"], given["detail"], limit, given["offset"], targets_from(given))
	except api.BadQueryError as error:
		raise CallError(str(error)) from None
	answer = lookup_data(report)
	return {"summary": answer["summary"], **answer, "query": answer["query"][:QUOTED]}


TOOL = Tool(
	name="lookup_reference",
	title="Look up the reference of training backends",
	description=(
		"Finds what the reference says on Accelerate, DeepSpeed, FSDP, Megatron-LM, parallelism, precision, launching: "
		"for a key, flag, class, environment variable, rule code (FSD001), line of an error, or question in words."
	),
	properties={
		"query": text("A name, a code, one line of an error, or a few words", minLength=1),
		**VERSIONS,
		**paging(4, 20),
	},
	required=("query",),
	answers={"summary": text(), "sections": ROWS},
	call=call,
)
