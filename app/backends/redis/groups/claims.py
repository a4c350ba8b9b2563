"""Claims: take pending entries over, by id or by page (XCLAIM, XAUTOCLAIM)."""

from __future__ import annotations

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import read_id
from headgate.app.backends.redis.groups.dead_letters import relay_now
from headgate.app.backends.redis.groups.descriptions import read_deliveries
from headgate.app.backends.redis.groups.settling import parts
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function
from headgate.engine.entry import MIN_ID
from headgate.engine.limits import AUTOCLAIM_MAX, AUTOCLAIM_SCAN_FACTOR, AUTOCLAIM_SCAN_MAX
from headgate.engine.replies import Claimed
from headgate.engine.requests.deliveries import Autoclaim, Claim
from headgate.engine.room import ReadRoom

_CLAIMED_AT_ONCE_MAX = 200
"""Entries that one call claims. Each one takes about 10 µs."""


async def claim(client: Client, request: Claim) -> Claimed:
    """Take over pending entries by id (XCLAIM)."""
    claimed, room = Claimed([], [], MIN_ID), ReadRoom(request.size_bytes_max)
    for ids in parts(request.ids, _CLAIMED_AT_ONCE_MAX):
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
    """Return the bounds of a claim: consumers, bytes, and names and values."""
    return {
        "consumers_max": client.options.keyspace.consumers_max,
        "size_bytes_max": room.bytes_left,
        "parts_max": room.parts_left,
    }


async def autoclaim(client: Client, request: Autoclaim) -> Claimed:
    """Take over idle entries in id order, a page at a time (XAUTOCLAIM)."""
    limit = min(request.limit, AUTOCLAIM_MAX)
    deliveries, gone, next_start, dead_letter_count = await client.perform(
        *(Effect.FREE, request),
        limit=limit,
        looked_at_max=min(limit * AUTOCLAIM_SCAN_FACTOR, AUTOCLAIM_SCAN_MAX),
        **_bounds(client, ReadRoom(request.size_bytes_max)),
    )
    if dead_letter_count:
        await relay_now(client, request.stream)
    return Claimed(
        read_deliveries(deliveries, by_id=True), list(map(read_id, gone)), read_id(next_start)
    )


PERFORMERS: Performers = {Claim: by_function(claim), Autoclaim: by_function(autoclaim)}
