"""Claims: take pending entries over, by id or by page (XCLAIM, XAUTOCLAIM)."""

from __future__ import annotations

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import read_id
from headgate.app.backends.redis.groups.dead_letters import relay_now
from headgate.app.backends.redis.groups.descriptions import read_deliveries
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
    stream, group = request.stream, request.group
    clock: tuple[str, int | str] = ("", "")
    if request.time_ms is not None:
        clock = "TIME", request.time_ms
    elif request.idle_ms is not None:
        clock = "IDLE", request.idle_ms
    count = "" if request.retry_count is None else request.retry_count
    claimed, room = Claimed([], [], MIN_ID), ReadRoom(request.size_bytes_max)
    ids = [str(each) for each in request.ids]
    for at in range(0, max(len(ids), 1), _CLAIMED_AT_ONCE_MAX):
        rows, gone, is_over = await client.call(
            Effect.FREE,
            b"claim",
            stream,
            *(group, request.consumer, client.options.keyspace.consumers_max),
            *(request.min_idle_ms, *clock, count),
            *(int(request.force), int(request.just_id), str(request.last_id)),
            *(*_words(room), int(not claimed.deliveries)),
            *ids[at : at + _CLAIMED_AT_ONCE_MAX],
        )
        deliveries = read_deliveries(rows, by_id=True)
        for delivery in deliveries:
            room.take(delivery.fields or (), is_first=True)
        claimed.deliveries.extend(deliveries)
        claimed.deleted_ids.extend(map(read_id, gone))
        if is_over:
            break
    return claimed


def _words(room: ReadRoom) -> tuple[int | str, int | str]:
    """Return the remaining room in a function's form: bytes, and names and values."""
    return ("", "") if room.bytes_left is None else (room.bytes_left, room.parts_left)


async def autoclaim(client: Client, request: Autoclaim) -> Claimed:
    """Take over idle entries in id order, a page at a time (XAUTOCLAIM)."""
    stream, group = request.stream, request.group
    limit = min(request.limit, AUTOCLAIM_MAX)
    deliveries, gone, next_start, dead_letter_count = await client.call(
        Effect.FREE,
        b"autoclaim",
        stream,
        *(stream, group, request.consumer, client.options.keyspace.consumers_max),
        *(request.min_idle_ms, str(request.start), limit),
        min(limit * AUTOCLAIM_SCAN_FACTOR, AUTOCLAIM_SCAN_MAX),
        *(int(request.just_id), int(request.by_policy), *_words(ReadRoom(request.size_bytes_max))),
    )
    if dead_letter_count:
        await relay_now(client, stream)
    return Claimed(
        read_deliveries(deliveries, by_id=True), list(map(read_id, gone)), read_id(next_start)
    )


PERFORMERS: Performers = {Claim: by_function(claim), Autoclaim: by_function(autoclaim)}
