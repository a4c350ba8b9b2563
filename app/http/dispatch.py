"""Find the operation that answers a path, by the segments of the path.

A router tries one pattern after the other, and each costs a fifth of an append. So dispatch tries
patterns only if the segments do not lead to an operation: a path may have parameters of several
segments, or a literal segment of one operation may be a parameter of another. The router answers
everything else: another method, a page, a socket, a 404.

If two paths match, the router takes the first one, and the segments take the literal one. So a path
with a parameter must come after a path that is literal there.
"""

from collections.abc import Sequence
from typing import Any, Self

from fastapi import FastAPI, Response
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.app.auth.access import Access
from headgate.app.http.answers import OpenAnswer
from headgate.app.http.handlers import answer_to
from headgate.app.http.operation import CompiledOperation, Operation
from headgate.app.http.parameters import Unsupported
from headgate.app.transport.exchange import exchange_of
from headgate.app.transport.heads import Head
from headgate.app.transport.scopes import plain_path_of
from headgate.engine.eager import own_task


class Dispatch:
    def __init__(self, app: FastAPI, otherwise: ASGIApp) -> None:
        """Take the operations of an app; raises Unsupported if one hides another."""
        self._otherwise = otherwise
        operations = [each.compiled for each in app.routes if isinstance(each, Operation)]
        _check_order(operations)
        self._longer = [operation for operation in operations if operation.is_longer]
        self._of_length = {
            length: [each for each in operations if each.is_longer or len(each.segments) == length]
            for length in {len(operation.segments) for operation in operations}
        }
        self._root = _Segment()
        for operation in operations:
            end: _Segment | None = self._root
            for text in operation.segments:
                end = end and end.below(text)
            if end is not None:
                for method in operation.methods:
                    first = end.operations.setdefault(method, operation)
                    if operation.operation.is_alternative:
                        _put_beside(first, operation)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = self._find(scope) if scope["type"] == "http" else None
        if operation is None or not operation.is_prompt:
            await own_task()
        if operation is None:
            await self._otherwise(scope, receive, send)
            return
        scope["route"] = operation.operation
        try:
            answer: Response | None = await operation.answer(scope, receive)
        except Exception as error:  # noqa: BLE001
            answer = await answer_to(Request(scope, receive), error)
        if answer is not None:
            access: Access | None = scope.get("access")
            if access is not None and access.usage.is_rated:
                answer.headers.update(access.usage.headers())
            if _is_sent_whole(answer, send):
                return
            try:  # `suppress` takes ten times as long
                await answer(scope, receive, send)
            except ClientDisconnect:  # the client has gone
                return

    def _find(self, scope: Scope) -> CompiledOperation | None:
        head: Head | None = scope.get("head")
        if head is None:
            return self._walk(scope)
        found: tuple[CompiledOperation, Any] | None = head.derived.get(self)
        if found is None:
            operation = self._walk(scope)
            if operation is not None:
                head.derived[self] = operation, scope["path_params"]
            return operation
        scope["path_params"] = found[1]
        return found[0]

    def _walk(self, scope: Scope) -> CompiledOperation | None:
        at: _Segment | None = self._root
        named = {}
        for text in scope["path"].split("/")[1:]:
            assert at is not None
            below = at.literal.get(text)
            if below is None:
                below = at.parameter
                if below is None or not text:
                    return self._search(scope)
                named[at.name] = text
            at = below
        assert at is not None
        scope["path_params"] = named
        return at.operations.get(scope["method"]) or self._search(scope)

    def _search(self, scope: Scope) -> CompiledOperation | None:
        path = plain_path_of(scope)
        for operation in self._of_length.get(path.count("/"), self._longer):
            if scope["method"] in operation.methods:
                match, matched = operation.operation.matches(scope)
                if match is Match.FULL:
                    scope["path_params"] = matched["path_params"]
                    return operation
        return None


def _is_sent_whole(answer: Response, send: Send) -> bool:
    """Send an answer that is there as a whole at once, unless a layer in front changes answers."""
    exchange = exchange_of(send)
    if exchange is None or answer.background is not None:
        return False
    if isinstance(answer, OpenAnswer):
        if answer.body:
            return exchange.send_json(answer.status_code, answer.raw_headers, answer.body)
    elif type(answer).__call__ is not Response.__call__:
        return False
    return exchange.send_whole(answer.status_code, answer.raw_headers, answer.body)


