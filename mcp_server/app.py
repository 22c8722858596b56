"""The server: the tools, resources, prompts and the skill, put together with the MCP SDK."""

import logging
import threading
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from anyio import CapacityLimiter, to_thread
from mcp.server.caching import CacheHint
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts import Prompt
from mcp.shared.exceptions import MCPError
from mcp.types import (
	INVALID_PARAMS,
	CallToolResult,
	Completion,
	CompletionArgument,
	CompletionContext,
	GetPromptResult,
	InputRequiredResult,
	PromptReference,
	ResourceTemplateReference,
	TextContent,
	ToolAnnotations,
)
from mcp.types import Resource as ListedResource
from mcp.types import Tool as ListedTool

from distributed_training_backends import api
from distributed_training_backends.about import DESCRIPTION, NAME, VERSION
from distributed_training_backends.render.characters import visible
from distributed_training_backends.render.redact import redact

from . import (
	convert_config,
	diagnose_failure,
	lookup_reference,
	prompts,
	resources,
	stdio,
	triage_backend,
	validate_config,
)
from .arguments import checked
from .shared import compact
from .skills_extension import Skills
from .tool import CallError, Tool

TITLE = "Distributed training backends"
INSTRUCTIONS = f"""\
Checks, converts and chooses configs of Hugging Face Accelerate, DeepSpeed, FSDP and the Trainer for given releases, \
explains failures. validate_config: before a launch, or when a setting seems ignored. triage_backend: which backend, \
does it fit. diagnose_failure: a log, a hang, a slow run. lookup_reference: a key, flag, class, error line. \
convert_config: FSDP2, DeepSpeed, flags, Python. Pass texts, not paths, and the releases that will \
run. Playbook: {resources.uri_of("SKILL.md")}"""
TOOLS: Mapping[str, Tool] = {
	tool.name: tool
	for tool in (
		validate_config.TOOL,
		triage_backend.TOOL,
		diagnose_failure.TOOL,
		lookup_reference.TOOL,
		convert_config.TOOL,
	)
}
READS_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
NEVER_NEW = ("tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list")
DAY = CacheHint(ttl_ms=86_400_000, scope="public")  # what is listed changes only with a new release
MOST_COMPLETIONS = 100
THREADS = 4  # calls at once; they share one interpreter, and more threads would only take memory
logger = logging.getLogger(__name__)


class Server(MCPServer[Any]):
	"""The SDK's server with tools as rows of TOOLS: their schemas are published as written, and checked here."""

	def __init__(self, *given: Any, **named: Any) -> None:
		super().__init__(*given, **named)
		self.threads = CapacityLimiter(THREADS)

	async def run_stdio_async(self) -> None:
		await stdio.serve(self._lowlevel_server)

	async def list_tools(self) -> list[ListedTool]:
		return [listed(tool) for tool in TOOLS.values()]

	async def call_tool(
		self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
	) -> CallToolResult | InputRequiredResult:
		"""Call a tool in a thread; whatever goes wrong is an answer that the caller can act on."""
		return await to_thread.run_sync(answered, name, arguments, limiter=self.threads)

	async def list_resources(self) -> list[ListedResource]:
		return [item for item in await super().list_resources() if resources.is_listed(item.uri)]

	async def get_prompt(
		self, name: str, arguments: dict[str, Any] | None = None, context: Context[Any, Any] | None = None
	) -> GetPromptResult | InputRequiredResult:
		if name not in prompts.PROMPTS:
			known = " and ".join(prompts.PROMPTS)
			raise MCPError(INVALID_PARAMS, f"there is no prompt {name[:100]!r}; there are {known}")
		return await super().get_prompt(name, arguments, context)


def server() -> Server:
	made = Server(
		NAME,
		title=TITLE,
		description=DESCRIPTION,
		instructions=INSTRUCTIONS,
		version=VERSION,
		resources=list(resources.resources()),
		extensions=[Skills()],
		log_level="WARNING",
		subscriptions=False,  # nothing that is listed ever changes
		cache_hints=dict.fromkeys(NEVER_NEW, DAY),
	)
	made.resource(resources.TEMPLATE, name="skill-file", title="A file of the skill")(path_missing)
	made.completion()(complete)  # type: ignore[no-untyped-call]
	for name, (title, function) in prompts.PROMPTS.items():
		made.add_prompt(Prompt.from_function(function, name=name, title=title))
	return made


def path_missing(path: str) -> str:
	resources.missing(path)


async def complete(
	reference: PromptReference | ResourceTemplateReference,
	argument: CompletionArgument,
	context: CompletionContext | None,
) -> Completion:
	name = reference.name if isinstance(reference, PromptReference) else reference.uri
	values = prompts.completions(name, argument.name, argument.value)
	return Completion(values=values[:MOST_COMPLETIONS], total=len(values), has_more=len(values) > MOST_COMPLETIONS)


def listed(tool: Tool) -> ListedTool:
	return ListedTool(
		name=tool.name,
		title=tool.title,
		description=tool.description,
		input_schema=tool.inputs,
		output_schema=tool.outputs,
		annotations=READS_ONLY,
	)


_first = threading.Lock()


@cache
def prepared() -> None:
	"""Load what registers itself when it is imported, once and in one thread: others must not see it half done."""
	api.rules()


def answered(name: str, arguments: Mapping[str, Any]) -> CallToolResult:
	"""Answer a call, in both channels alike: some clients show the model only the one, some only the other."""
	try:
		with _first:
			prepared()
		answer = tool_named(name).call(checked(tool_named(name), arguments))
	except CallError as error:
		return failed(str(error))
	except ModuleNotFoundError as error:
		return failed(f"the server lacks the Python package {error.name}; install it where the server runs")
	except Exception as error:
		logger.exception("%s failed", name)
		return failed(f"internal error in {name} ({type(error).__name__}); please report it with the arguments")
	return CallToolResult(content=[TextContent(type="text", text=compact(answer))], structured_content=answer)


def tool_named(name: str) -> Tool:
	if name not in TOOLS:
		near = get_close_matches(name, TOOLS, 1)
		hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(TOOLS)}"
		raise CallError(f"there is no tool {name[:100]!r}{hint}")
	return TOOLS[name]


def failed(message: str) -> CallToolResult:
	return CallToolResult(content=[TextContent(type="text", text=visible(redact(message)))], is_error=True)
