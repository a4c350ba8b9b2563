"""The route class of the interface; it refuses what FastAPI would accept.

A body must have a media type that the operation takes, and be within its bound. JSON must be valid.
The operation must know every query parameter. An unknown part is refused, and never ignored.
"""

import asyncio
import inspect
import json
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from copy import deepcopy
from threading import RLock
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.params import Form
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.routing import compile_path
from starlette.types import Receive, Scope

from headgate.app.auth.access import Access
from headgate.app.auth.needs import Needs, needs_of
from headgate.app.cloud_events.formats import check_format, is_event
from headgate.app.http.answers import AnswerModel, OpenAnswer
from headgate.app.http.credentials import access_of_request
from headgate.app.http.dependencies import gateway_of
from headgate.app.http.parameters import Errors, HeadValues, Parameters, Unsupported, missing
from headgate.app.transport.exchange import exchange_of
from headgate.app.transport.heads import Head, sent_of
from headgate.app.wire.credentials import TICKET
from headgate.app.wire.problems import NOWHERE, GatewayError, pointer_to
from headgate.app.wire.structure import DENSE_BYTES_MIN, SIZE_BYTES_MIN, check_dense, check_members

F = TypeVar("F", bound=Callable[..., Any])

JSON = frozenset({"application/json"})
ARROW = "application/vnd.apache.arrow.stream"

_NOTHING = object()

_READING = RLock()
"""Held while FastAPI reads a signature, for a request or for the document in its thread."""


def prompt(endpoint: F) -> F:
    """Declare that an operation waits for nothing but the backend, so that it needs no task.

    If it waits for something else after all, it becomes a task there. It must not ask for the
    current task before (`asyncio.timeout` does).
    """
    endpoint.__dict__["is_prompt"] = True
    return endpoint


def plain_body(read: Callable[[bytes], object]) -> Callable[[F], F]:
    """Declare a reader for an operation's common bodies, to bypass the model.

    `read` returns what the model would, or None: then the model reads the body, or reports its
    faults.
    """

    def declare(endpoint: F) -> F:
        endpoint.__dict__["read_plain"] = read
        return endpoint

    return declare


def _never_plain(content: bytes) -> object:
    del content
    return None


