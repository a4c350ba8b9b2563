"""Dispatch: finds the operation that answers a path, by the segments of the path.

A router tries one pattern after the other, and each costs a fifth of an append. So dispatch tries
patterns only if the segments do not lead to an operation: a path may have parameters of several
segments, or a literal segment of one operation may be a parameter of another. The router answers
everything else: another method, a page, a socket, a 404.

If two paths match, the router takes the first one, and the segments take the literal one. So a path
with a parameter must come after a path that is literal there.
"""

from collections.abc import Sequence
from typing import Self

from fastapi import FastAPI, Response
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.app.auth.access import Access
from headgate.app.http.handlers import answer_to
from headgate.app.http.operation import CompiledOperation, Operation
from headgate.app.http.parameters import Unsupported
from headgate.app.transport.scopes import plain_path_of
from headgate.engine.eager import own_task


class Dispatch:
    """An ASGI app: runs operations by their paths; another app answers everything else."""

    def __init__(self, app: FastAPI, otherwise: ASGIApp) -> None:
        """Compile the operations of an app; `otherwise` answers everything else.

        Raises:
            Unsupported: an operation hides another.
        """
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
        """Answer a request."""
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
            try:  # `suppress` takes ten times as long
                await answer(scope, receive, send)
            except ClientDisconnect:  # the client has gone
                return

    def _find(self, scope: Scope) -> CompiledOperation | None:
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
        """Return the first operation whose pattern is matched, as a router finds it."""
        path = plain_path_of(scope)
        for operation in self._of_length.get(path.count("/"), self._longer):
            if scope["method"] in operation.methods:
                match, matched = operation.operation.matches(scope)
                if match is Match.FULL:
                    scope["path_params"] = matched["path_params"]
                    return operation
        return None


class _Segment:
    """A segment of paths between two slashes, and the segments that may follow."""

    __slots__ = ("literal", "name", "operations", "parameter")

    def __init__(self) -> None:
        self.literal: dict[str, Self] = {}
        self.parameter: Self | None = None
        self.name = ""
        self.operations: dict[str, CompiledOperation] = {}

    def below(self, text: str) -> Self | None:
        """Return the segment after this one, made if it is not there; None if it has no place."""
        if not text.startswith("{"):
            return self.literal.setdefault(text, type(self)())
        if ":" in text:  # it may be several segments
            return None
        if self.parameter is None:
            self.parameter, self.name = type(self)(), text[1:-1]
        return self.parameter if self.name == text[1:-1] else None


def _put_beside(first: CompiledOperation, alternative: CompiledOperation) -> None:
    """Let an operation have an alternative.

    Raises:
        Unsupported: there is no other one on the path.
    """
    if first is alternative:
        raise Unsupported(f"{alternative}: an alternative comes after the other operation")
    first.alternative = alternative


def _check_order(operations: Sequence[CompiledOperation]) -> None:
    """Refuse an operation that the segments find and the router does not.

    Raises:
        Unsupported: naming both.
    """
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
