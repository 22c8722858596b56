"""Streamable HTTP: the app for any ASGI server, and serving it with uvicorn.

No session is kept and answers are plain JSON, so that several workers behind a balancer are like one.
"""

import logging
import os
from collections.abc import Sequence
from typing import Any

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from distributed_training_backends.about import NAME, VERSION

from . import logs
from .app import server

PATH = "/mcp"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HOSTS = "DTB_ALLOWED_HOSTS"  # for an ASGI server, which passes no arguments on: names with commas between


def app(hosts: Sequence[str] = ()) -> Starlette:
	"""Make the app. It answers to the loopback names, to `hosts`, and to those in the environment."""
	logs.set_up()
	allowed = [*LOOPBACK, *hosts, *filter(None, (name.strip() for name in os.environ.get(HOSTS, "").split(",")))]
	made = server()
	made.custom_route("/health", methods=["GET"])(health)
	asgi = made.streamable_http_app(
		streamable_http_path=PATH, stateless_http=True, json_response=True, transport_security=security(allowed)
	)
	asgi.add_middleware(PostOnly)
	return asgi


class PostOnly:
	"""Refuses GET on the endpoint: it would open a stream on which nothing ever comes, and hold it open."""

	def __init__(self, app: ASGIApp) -> None:
		self.app = app

	async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
		refused = scope["type"] == "http" and scope["path"] == PATH and scope["method"] == "GET"
		answer = PlainTextResponse("POST only", 405, {"Allow": "POST"}) if refused else self.app
		await answer(scope, receive, send)


def security(names: Sequence[str]) -> TransportSecuritySettings:
	"""Accept requests for these names only, and from pages of these names: no foreign page may use the server."""
	hosts = [host for name in names for host in ((name,) if has_port(name) else (name, f"{name}:*"))]
	origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
	return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


def has_port(name: str) -> bool:
	return ":" in name.rpartition("]")[2]


async def health(request: Request) -> Response:
	"""Say that the process is alive, to balancers and probes, whatever name they use."""
	return JSONResponse({"status": "ok", "name": NAME, "version": VERSION})


def run(host: str, port: int, hosts: Sequence[str]) -> None:
	import uvicorn

	logging.getLogger("uvicorn.error").setLevel(logging.INFO)
	options: dict[str, Any] = {"log_config": None, "access_log": False, "timeout_graceful_shutdown": 3}
	uvicorn.run(app(hosts), host=host, port=port, **options)