class _Segment:
    """A segment of paths between two slashes, and the segments that may follow."""

    __slots__ = ("literal", "name", "operations", "parameter")

    def __init__(self) -> None:
        self.literal: dict[str, Self] = {}
        self.parameter: Self | None = None
        self.name = ""
        self.operations: dict[str, CompiledOperation] = {}

    def below(self, text: str) -> Self | None:
        """Return the segment after this one, created if missing; None if it has no place."""
        if not text.startswith("{"):
            return self.literal.setdefault(text, type(self)())
        if ":" in text:  # it may be several segments
            return None
        if self.parameter is None:
            self.parameter, self.name = type(self)(), text[1:-1]
        return self.parameter if self.name == text[1:-1] else None


def _put_beside(first: CompiledOperation, alternative: CompiledOperation) -> None:
    """Give an operation an alternative; raises Unsupported if the path has no other one."""
    if first is alternative:
        raise Unsupported(f"{alternative}: an alternative comes after the other operation")
    first.alternative = alternative


def _check_order(operations: Sequence[CompiledOperation]) -> None:
    """Raise Unsupported if segments and router would find different operations."""
    before: dict[int, list[CompiledOperation]] = {}
    for operation in operations:
        for earlier in before.setdefault(len(operation.segments), []):
            if _hides(earlier, operation):
                raise Unsupported(f"{operation} comes after {earlier}, which is found instead")
        before[len(operation.segments)].append(operation)


def _hides(earlier: CompiledOperation, later: CompiledOperation) -> bool:
    """Tell whether router and segments prefer different operations on some path."""
    if not earlier.methods & later.methods:
        return False
    pairs = [
        (first, second)
        for first, second in zip(earlier.segments, later.segments, strict=True)
        if first != second
    ]
    if not all(first.startswith("{") or second.startswith("{") for first, second in pairs):
        return False  # no path is both
    return bool(pairs) and not pairs[0][1].startswith("{")


# Layers: what a request passes through.
#
# From the outside in:
#
# 1. the gateway's own layers, in front of everything,
# 2. `Dispatch`, which answers operations,
# 3. the gateway's own layers behind it, for requests without an operation,
# 4. the router of FastAPI: the document, its pages, other sockets, and the 404s.


def put_together(
    app: FastAPI, *, in_front: Sequence[Middleware] = (), behind: Sequence[Middleware] = ()
) -> None:
    """Complete an app that has all its routes: `Dispatch` answers its operations.

    Layers `in_front` see all requests, those `behind` only requests without an operation; the
    outermost come first. Raises Unsupported if something of FastAPI is used that is not supported
    here.
    """
    if app.max_body_size is not None or app.debug or app.user_middleware or app.router.dependencies:
        raise Unsupported("an app with a bound, debug mode, middleware or dependencies of its own")
    handlers: Any = {HTTPException: answer_to, Exception: answer_to}
    inner = ExceptionMiddleware(AsyncExitStackMiddleware(app.router), handlers)
    dispatch = Dispatch(app, _wrapped(inner, behind))
    app.middleware_stack = _wrapped(dispatch, in_front)


def _wrapped(app: ASGIApp, layers: Sequence[Middleware]) -> ASGIApp:
    for layer, args, kwargs in reversed(layers):
        app = layer(app, *args, **kwargs)
    return app


# Root path: where a proxy serves the gateway, if that is below another path.
#
# Some proxies leave the root path in front of what they pass on, and others take it off. Both are
# served. What is answered by operations never sees it. The router behind them sees it in front of
# every path, as ASGI wants it, and so do its pages.


class WithoutRootPath:
    """Outermost ASGI middleware: strips the root path from requests, and adds it to answers."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self._app = app
        self._text = root_path
        self._bytes = root_path.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        raw_path: bytes = scope["raw_path"]
        if raw_path == self._bytes or raw_path.startswith(self._bytes + b"/"):
            scope["path"] = scope["path"].removeprefix(self._text) or "/"
            scope["raw_path"] = raw_path.removeprefix(self._bytes) or b"/"

        async def send_with_root_path(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [self._header(*header) for header in message["headers"]]
            await send(message)

        await self._app(scope, receive, send_with_root_path)

    def _header(self, name: bytes, value: bytes) -> tuple[bytes, bytes]:
        """Return a header of an answer; one of our paths gets the root path."""
        if name.lower() == b"location" and value.startswith(b"/"):
            return name, self._bytes + value
        return name, value


class WithRootPath:
    """ASGI middleware in front of a router: adds the root path to the path of each request."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self._app = app
        self._text = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            paths = {
                "root_path": self._text,
                "path": self._text + scope["path"],
                "raw_path": self._text.encode() + scope["raw_path"],
            }
            scope = {**scope, **paths}
        await self._app(scope, receive, send)
