"""Dispatch: from a path to the operation that answers it, by its segments.

A router tries one pattern after the other, and each costs a fifth of an append. What no operation
answers exactly (another method, a page, a socket) is the router's business, and so is a 404.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Self

from starlette.requests import ClientDisconnect, Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.app.http.handlers import answer_to
from headgate.app.http.operation import Operation


class Dispatch:
    """ASGI app: operations by their paths, and another app for everything else."""

    def __init__(self, routes: Iterable[BaseRoute], otherwise: ASGIApp) -> None:
        """Take over the operations among the routes; the rest is `otherwise`'s."""
        self._otherwise = otherwise
        self._root = _Segment()
        for route in routes:
            if isinstance(route, Operation) and ":" not in route.path:  # a part of a path each
                end = self._root
                for text in route.path.split("/")[1:]:
                    end = end.below(text)
                for method in route.methods or ():
                    end.operations.setdefault(method, route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        operation = self._find(scope) if scope["type"] == "http" else None
        if operation is None:
            await self._otherwise(scope, receive, send)
            return
        scope["route"] = operation
        try:
            answer = await operation.answer(scope, receive)
        except Exception as error:  # noqa: BLE001
            answer = await answer_to(Request(scope, receive), error)
        with suppress(ClientDisconnect):  # nobody is there to be told
            await answer(scope, receive, send)

    def _find(self, scope: Scope) -> Operation | None:
        at: _Segment | None = self._root
        named = {}
        for text in scope["path"].split("/")[1:]:
            assert at is not None
            below = at.literal.get(text)
            if below is None:
                below = at.parameter
                if below is None or not text:
                    return None
                named[at.name] = text
            at = below
        assert at is not None
        scope["path_params"] = named
        return at.operations.get(scope["method"])


class _Segment:
    """What stands between two slashes, and what may follow."""

    __slots__ = ("literal", "name", "operations", "parameter")

    def __init__(self) -> None:
        self.literal: dict[str, Self] = {}
        self.parameter: Self | None = None
        self.name = ""
        self.operations: dict[str, Operation] = {}

    def below(self, text: str) -> Self:
        """Return the segment after this one; it is made if it is not there."""
        if not text.startswith("{"):
            return self.literal.setdefault(text, type(self)())
        if self.parameter is None:
            self.parameter, self.name = type(self)(), text[1:-1]
        assert self.name == text[1:-1], "one name for one place"
        return self.parameter
