"""Serving over stdin and stdout. A request whose JSON the SDK cannot read gets an answer as long as it has an id."""

import json
from contextlib import suppress

from anyio import create_memory_object_stream, create_task_group
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

Item = SessionMessage | Exception


async def serve(server: Server) -> None:
	async with stdio_server() as (lines, answers):
		accepted, requests = create_memory_object_stream[Item](0)

		async def sort_out() -> None:
			async with accepted:
				async for item in lines:
					refused = refusal(item) if isinstance(item, ValidationError) else None
					await (answers.send(SessionMessage(refused)) if refused else accepted.send(item))

		async with create_task_group() as tasks:
			tasks.start_soon(sort_out)
			await server.run(requests, answers, server.create_initialization_options())
			tasks.cancel_scope.cancel()


def refusal(error: ValidationError) -> JSONRPCError | None:
	"""The answer to a line that Python reads and the SDK does not: an unpaired surrogate, or deep nesting."""
	found = error.errors(include_url=False)[0]
	if found["type"] != "json_invalid":
		return None
	with suppress(ValueError, RecursionError):
		request = json.loads(found["input"])
		if isinstance(request, dict) and type(request.get("id")) in (int, str):
			told = ErrorData(code=PARSE_ERROR, message=f"the request cannot be read: {found['msg']}")
			return JSONRPCError(jsonrpc="2.0", id=request["id"], error=told)
	return None