class CompiledOperation:
    """An operation, compiled: its parameters, its dependencies and its answer.

    1. The credential is verified, and refused if it allows nothing of the kind, or has asked for
       too much.
    2. A bad path, query or media type is refused.
    3. The body arrives, within its bound, and is read as JSON.
    4. The dependencies are called, in order: first those that depend on the head alone, and if
       nothing is wrong, those that take the request.
    5. The body becomes the model that the operation takes.
    6. The operation is called, and what it returns becomes the answer.
    """

    def __init__(self, route: "Operation") -> None:
        self.operation = route
        self.alternative: CompiledOperation | None = None  # has the same path and method
        self.segments: list[str] = route.path.split("/")[1:]
        self.is_longer = ":" in route.path  # a parameter of it may be several segments
        self.methods = frozenset(route.methods or ())
        self.needs = _needs_of(route)
        self.is_prompt: bool = getattr(route.endpoint, "is_prompt", False)
        self._is_compiled = False

    def compile(self) -> None:
        """Read what FastAPI knows of the operation, once; raises Unsupported for what is not run.

        The first request does it: FastAPI takes 3 ms to read a signature, and a start has no time
        to read them all.
        """
        route = self.operation
        try:
            _check_route(route)
            self._parameters = Parameters(
                route.dependant, {"body_params", "response_param_name", "scope"}
            )
            self._model = AnswerModel(route)
        except Unsupported as error:
            raise Unsupported(f"{self}: this is not supported: {error}") from None
        self._call = route.endpoint
        self._status_code: int = route.status_code or 200
        self._media_types = route.media_types
        self._content_types = {text.encode() for text in self._media_types or ()}
        self._body: Any = route.body_field
        self._body_name: Any = self._body and route.dependant.body_params[0].name
        self._answer_name: str | None = route.dependant.response_param_name
        self._read_plain: Callable[[bytes], object] = getattr(
            route.endpoint, "read_plain", _never_plain
        )
        by_url = {TICKET} if self.needs.by_url else set[str]()
        self._known_of_query = self._parameters.query_names | by_url
        self._is_compiled = True

    def __str__(self) -> str:
        return f"{' '.join(sorted(self.methods))} {self.operation.path}"

    async def answer(self, scope: Scope, receive: Receive) -> Response:
        request = WholeRequest(scope, receive)
        head: Head | None = scope.get("head")
        is_checked = head is not None and self in head.derived
        if not is_checked:
            alternative = self.alternative
            if alternative is not None and alternative.operation.is_for(request.sent):
                return await alternative.answer(scope, receive)
            if not self._is_compiled:
                self.compile()
        scope["access"] = access = self._access(request)
        if not is_checked:
            self._check(request)
            if head is not None:
                head.derived[self] = None  # but that nothing is wrong with it
        if not request.is_here():
            await request.arrive()
        usage = access.usage
        if usage.is_rated:
            usage.spend(size_bytes=len(request.content))
        values = self._values(request, head)
        answer = OpenAnswer()
        if self._answer_name is not None:
            values[self._answer_name] = answer
        returned = await self._call(**values)
        if isinstance(returned, Response):
            return returned
        answer.complete(self._status_code, self._model.json(returned))
        return answer

    def _values(self, request: "WholeRequest", head: Head | None) -> dict[str, Any]:
        """Return the arguments of the operation, but for its answer."""
        plain, body = self._read(request.content)
        errors: Errors = []
        if "varied" in request.scope:
            head = None
        known: HeadValues | None = None if head is None else head.derived.get(self._parameters)
        if known is None:
            known = self._parameters.known(request, errors)
            if head is not None and not errors:
                head.derived[self._parameters] = known
        values = {} if errors else self._parameters.values(request, known)
        if plain is not None:
            values[self._body_name] = plain
        elif self._body is not None:
            self._take_body(body, values, errors)
        if errors:
            _forget_traces(errors)
            raise RequestValidationError(errors)
        return values

    def _access(self, request: "WholeRequest") -> Access:
        gateway = gateway_of(request)
        access = gateway.auth.for_all
        if access is None:
            access = access_of_request(gateway.auth, request.scope, request.sent, self.needs)
        if gateway.tracing is None:
            return access
        return gateway.tracing.access(access, request.sent)

    def _check(self, request: "WholeRequest") -> None:
        if self._media_types is None:
            return
        scope = request.scope
        if b"%" in scope["raw_path"]:
            check_path(request)
        if scope["query_string"]:
            check_query(request, self._known_of_query)
        if request.sent.get(b"content-type") not in self._content_types:
            self.operation.check_media_type(request)

    def _read(self, content: bytes) -> tuple[object, object]:
        """Return the body as read without the model, and as JSON for the model."""
        if self._body is None or not content:
            return None, _NOTHING
        plain = self._read_plain(content)
        return plain, _NOTHING if plain is not None else body_of(content)

    def _take_body(self, body: Any, values: dict[str, Any], errors: Errors) -> None:
        field = self._body
        if body is not _NOTHING:
            values[self._body_name], wrong = field.validate(body, {}, loc=("body",))
            errors.extend(wrong)
        elif field.field_info.is_required():
            errors.append(missing("body"))
        else:
            values[self._body_name] = deepcopy(field.default)


def _needs_of(operation: "Operation") -> Needs:
    needs = needs_of(operation.endpoint) or operation.needs
    if needs is None:
        raise Unsupported(f"{operation.path} does not say what it needs: @needs(Verb.READ)")
    return needs


