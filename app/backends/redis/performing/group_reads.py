"""Deliver entries to a consumer (XREADGROUP), without waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import Fault, as_stream_errors, read_id
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function
from headgate.app.backends.redis.performing.deliveries import ack, give_back, read_deliveries
from headgate.app.backends.redis.performing.entries import find_times
from headgate.app.backends.redis.performing.policies import relay_now
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamNotFound
from headgate.engine.limits import GROUP_READ_MAX, READ_PARTS_MAX
from headgate.engine.replies import Delivery, GroupRead, GroupState
from headgate.engine.requests.deliveries import Ack, GiveBack, GroupCursor, ReadGroup
from headgate.engine.requests.entries import FindTimes
from headgate.engine.room import ReplyRoom

_ACKED_AT_ONCE_MAX = 1_000
"""Ids that are acknowledged together with a read. Those before are acknowledged first."""


_LOOKS_AGAIN = 0
"""The reply of a read that got nothing, and has not looked at all yet."""


class Attempt(NamedTuple):
    reads: list[GroupRead]
    claim_in_ms: int | None  # when it may claim something, if nothing changes; None: never

    @property
    def is_served(self) -> bool:
        return any(read.served for read in self.reads)


async def attempt(client: Client, request: ReadGroup) -> Attempt:
    """Read once, without waiting; each stream is read in one step of its own.

    A read that is refused acknowledges and delivers nothing, unless a group is destroyed or gets
    another consumer between the steps. Raises the errors of `ReadGroup`.
    """
    acked = request.acked
    if len(request.cursors) > 1 or len(acked) > _ACKED_AT_ONCE_MAX:
        await asyncio.gather(
            *(_check(client, request, cursor.stream) for cursor in request.cursors)
        )
    if len(acked) > _ACKED_AT_ONCE_MAX:
        early, acked = acked[:-_ACKED_AT_ONCE_MAX], acked[-_ACKED_AT_ONCE_MAX:]
        for cursor in request.cursors:
            with as_stream_errors(cursor.stream, request.group):
                await ack(client, Ack(cursor.stream, request.group, early, request.consumer))
    reads: list[GroupRead] = []
    claims_in_ms: list[int] = []
    left = None if request.budget is None else _Left(request.budget)
    claims_any = True
    for cursor in request.cursors:
        with as_stream_errors(cursor.stream, request.group):
            reply = await _read_stream(client, request, cursor, acked, left, claims_any=claims_any)
            while reply[4] == _LOOKS_AGAIN:
                reply = await _read_stream(client, request, cursor, (), left, claims_any=claims_any)
        read, claim_in_ms, dead_letter_count = _read(cursor.stream, reply)
        if reply[10]:
            read = await _with_times(client, read)
        reads.append(read)
        if left is not None:
            left.note(len(read.deliveries), *reply[6:8])
        if claim_in_ms is not None:
            claims_in_ms.append(claim_in_ms)
        if dead_letter_count and not read.deliveries:
            await relay_now(client, cursor.stream)
        # Redis: after a stream that is read as history, the streams that follow claim nothing.
        claims_any = claims_any and cursor.after is None
    return Attempt(reads, min(claims_in_ms, default=None))


async def _with_times(client: Client, read: GroupRead) -> GroupRead:
    deliveries = read.deliveries
    with suppress(StreamNotFound, Fault):  # it was deleted meanwhile
        wanted = FindTimes(read.stream, [each.id for each in deliveries])
        times = await find_times(client, wanted)
        deliveries = [each._replace(times=times.get(each.id)) for each in deliveries]
    return read._replace(deliveries=deliveries)


async def undo(client: Client, request: ReadGroup, reads: list[GroupRead]) -> None:
    for cursor, read in zip(request.cursors, reads, strict=False):
        if cursor.after is None:  # else the reader held its history before the read
            counts = {delivery.id: delivery.delivery_count for delivery in read.deliveries}
            undone = GiveBack(read.stream, request.group, request.consumer, counts)
            with as_stream_errors(read.stream, request.group):
                await give_back(client, undone)


class _Left(ReplyRoom):
    """The budget of a read, whose entries are counted by the functions."""

    @property
    def fields(self) -> dict[str, object]:
        return {
            "budget_bytes": self._bytes_left,
            "budget_parts": self._parts_left,
            "counts_reply": self._counts_reply,
        }

    def note(self, entry_count: int, bytes_left: int, parts_left: int) -> None:
        self._count_left -= entry_count
        self._bytes_left, self._parts_left = bytes_left, parts_left
        self._is_first = self._is_first and not entry_count


async def _check(client: Client, request: ReadGroup, stream: bytes) -> None:
    with as_stream_errors(stream, request.group):
        await client.call(
            *(Effect.FREE, "check_reader", stream),
            group=request.group,
            consumer=request.consumer,
            consumers_max=client.options.keyspace.consumers_max,
        )


async def _read_stream(
    client: Client,
    request: ReadGroup,
    cursor: GroupCursor,
    acked: Sequence[EntryId],
    left: _Left | None,
    *,
    claims_any: bool,
) -> Any:
    limit = GROUP_READ_MAX if request.limit is None else min(request.limit, GROUP_READ_MAX)
    return await client.perform(
        *(Effect.FREE, request),
        **({} if left is None else left.fields),
        acked=acked,
        after=cursor.after,
        budget=None,
        claim_idle_ms=request.claim_idle_ms if claims_any else None,
        claims_any=claims_any,
        consumers_max=client.options.keyspace.consumers_max,
        cursors=None,
        limit=limit if left is None else left.limit(limit),
        parts=READ_PARTS_MAX,
        stream=cursor.stream,
    )


def _read(stream: bytes, reply: Any) -> tuple[GroupRead, int | None, int]:
    served, lag, held_count, state, claim_in_ms, dead_letter_count, _, _, pending, new, _ = reply
    deliveries = read_deliveries(pending)
    deliveries += [Delivery(read_id(each), tuple(fields), 0, 0, None) for each, fields in new]
    read = GroupRead(
        stream,
        deliveries,
        served=bool(served),
        lag=lag,
        pending_count=held_count,
        state=GroupState(state.decode()),
    )
    return read, claim_in_ms, dead_letter_count


async def read_group(client: Client, request: ReadGroup) -> list[GroupRead]:
    return (await attempt(client, request)).reads


PERFORMERS: Performers = {ReadGroup: by_function(read_group)}
