"""Client: what a worker asks of a gateway, whatever is between the two."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")

CLAIM_IDLE_MS = 1_000
TAKE_WAIT_MS = 500


class Entry(NamedTuple):
    """An entry of a stream; of a delivery it says how often it was delivered."""

    id: str
    fields: dict[str, str]
    deliveries: int = 0


class LostError(Exception):
    """No answer came: the request was carried out, or not."""


class RefusedError(Exception):
    """The gateway refused the request, which has changed nothing."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Client(Protocol):
    """One client. Its methods raise LostError; a commit raises RefusedError as well."""

    def now(self) -> int:
        """Return a moment: later than every answer before, of any client."""
        ...

    async def take(self, stream: str, group: str, consumer: str, limit: int) -> list[Entry]: ...

    async def row(self, stream: str, key: str) -> Entry: ...

    async def commit(
        self, consumer: str | None, steps: Sequence[dict[str, Any]], key: str
    ) -> list[str]:
        """Return the ids of what the steps have appended, in their order."""
        ...


Pause = Callable[[], Awaitable[None]]
"""Waits between two steps of a worker, which may never come back from it."""


async def answered(pause: Pause, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until an answer comes."""
    while True:
        await pause()
        try:
            return await ask()
        except LostError:
            continue


async def append(
    client: Client, pause: Pause, stream: str, entries: Sequence[dict[str, str]], key: str
) -> list[str]:
    """Append entries with these fields, and return their ids."""
    drafts = [{"fields": fields} for fields in entries]
    steps = [{"append": {"stream": stream, "entries": drafts}}]
    return await answered(pause, lambda: client.commit(None, steps, key))