def _check_route(route: Any) -> None:
    """Raise Unsupported unless a route is `async def`, with at most one body, of JSON."""
    bodies = route.dependant.body_params
    if not (
        inspect.iscoroutinefunction(route.endpoint)
        and len(bodies) <= 1
        and not any(isinstance(each.field_info, Form) or each.field_info.embed for each in bodies)
        and route.max_body_size is None
        and getattr(route.strict_content_type, "value", route.strict_content_type)
    ):
        raise Unsupported("anything but `async def` with one body within the common bound")


class Operation(APIRoute):
    """A route that is strict about media types and query parameters.

    FastAPI reads its signature and describes it in the document. `Dispatch` runs it, because
    FastAPI would be less strict.

    FastAPI reads it when something asks for what it knows: read at the start, the signatures of all
    operations would take a third of its time.
    """

    media_types: frozenset[str] | None = JSON
    """Media types of a body; None: the operation reads path, query and body by itself."""

    needs: Needs | None = None
    """Needs of operations without a declaration of their own."""

    is_alternative = False
    """Another operation has the same path and method, and answers whatever this is not for."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.path, self.endpoint = path, endpoint
        self.methods = set(options["methods"] or ["GET"])
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self._options: dict[str, Any] | None = options
        self.compiled = CompiledOperation(self)

    def __getattr__(self, name: str) -> Any:
        with _READING:
            options = self.__dict__.get("_options")
            if options is not None:
                self._options = None
                regex = self.path_regex
                super().__init__(self.path, self.endpoint, **options)
                self.path_regex = regex
        return object.__getattribute__(self, name)

    @property
    def declared(self) -> Needs:
        return self.compiled.needs

    def is_for(self, sent: Mapping[bytes, bytes]) -> bool:
        """Tell by a request's headers whether an alternative operation is for it."""
        raise NotImplementedError

    def check_media_type(self, request: "WholeRequest") -> None:
        """Raise GatewayError unless the body's media type is one that the operation takes."""
        check_media_type(request, self.media_types or frozenset())

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that fails: without `Dispatch` the app must not serve."""

        async def fail(request: Request) -> Response:
            what = f"{request.method} {self.path}"
            raise Unsupported(f"{what}: add routes before the layers are put together")

        return fail


def _forget_traces(errors: Errors) -> None:
    """Drop the tracebacks of errors: errors and frames would form a cycle and stay in memory."""
    for error in errors:
        cause = error.get("ctx", {}).get("error")
        if isinstance(cause, Exception):
            cause.__traceback__ = None


class UncheckedOperation(Operation):
    """An operation that reads its path, query and body by itself, the body within its bound."""

    media_types = None

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Take a path and its endpoint; a path parameter may have line ends."""
        super().__init__(path, endpoint, **options)
        self.path_regex = re.compile(self.path_regex.pattern, re.DOTALL)


class BatchOperation(Operation):
    """An operation that also takes one JSON value per line, or rows of Arrow."""

    media_types = JSON | {"application/x-ndjson", ARROW}


class ArrowOperation(Operation):
    media_types = frozenset({ARROW})


class EventOperation(Operation):
    """An alternative to another operation, for CloudEvents."""

    is_alternative = True

    def is_for(self, sent: Mapping[bytes, bytes]) -> bool:
        return is_event(sent)

    def check_media_type(self, request: "WholeRequest") -> None:
        """Raise GatewayError for events in an unknown format; data may have any type."""
        check_format(request.sent)


class PatchOperation(Operation):
    """An operation that takes a merge patch (RFC 7396)."""

    media_types = JSON | {"application/merge-patch+json"}


