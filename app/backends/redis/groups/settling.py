"""Settling: acknowledge, give back, extend (XACK, XNACK, XACKDEL)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.groups.dead_letters import relay_now
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function
from headgate.engine.replies import Deletion, Outcome
from headgate.engine.requests.deliveries import (
    Ack,
    AckAndDelete,
    AckThrough,
    Extend,
    GiveBack,
    Nack,
)

T = TypeVar("T")

_ACKED_AT_ONCE_MAX = 1_000
"""Ids that one call acknowledges. Each one takes about 2 µs."""

_RELEASED_AT_ONCE_MAX = 200
"""Entries that one call gives back or extends. Each one takes about 10 µs."""

_DONE = "d"
_DELETIONS = {"d": Deletion.DELETED, "n": Deletion.NOT_FOUND, "r": Deletion.REFERENCED}
"""Meaning of the codes in a reply. `d` is the requested outcome."""


async def ack(client: Client, request: Ack) -> list[Outcome]:
    """Acknowledge entries (XACK)."""
    outcomes: list[Outcome] = []
    for ids in parts(request.ids, _ACKED_AT_ONCE_MAX):
        codes = await client.perform(Effect.FREE, request, ids=ids)
        outcomes += _outcomes(codes, Outcome.ACKED)
    return outcomes


async def ack_through(client: Client, request: AckThrough) -> None:
    """Acknowledge a consumer's entries up to the entry `seen`."""
    start: bytes | None = b"-"
    while start is not None:
        start = await client.perform(Effect.FREE, request, start=start, limit=_ACKED_AT_ONCE_MAX)


async def ack_and_delete(client: Client, request: AckAndDelete) -> list[Deletion]:
    """Acknowledge entries and delete them (XACKDEL)."""
    deletions: list[Deletion] = []
    for ids in parts(request.ids, _RELEASED_AT_ONCE_MAX):
        codes = await client.perform(Effect.FREE, request, ids=ids)
        deletions += [_DELETIONS[code] for code in codes.decode()]
    return deletions


async def nack(client: Client, request: Nack) -> list[Outcome]:
    """Give deliveries back (XNACK). Entries that were delivered too often become dead letters."""
    outcomes: list[Outcome] = []
    for ids in parts(request.ids, _RELEASED_AT_ONCE_MAX):
        codes, dead_letter_count = await client.perform(Effect.FREE, request, ids=ids)
        outcomes += _outcomes(codes, Outcome.RELEASED)
        if dead_letter_count:
            await relay_now(client, request.stream)
    return outcomes


async def give_back(client: Client, request: GiveBack) -> None:
    """Undo deliveries that nobody received or settled (XNACK SILENT)."""
    deliveries = [(each, str(count)) for each, count in request.counts.items()]
    for portion in parts(deliveries, _RELEASED_AT_ONCE_MAX) if deliveries else ():
        await client.perform(Effect.FREE, request, counts=None, deliveries=portion)


async def extend(client: Client, request: Extend) -> list[Outcome]:
    """Restart the idle time of entries that the consumer owns (XCLAIM JUSTID)."""
    outcomes: list[Outcome] = []
    for ids in parts(request.ids, _RELEASED_AT_ONCE_MAX):
        codes = await client.perform(Effect.FREE, request, ids=ids)
        outcomes += _outcomes(codes, Outcome.EXTENDED)
    return outcomes


def parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield parts of this size; without items one part, so that the group is looked at."""
    for at in range(0, max(len(items), 1), size):
        yield items[at : at + size]


def _outcomes(codes: bytes, done: Outcome) -> list[Outcome]:
    meanings = {_DONE: done, "n": Outcome.NOT_PENDING, "c": Outcome.CLAIMED}
    return [meanings[code] for code in codes.decode()]


PERFORMERS: Performers = {
    Ack: by_function(ack),
    AckThrough: by_function(ack_through),
    AckAndDelete: by_function(ack_and_delete),
    Nack: by_function(nack),
    GiveBack: by_function(give_back),
    Extend: by_function(extend),
}
