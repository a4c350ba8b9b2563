"""Performer: what runs the requests that commands become, and what INFO asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from headgate.engine.errors import StreamError
from headgate.engine.requests import Request

T = TypeVar("T")


class Performer(Protocol):
    """Carries out requests, one by one or all at one moment."""

    async def perform(self, request: Request[T]) -> T:
        """Carry out a request; returns its reply, or raises what it says that it raises."""
        ...

    async def perform_all(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        """Carry out requests with nothing in between; returns replies and errors."""
        ...

    @property
    def waiter_count(self) -> int:
        """Return how many reads are blocked."""
        ...

    @property
    def waited_for(self) -> tuple[int, int]:
        """Return on how many streams reads are blocked, and on how many of them by a group."""
        ...

    @property
    def unsaved_count(self) -> int:
        """Return how many changes no snapshot has yet."""
        ...