class WholeRequest(Request):
    """A request with its parts read once, and with its whole body, which is within its bound."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        super().__init__(scope, receive)
        self.sent = sent_of(scope)
        text: bytes = scope["query_string"]
        self.query: dict[str, str] = {}  # nothing in it is given twice
        if text:
            self.query = dict(parse_qsl(text.decode("latin-1"), keep_blank_values=True))
        self.content = b""

    def has_body(self) -> bool:
        return self._declared_bytes() > 0 or b"transfer-encoding" in self.sent

    def is_here(self) -> bool:
        """Take the body if it is small and here as a whole, or if there is none."""
        declared_bytes = self._declared_bytes()
        if not declared_bytes:
            return b"transfer-encoding" not in self.sent
        exchange = exchange_of(self._receive) if declared_bytes <= DENSE_BYTES_MIN else None
        if exchange is None or declared_bytes > gateway_of(self).limits.body_bytes_max:
            return False
        content = exchange.take_whole()
        if content is None:
            return False
        self.content = content
        return True

    async def arrive(self) -> None:
        """Wait for the body.

        Raises GatewayError if it is too large, or too many bytes are in flight (the rest of the
        body is not read), and ClientDisconnect.
        """
        declared_bytes = self._declared_bytes()
        gateway = gateway_of(self)
        limit_bytes = gateway.limits.body_bytes_max
        if declared_bytes > limit_bytes:
            raise _too_large(limit_bytes)
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
                if here_bytes > limit_bytes:
                    raise _too_large(limit_bytes)
                more = message.get("more_body", False)
                if more:
                    gateway.sockets.arrive(len(chunk))
                    noted_bytes += len(chunk)
        finally:
            if noted_bytes:
                gateway.sockets.arrived(noted_bytes)
        self.content = b"".join(chunks)
        if here_bytes > DENSE_BYTES_MIN:  # joining it takes long, and so does reading it
            await asyncio.sleep(0)

    async def body(self) -> bytes:
        return self.content

    async def stream(self) -> AsyncGenerator[bytes, None]:
        yield self.content

    def _declared_bytes(self) -> int:
        return int(self.sent.get(b"content-length", b"0"))  # the server takes nothing but digits


def _too_large(limit_bytes: int) -> GatewayError:
    return GatewayError("too_large", f"at most {limit_bytes} bytes are allowed", pointer="/body")


def body_of(content: bytes) -> Any:
    """Return the value of a JSON body as `json_of`; raises RequestValidationError."""
    try:
        check_dense(content)
        return json_of(content)
    except json.JSONDecodeError as error:
        wrong = {"type": "json_invalid", "loc": ("body",), "msg": "JSON decode error"}
        raise RequestValidationError([{**wrong, "ctx": {"error": error.msg}}]) from None


def json_of(text: bytes) -> Any:
    """Return the value of a JSON text: UTF-8, no NaN, no lone surrogates, a bounded size."""
    try:
        value = from_json(text, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        raise json.JSONDecodeError(str(error), "", NOWHERE) from None
    if len(text) > SIZE_BYTES_MIN:
        check_members(value)
    return value


def check_path(connection: HTTPConnection) -> None:
    """Raise GatewayError for an encoded slash, which would separate names; keys may have one."""
    names, _, _ = connection.scope.get("raw_path", b"").lower().partition(b"/table/")
    if b"%2f" in names:
        raise GatewayError("invalid_request", "a name must not contain /", pointer="/path")


def check_query(request: Request, known: frozenset[str]) -> None:
    """Raise GatewayError for the first unknown or repeated query parameter."""
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name not in known:
            text = "unknown parameter"
            raise GatewayError("invalid_request", text, pointer=pointer_to("query", name))
        if name in seen:
            raise GatewayError("invalid_request", "given twice", pointer=pointer_to("query", name))
        seen.add(name)


def media_type_of(request: WholeRequest) -> str:
    """Return the media type of the request's body, without parameters."""
    sent = request.sent.get(b"content-type", b"")
    return sent.partition(b";")[0].strip().lower().decode("latin-1")


def accepts(request: WholeRequest, media_type: str) -> bool:
    types = request.sent.get(b"accept", b"").lower().split(b",")
    return media_type.encode() in [each.partition(b";")[0].strip() for each in types]


def check_media_type(request: WholeRequest, media_types: frozenset[str]) -> None:
    media_type = media_type_of(request)
    if media_type not in media_types and request.has_body():
        text = f"the body must be {' or '.join(sorted(media_types))}, and this header must say so"
        raise GatewayError("unsupported_media_type", text, pointer="/header/Content-Type")
