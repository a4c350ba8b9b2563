"""Deliveries: acknowledge, give back, extend, claim (XACK, XNACK, XACKDEL, XCLAIM, XAUTOCLAIM)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import read_id
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function, portions
from headgate.app.backends.redis.performing.policies import relay_now
from headgate.engine.entry import MIN_ID
from headgate.engine.limits import AUTOCLAIM_MAX, AUTOCLAIM_SCAN_FACTOR, AUTOCLAIM_SCAN_MAX
from headgate.engine.replies import Claimed, Deletion, Delivery, Outcome
from headgate.engine.requests.deliveries import (
    Ack,
    AckAndDelete,
    AckThrough,
    Autoclaim,
    Claim,
    Extend,
    GiveBack,
    Nack,
)
from headgate.engine.room import ReadRoom

T = TypeVar("T")

_ACKED_AT_ONCE_MAX = 1_000
"""Ids that one call acknowledges. Each one takes about 2 µs."""

_RELEASED_AT_ONCE_MAX = 200
"""Entries that one call gives back or extends. Each one takes about 10 µs."""

_DONE = "d"
_DELETIONS = {"d": Deletion.DELETED, "n": Deletion.NOT_FOUND, "r": Deletion.REFERENCED}
"""Meaning of the codes in a reply. `d` is the requested outcome."""


def _outcomes(done: Outcome) -> dict[str, Outcome]:
    return {_DONE: done, "n": Outcome.NOT_PENDING, "c": Outcome.CLAIMED}


def _in_parts(
    size: int, meanings: Mapping[str, T]
) -> Callable[[Client, Any], Coroutine[Any, Any, list[T]]]:
    """Return what performs a request about `ids`, so many in a call, whose replies are codes."""

    async def perform(client: Client, request: Any) -> list[T]:
        outcomes: list[T] = []
        for ids in _parts(request.ids, size):
            codes = await client.perform(Effect.FREE, request, ids=ids)
            outcomes += [meanings[code] for code in codes.decode()]
        return outcomes

    return perform


ack = _in_parts(_ACKED_AT_ONCE_MAX, _outcomes(Outcome.ACKED))


async def ack_through(client: Client, request: AckThrough) -> None:
    start: bytes | None = b"-"
    while start is not None:
        start = await client.perform(Effect.FREE, request, start=start, limit=_ACKED_AT_ONCE_MAX)


async def nack(client: Client, request: Nack) -> list[Outcome]:
    """Give deliveries back (XNACK); entries delivered too often become dead letters."""
    outcomes: list[Outcome] = []
    meanings = _outcomes(Outcome.RELEASED)
    for ids in _parts(request.ids, _RELEASED_AT_ONCE_MAX):
        counts = request.counts and [str(request.counts[each]) for each in ids]
        codes, dead_letter_count = await client.perform(
            Effect.FREE, request, ids=ids, counts=counts
        )
        outcomes += [meanings[code] for code in codes.decode()]
        if dead_letter_count:
            await relay_now(client, request.stream)
    return outcomes


async def give_back(client: Client, request: GiveBack) -> None:
    """Undo deliveries that nobody received or settled (XNACK SILENT)."""
    deliveries = [(each, str(count)) for each, count in request.counts.items()]
    for portion in portions(deliveries, _RELEASED_AT_ONCE_MAX):
        await client.perform(Effect.FREE, request, counts=None, deliveries=portion)


def _parts(ids: Sequence[T], size: int) -> Iterable[Sequence[T]]:
    """Return parts of this size; no ids make one empty part, so that the group is checked."""
    return portions(ids, size) if ids else [ids]


_CLAIMED_AT_ONCE_MAX = 200
"""Entries that one call claims. Each one takes about 10 µs."""


async def claim(client: Client, request: Claim) -> Claimed:
    claimed, room = Claimed([], [], MIN_ID), ReadRoom(request.size_bytes_max)
    for ids in _parts(request.ids, _CLAIMED_AT_ONCE_MAX):
        rows, gone, is_over = await client.perform(
            *(Effect.FREE, request),
            ids=ids,
            is_first=not claimed.deliveries,
            **_bounds(client, room),
        )
        deliveries = read_deliveries(rows, by_id=True)
        for delivery in deliveries:
            room.take(delivery.fields or (), is_first=True)
        claimed.deliveries.extend(deliveries)
        claimed.deleted_ids.extend(map(read_id, gone))
        if is_over:
            break
    return claimed


def _bounds(client: Client, room: ReadRoom) -> dict[str, int | None]:
    """Return the limits of a claim: consumers, bytes, and names and values."""
    return {
        "consumers_max": client.options.keyspace.consumers_max,
        "size_bytes_max": room.bytes_left,
        "parts": room.parts_left,
    }


async def autoclaim(client: Client, request: Autoclaim) -> Claimed:
    """Take over idle entries in id order, a page at a time (XAUTOCLAIM)."""
    limit = min(request.limit, AUTOCLAIM_MAX)
    deliveries, gone, next_start, dead_letter_count = await client.perform(
        *(Effect.FREE, request),
        is_first=True,
        limit=limit,
        looked_at_max=min(limit * AUTOCLAIM_SCAN_FACTOR, AUTOCLAIM_SCAN_MAX),
        **_bounds(client, ReadRoom(request.size_bytes_max)),
    )
    if dead_letter_count and not deliveries:
        await relay_now(client, request.stream)
    return Claimed(
        read_deliveries(deliveries, by_id=True), list(map(read_id, gone)), read_id(next_start)
    )


def read_deliveries(deliveries: Sequence[Sequence[Any]], *, by_id: bool = False) -> list[Delivery]:
    """Return deliveries of pending entries.

    The rows have id, fields, idle time, delivery count before, previous owner, delivery count from
    now on, and last error. `by_id` keeps the count from now on: entries claimed by id or by page.
    """
    return [
        Delivery(
            read_id(entry_id),
            None if fields is None else tuple(fields),
            idle_ms,
            int(before),
            claimed_from,
            int(count) if by_id else None,
            error,
        )
        for entry_id, fields, idle_ms, before, claimed_from, count, error in deliveries
    ]


PERFORMERS: Performers = {
    Ack: by_function(ack),
    AckThrough: by_function(ack_through),
    AckAndDelete: by_function(_in_parts(_RELEASED_AT_ONCE_MAX, _DELETIONS)),
    Nack: by_function(nack),
    GiveBack: by_function(give_back),
    Extend: by_function(_in_parts(_RELEASED_AT_ONCE_MAX, _outcomes(Outcome.EXTENDED))),
    Claim: by_function(claim),
    Autoclaim: by_function(autoclaim),
}
