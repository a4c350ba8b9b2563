"""Operation: the route class of the interface. It refuses what FastAPI would let pass.

A body must be of a media type the operation takes and within its bound, JSON must be JSON, and
every query parameter must be one the operation knows: what is not understood is refused, never
ignored.
"""

import asyncio
import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any
from urllib.parse import parse_qsl, quote

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import Receive, Scope, Send

from headgate.app.http.dependencies import gateway_of
from headgate.app.http.parameters import Errors, Parameters, missing
from headgate.app.wire.problems import NOWHERE, GatewayError, pointer_to
from headgate.app.wire.structure import DENSE_BYTES_MIN, SIZE_BYTES_MIN, check_dense, check_members

JSON = frozenset({"application/json"})
ARROW = "application/vnd.apache.arrow.stream"

_NOTHING = object()
_IS_JSON = (b"content-type", b"application/json")


class Operation(APIRoute):
    """A route that is strict about media types and query parameters.

    It is an ASGI app of its own: FastAPI reads its signature and describes it in the document, and
    has no part in a request.
    """

    media_types: frozenset[str] | None = JSON
    """Media types of a body; None: the operation reads path, query and body by itself."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Take a path and what answers there, with what FastAPI knows of routes."""
        super().__init__(path, endpoint, **options)
        assert not self._embed_body_fields
        self._parameters = Parameters(self.dependant)
        self._content_types = {text.encode() for text in self.media_types or ()}
        self._known = frozenset(self._parameters.query_names)
        self._answer: TypeAdapter[Any] | None = None
        if self.response_field is not None:
            self._answer = TypeAdapter(self.response_model)
        self._dumped_as: dict[str, Any] = {
            "by_alias": self.response_model_by_alias,
            "exclude_unset": self.response_model_exclude_unset,
            "exclude_none": self.response_model_exclude_none,
        }
        self.app = self._serve

    async def answer(self, scope: Scope, receive: Receive) -> Response:
        """Check a request, take its parameters, and return what answers it."""
        request = WholeRequest(scope, receive)
        if self.media_types is not None:
            if b"%" in scope["raw_path"]:
                check_path(request)
            if scope["query_string"]:
                check_query(request, self._known)
            if request.sent.get(b"content-type") not in self._content_types:
                check_media_type(request, self.media_types)
        await request.arrive()
        body = _NOTHING
        if self.body_field is not None and request.content:
            body = body_of(request.content)
        errors: Errors = []
        said = _Said()
        values = self._parameters.values(request, said, errors)
        if self.body_field is not None:
            self._take_body(body, values, errors)
        if errors:
            _forget_traces(errors)
            raise RequestValidationError(errors)
        answer = await self.endpoint(**values)
        if not isinstance(answer, Response):
            said.complete(self.status_code or 200, self._dump(answer))
            return said
        return answer

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await self.answer(scope, receive))(scope, receive, send)

    def _take_body(self, body: Any, values: dict[str, Any], errors: Errors) -> None:
        """Put the body among the values, or what is wrong with it among the errors."""
        field: Any = self.body_field
        name = self.dependant.body_params[0].name
        if body is not _NOTHING:
            values[name], wrong = field.validate(body, {}, loc=("body",))
            errors.extend(wrong)
        elif field.field_info.is_required():
            errors.append(missing("body"))
        else:
            values[name] = deepcopy(field.default)

    def _dump(self, answer: Any) -> bytes:
        return b"" if self._answer is None else self._answer.dump_json(answer, **self._dumped_as)


def _forget_traces(errors: Errors) -> None:
    """Forget where errors were raised: those frames know the errors, and both would stay."""
    for error in errors:
        cause = error.get("ctx", {}).get("error")
        if isinstance(cause, Exception):
            cause.__traceback__ = None


class _Said(Response):
    """An answer that a route may add to before it is complete."""

    def __init__(self) -> None:
        self.status_code = 0  # the route has not said it
        self.raw_headers: list[tuple[bytes, bytes]] = []
        self.background = None

    def complete(self, status_code: int, content: bytes) -> None:
        """Say what is answered, unless the route has said another status."""
        self.status_code = self.status_code or status_code
        self.body = content
        if content:
            length = str(len(content)).encode()
            self.raw_headers += [_IS_JSON, (b"content-length", length)]


