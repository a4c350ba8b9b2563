"""MCP over HTTP (Streamable HTTP), without sessions: each POST is answered by itself.

The tools call the gateway that answers, in this process, as another client would: with the
credential and the address of the caller. So rights, limits of use, the audit log and the metrics
are those of the HTTP API.
"""

import asyncio
import json
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Scope

from headgate.app.mcp.server import CUT, AgentServer
from headgate.client.client import AsyncClient

_URL = "http://127.0.0.1"  # no connection is made
_Answer = tuple[int, list[tuple[bytes, bytes]], bytes]
_OF_CALLER = ("client", "http_version", "request_id", "scheme", "server", "state")
_HEADERS_OF_CALLER = {b"authorization", b"host", b"traceparent", b"tracestate", b"x-forwarded-for"}
_WHOLE_BYTES_MAX = 2 * 2**20
_WHOLE_QUOTES_MAX = 40_000
"""Of an answer that is read as a whole: this takes some 20 ms."""

_BEGIN = b'{"id":"'
_ENTRY = re.compile(rb'\{"id":"(\d+-\d+)","fields":')

logging.getLogger("mcp").setLevel(logging.WARNING)  # at `info` it tells of each request


async def answer(scope: Scope, content: bytes, own: Mapping[str, Any]) -> Response:
    """Return the answer to a POST of a client.

    `own` is added to the scopes of the requests that its tools make.
    """
    # The parser leaves spaces behind a value, and the SDK compares some with the message.
    trimmed = {**scope, "headers": [(name, value.strip()) for name, value in scope["headers"]]}
    transport = _OwnGateway(scope, own)
    async with AsyncClient(_URL, token="", retry_s=0, transport=transport) as gateway:
        server = AgentServer(gateway, scope["app"].version).server
        # Made for this request alone: everything that it starts ends with the request.
        manager = StreamableHTTPSessionManager(server, stateless=True, json_response=True)
        async with manager.run():
            status, headers, body = await _called(manager.handle_request, trimmed, content)
    whole = Response(body, status)
    whole.raw_headers = headers
    return whole


async def _called(app: ASGIApp, scope: Scope, content: bytes) -> _Answer:
    """Return status, headers and body of the answer of an app."""
    contents, sent = iter([content]), list[Message]()

    async def receive() -> Message:
        for body in contents:
            return {"type": "http.request", "body": body}
        await asyncio.Event().wait()  # if the client goes, the whole call is cancelled
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start, *parts = sent
    return start["status"], list(start["headers"]), b"".join(part["body"] for part in parts)


class _OwnGateway(httpx.AsyncBaseTransport):
    """Sends requests to the gateway of this process, which takes them for those of a caller."""

    def __init__(self, caller: Scope, own: Mapping[str, Any]) -> None:
        self._app: ASGIApp = caller["app"]
        self._scope = {name: caller[name] for name in _OF_CALLER if name in caller} | dict(own)
        self._headers = [each for each in caller["headers"] if each[0] in _HEADERS_OF_CALLER]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the answer of the gateway."""
        path, _, query = request.url.raw_path.partition(b"?")
        sent = [(name.lower(), value) for name, value in request.headers.raw]
        others = [header for header in sent if header[0] not in _HEADERS_OF_CALLER]
        scope = {
            **self._scope,
            "type": "http",
            "method": request.method,
            "path": request.url.path,
            "raw_path": path,
            "query_string": query,
            "headers": self._headers + others,
        }
        status, headers, body = await _called(self._app, scope, await request.aread())
        if len(body) > _WHOLE_BYTES_MAX or body.count(b'"') > _WHOLE_QUOTES_MAX:
            entries = [{"id": entry_id} for entry_id in _ids_in(body)]
            headers, body = [], json.dumps({"cut": CUT, "entries": entries}).encode()
        return httpx.Response(status, headers=headers, content=body)


def _ids_in(answer: bytes) -> Iterator[str]:
    """Yield the ids of the entries of a large answer, which nobody has the time to parse."""
    at = answer.find(_BEGIN)
    while at > 0:
        match = _ENTRY.match(answer, at)
        if match is not None and answer[at - 1 : at] != b":":  # a field may have this name
            yield match[1].decode()
        at = answer.find(_BEGIN, at + 1)
