"""Performer: what Redis commands need of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from headgate.engine.errors import StreamError
from headgate.engine.requests import Request

T = TypeVar("T")


class Performer(Protocol):
    """Carries out requests, one by one or several as a transaction."""

    async def perform(self, request: Request[T]) -> T:
        """Carry out a request, and return its reply.

        Raises:
            StreamError: one of the errors that the request lists.
        """
        ...

    async def perform_in_order(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        """Carry out requests one after the other. See `Backend.perform_in_order`."""
        ...

    async def perform_all(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        """Carry out requests with nothing in between, and return their replies or errors.

        Raises:
            StreamsChanged: the first of them is `IfUnchanged`, and does not hold.
        """
        ...

    @property
    def waiter_count(self) -> int:
        """Return how many reads are blocked."""
        ...

    @property
    def waited_for(self) -> tuple[int, int]:
        """Return the numbers of streams with blocked reads and with blocked group reads."""
        ...

    @property
    def unsaved_count(self) -> int:
        """Return how many changes are in no snapshot yet."""
        ...