class UncheckedOperation(Operation):
    """An operation that reads its path, query and body by itself, the body within its bound."""

    media_types = None


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
    """A request whose parts are each read once, and whose body is here, within its bound."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        """Begin with what is here."""
        super().__init__(scope, receive)
        # Of repeated headers the first.
        self.sent: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        text: bytes = scope["query_string"]
        self.query: dict[str, str] = {}  # nothing in it is given twice
        if text:
            self.query = dict(parse_qsl(text.decode("latin-1"), keep_blank_values=True))
        self.content = b""

    def has_body(self) -> bool:
        """Tell whether the request comes with a body."""
        return self._declared_bytes() > 0 or b"transfer-encoding" in self.sent

    async def arrive(self) -> None:
        """Wait for the body.

        Raises:
            GatewayError: it is too large, or too much is on its way; what is left is not read.
            ClientDisconnect: the client has gone.
        """
        if not self.has_body():
            return
        gateway = gateway_of(self)
        most = gateway.limits.body_bytes_max
        if self._declared_bytes() > most:
            raise _too_large(most)
        chunks: list[bytes] = []
        here_bytes, noted_bytes, more = 0, 0, True
        try:
            while more:
                message = await self.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                chunk = message.get("body", b"")
                chunks.append(chunk)
                here_bytes += len(chunk)
                if here_bytes > most:
                    raise _too_large(most)
                more = message.get("more_body", False)
                if more:
                    gateway.sockets.arrive(len(chunk))
                    noted_bytes += len(chunk)
        finally:
            gateway.sockets.arrived(noted_bytes)
        self.content = b"".join(chunks)
        if here_bytes > DENSE_BYTES_MIN:  # to put it together takes its time, and to read it too
            await asyncio.sleep(0)

    def _declared_bytes(self) -> int:
        return int(self.sent.get(b"content-length", b"0"))  # the server takes nothing but digits


def _too_large(most: int) -> GatewayError:
    return GatewayError("too_large", f"at most {most} bytes", pointer="/body")


def body_of(content: bytes) -> Any:
    """Return the value of a body of JSON. See `json_of`.

    Raises:
        RequestValidationError: it is no JSON.
        GatewayError: it has more members than any request here.
    """
    try:
        check_dense(content)
        return json_of(content)
    except json.JSONDecodeError as error:
        wrong = {"type": "json_invalid", "loc": ("body",), "msg": "JSON decode error"}
        raise RequestValidationError([{**wrong, "ctx": {"error": error.msg}}]) from None


def json_of(text: bytes) -> Any:
    """Return the value of a JSON text: UTF-8, no NaN, no lone surrogates, a sane size.

    Raises:
        json.JSONDecodeError: it is no JSON.
        GatewayError: it has more members than any request here.
    """
    try:
        value = from_json(text, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        raise json.JSONDecodeError(str(error), "", NOWHERE) from None
    if len(text) > SIZE_BYTES_MIN:
        check_members(value)
    return value


def check_path(connection: HTTPConnection) -> None:
    """Refuse a path with an encoded slash: it would be taken for one between names.

    Raises:
        GatewayError: there is one.
    """
    if b"%2f" in connection.scope.get("raw_path", b"").lower():
        raise GatewayError("invalid_request", "a name has no `/` in it", pointer="/path")


def check_query(request: Request, known: frozenset[str]) -> None:
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


def media_type_of(request: WholeRequest) -> str:
    """Return the media type of the request's body, without parameters."""
    sent = request.sent.get(b"content-type", b"")
    return sent.partition(b";")[0].strip().lower().decode("latin-1")


def check_media_type(request: WholeRequest, media_types: frozenset[str]) -> None:
    """Refuse a body of a media type the operation does not take.

    Raises:
        GatewayError: naming those it takes.
    """
    media_type = media_type_of(request)
    if media_type not in media_types and request.has_body():
        text = f"the body must be {' or '.join(sorted(media_types))}, and this header must say so"
        raise GatewayError("unsupported_media_type", text, pointer="/header/Content-Type")
