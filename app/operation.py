"""Operation: the route class of the interface. It refuses what FastAPI would let pass.

A body must be of a media type the operation takes and within its bound, JSON must be JSON, and
every query parameter must be one the operation knows: what is not understood is refused, never
ignored.
"""

import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import ParamTypes
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.requests import HTTPConnection
from starlette.types import Scope

from app.dependencies import gateway_of
from app.problems import NOWHERE, GatewayError, pointer_to
from app.structure import check_members

JSON = frozenset({"application/json"})
ARROW = "application/vnd.apache.arrow.stream"


class Operation(APIRoute):
    """A route that is strict about media types and query parameters."""

    media_types = JSON

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler with the checks in front."""
        handle = super().get_route_handler()
        known = {
            field.alias
            for field in get_flat_params(self.dependant)
            if getattr(field.field_info, "in_", None) is ParamTypes.query
        }

        takes_body = self.body_field is not None

        async def check_and_handle(request: Request) -> Response:
            check_path(request)
            check_query(request, known)
            check_media_type(request, self.media_types)
            whole = await WholeRequest.of(request)
            if takes_body:
                whole.check_json()
            return await handle(whole)

        return check_and_handle


class UncheckedOperation(APIRoute):
    """An operation that reads its path, query and body by itself, the body within its bound."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler with the body read."""
        handle = super().get_route_handler()

        async def read_and_handle(request: Request) -> Response:
            return await handle(await WholeRequest.of(request))

        return read_and_handle


class BatchOperation(Operation):
    """An operation that also takes one JSON value per line, or rows of Arrow."""

    media_types = JSON | {"application/x-ndjson", ARROW}


class ArrowOperation(Operation):
    """An operation that takes nothing but rows of Arrow."""

    media_types = frozenset({ARROW})


class PatchOperation(Operation):
    """An operation that takes a merge patch (RFC 7396)."""

    media_types = JSON | {"application/merge-patch+json"}


class WholeRequest(Request):
    """A request whose body is here, within its bound."""

    @classmethod
    async def of(cls, request: Request) -> "WholeRequest":
        """Read the body of a request.

        Raises:
            GatewayError: it is too large; then what is left of it is not read.
        """
        whole = cls(request.scope, request.receive)
        most = gateway_of(request).limits.body_bytes_max
        chunks: list[bytes] = []
        left = most - _declared_bytes(request)
        if left >= 0 and has_body(request):
            left = most
            async for chunk in request.stream():
                chunks.append(chunk)
                left -= len(chunk)
                if left < 0:
                    break
        if left < 0:
            raise GatewayError("too_large", f"at most {most} bytes", pointer="/body")
        whole._body = b"".join(chunks)
        return whole

    def check_json(self) -> None:
        """Refuse JSON with more members than any request here; what is no JSON is told later.

        Raises:
            GatewayError: it has too many.
        """
        with suppress(json.JSONDecodeError):
            self._json = json_of(self._body)

    async def json(self) -> Any:
        """Return the body's value. Stricter than `json.loads`: UTF-8, no NaN, no lone surrogates.

        Raises:
            json.JSONDecodeError: it is no JSON.
        """
        return self._json if hasattr(self, "_json") else json_of(self._body)


def json_of(text: bytes) -> Any:
    """Return the value of a JSON text: UTF-8, no NaN, no lone surrogates, a sane size.

    Raises:
        json.JSONDecodeError: it is no JSON.
        GatewayError: it has more members than any request here.
    """
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise json.JSONDecodeError(str(error), "", NOWHERE) from None
    check_members(value)
    return value


def check_path(connection: HTTPConnection) -> None:
    """Refuse a path with an encoded slash: it would be taken for one between names.

    Raises:
        GatewayError: there is one.
    """
    if b"%2f" in connection.scope.get("raw_path", b"").lower():
        raise GatewayError("invalid_request", "a name has no `/` in it", pointer="/path")


def check_query(request: Request, known: set[str]) -> None:
    """Refuse query parameters the operation does not know, or that are given twice.

    Raises:
        GatewayError: naming the first.
    """
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name not in known:
            text = "unknown parameter"
            raise GatewayError("invalid_request", text, pointer=pointer_to("query", name))
        if name in seen:
            raise GatewayError("invalid_request", "given twice", pointer=pointer_to("query", name))
        seen.add(name)


def path_of(scope: Scope) -> str:
    """Return the path that was asked for, as a URL has it."""
    return quote(scope["path"], safe="/:@!$&'()*+,;=~")


def media_type_of(request: Request) -> str:
    """Return the media type of the request's body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_media_type(request: Request, media_types: frozenset[str]) -> None:
    """Refuse a body of a media type the operation does not take.

    Raises:
        GatewayError: naming those it takes.
    """
    media_type = media_type_of(request)
    if has_body(request) and media_type not in media_types:
        text = f"the body must be {' or '.join(sorted(media_types))}, and this header must say so"
        raise GatewayError("unsupported_media_type", text, pointer="/header/Content-Type")


def has_body(request: Request) -> bool:
    """Tell whether a request comes with a body."""
    return _declared_bytes(request) > 0 or "transfer-encoding" in request.headers


def _declared_bytes(request: Request) -> int:
    return int(request.headers.get("content-length", "0"))  # the server takes nothing but digits
