"""Answers: the headers of the protocol, and problems with them."""

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from fastapi import Request, Response

from headgate.app.durable_streams.paths import ROOT
from headgate.app.durable_streams.producers import ProducerRefusal
from headgate.app.http.handlers import answer_to
from headgate.app.transport.proxies import base_url
from headgate.app.wire.problems import GatewayError, code_of, status_of
from headgate.engine.errors import StreamError

NEXT_OFFSET = "Stream-Next-Offset"
UP_TO_DATE = "Stream-Up-To-Date"
CLOSED = "Stream-Closed"
CURSOR = "Stream-Cursor"
TTL = "Stream-TTL"
EXPIRES_AT = "Stream-Expires-At"
ENCODING = "Stream-SSE-Data-Encoding"

SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Streams have any content type. None of them may be a page that acts as this gateway.
    "Content-Security-Policy": "default-src 'none'; sandbox",
}

F = TypeVar("F", bound=Callable[..., Awaitable[Response]])


def root_path(request: Request) -> str:
    """Return the path under which a proxy serves the gateway."""
    path: str = request.app.state.settings.root_path
    return path


def root_url(request: Request) -> str:
    """Return the URL below which streams are, as the client sees it."""
    is_there = bool(request.scope.get("root_path"))
    return f"{base_url(request.scope)}{'' if is_there else root_path(request)}{ROOT}"


def is_true(text: str | None) -> bool:
    """Tell whether a header says `true`; everything else is as if it were not there."""
    return text is not None and text.strip().lower() == "true"


def answer(status: int, headers: Mapping[str, str], body: bytes = b"") -> Response:
    """Return an answer without the headers that all answers have."""
    return Response(body, status, headers)


def answers(operation: F) -> F:
    """Let an operation answer as the protocol says: its problems have the headers, too."""

    @wraps(operation)
    async def answering(request: Request, *args: Any, **names: Any) -> Response:
        try:
            response = await operation(request, *args, **names)
        except (StreamError, GatewayError) as error:
            response = await _problem(request, error)
        response.headers.update(SAFE)
        return response

    return answering  # type: ignore[return-value]


async def _problem(request: Request, error: StreamError | GatewayError) -> Response:
    if status_of(code_of(error)) == 422:  # the protocol knows no other status for what is wrong
        pointer = error.pointer if isinstance(error, GatewayError) else None
        error = GatewayError("malformed", str(error), pointer=pointer)
    response = await answer_to(request, error)
    assert response is not None
    response.headers["Cache-Control"] = "no-store"
    if isinstance(error, ProducerRefusal):
        response.headers.update(error.headers)
    return response
