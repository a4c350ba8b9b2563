"""Streams with their groups, consumers and pending entries, and observations of them.

They are put together from several calls, so each part shows the state at its own moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import Fault, read_id
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function, by_operation
from headgate.app.backends.redis.performing.entries import range_
from headgate.app.backends.redis.performing.groups import list_consumers, list_groups
from headgate.app.backends.redis.performing.keyspace import first_names_of, now_ms
from headgate.app.backends.redis.performing.streams import describe
from headgate.engine.attention import attention_of, severity_of
from headgate.engine.clock import SystemClock
from headgate.engine.entry import MAX_ID, Entry
from headgate.engine.errors import ENTRY_BYTES, ReplyTooLarge, WrongType
from headgate.engine.limits import COUNT_MAX, DESCRIBED_MAX
from headgate.engine.replies import (
    ConsumerInfo,
    ConsumerInspection,
    GroupDetail,
    GroupInfo,
    GroupInspection,
    KeyInfo,
    Observation,
    ObservedGroup,
    ObservedStream,
    PendingInspection,
    PendingItem,
    PendingSummary,
    StreamDetail,
    StreamInfo,
    StreamInspection,
)
from headgate.engine.requests.deliveries import ListPending, SumPending
from headgate.engine.requests.entries import Range
from headgate.engine.requests.groups import ListConsumers, ListGroups
from headgate.engine.requests.keyspace import InspectStream
from headgate.engine.requests.streams import DetailStream, Observe

_LISTED_AT_ONCE_MAX = 1_000
"""Pending entries that one call lists. Each one takes about 1 µs."""


async def list_pending(client: Client, request: ListPending) -> list[PendingItem]:
    start = request.start
    items: list[PendingItem] = []
    while True:
        limit = min(request.limit - len(items), _LISTED_AT_ONCE_MAX)
        page = await client.perform(Effect.READ, request, start=start, limit=max(limit, 0))
        items += map(_read_item, page)
        if len(page) < limit or len(items) >= request.limit or items[-1].id == MAX_ID:
            return items
        start = items[-1].id.next()


def _read_summary(reply: Any) -> PendingSummary:
    total, first, last, holders = reply
    by_name = sorted((name, int(count)) for name, count in holders)
    return PendingSummary(
        total=total,
        min_id=None if first is None else read_id(first),
        max_id=None if last is None else read_id(last),
        consumers=by_name[:DESCRIBED_MAX],
        holder_count=len(by_name),
    )


def _read_item(item: Any) -> PendingItem:
    entry_id, owner, idle_ms, count, delay_ms, error, before = item
    if owner is None:
        waits_for = None if before is None else read_id(before)
        return PendingItem(read_id(entry_id), None, None, int(count), delay_ms, error, waits_for)
    return PendingItem(read_id(entry_id), owner, idle_ms, int(count), last_error=error)


async def detail_stream(client: Client, request: DetailStream) -> StreamDetail:
    stream = request.stream
    info = await describe(client, stream)
    wanted = Range(stream, limit=request.count, size_bytes_max=request.size_bytes_max)
    entries = await range_(client, wanted)
    groups = await list_groups(client, ListGroups(stream, limit=request.described_max))
    left = COUNT_MAX if request.described_max is None else request.described_max
    left -= len(groups)
    details = []
    for group in groups:
        limit = left if request.count is None else min(request.count, left)
        items = await _pending(client, stream, group.name, limit)
        left -= len(items)
        consumers = await _consumers(client, stream, group.name, left)
        left -= len(consumers)
        details.append(GroupDetail(group, items, consumers))
    return StreamDetail(info, entries, details)


async def _pending(
    client: Client, stream: bytes, group: bytes, limit: int, consumer: bytes | None = None
) -> list[PendingItem]:
    if not limit:
        return []
    return await list_pending(client, ListPending(stream, group, limit=limit, consumer=consumer))


async def _consumers(client: Client, stream: bytes, group: bytes, limit: int) -> list[ConsumerInfo]:
    if not limit:
        return []
    return await list_consumers(client, ListConsumers(stream, group, limit=limit))


async def inspect_stream(client: Client, request: InspectStream) -> StreamInspection:
    stream = request.stream
    info, key_facts, first, last = await asyncio.gather(
        describe(client, stream),
        client.call(Effect.READ, "describe_keys", stream),
        range_(client, Range(stream, limit=1)),
        range_(client, Range(stream, limit=1, reverse=True)),
    )
    entries: list[Entry] = []
    groups: list[GroupInspection] = []
    if request.full:
        listed = await list_groups(client, ListGroups(stream, limit=request.described_max + 1))
        parts = await _parts(client, request, info, listed)
        entries = await _entries(client, request, info)
        time_ms = await now_ms(client)
        groups = [
            await _inspected(client, request, group, consumers, time_ms)
            for group, consumers in zip(listed, parts, strict=True)
        ]
    return StreamInspection(
        info,
        KeyInfo(*key_facts),
        first[0] if first else None,
        last[0] if last else None,
        entries,
        groups,
    )


async def _parts(
    client: Client, request: InspectStream, info: StreamInfo, groups: Sequence[GroupInfo]
) -> list[list[ConsumerInfo]]:
    """Return the consumers of each group; raises ReplyTooLarge if there is too much to describe."""
    described_max = request.described_max
    count = described_max + 1 if request.count is None else request.count
    total = min(info.length, count) + len(groups)
    parts = []
    for group in groups:
        total += min(group.pending_count, count) + group.consumer_count
        if total > described_max:
            break
        consumers = await _consumers(client, request.stream, group.name, COUNT_MAX)
        total += sum(min(consumer.pending_count, count) for consumer in consumers)
        parts.append(consumers)
    if total > described_max:
        raise ReplyTooLarge("things to describe", described_max)
    return parts


async def _entries(client: Client, request: InspectStream, info: StreamInfo) -> list[Entry]:
    size_bytes_max = request.size_bytes_max
    wanted = Range(request.stream, limit=request.count, size_bytes_max=size_bytes_max)
    entries = await range_(client, wanted)
    count = request.described_max if request.count is None else request.count
    if len(entries) < min(info.length, count):
        raise ReplyTooLarge(ENTRY_BYTES, size_bytes_max or 0)
    return entries


async def _inspected(
    client: Client,
    request: InspectStream,
    group: GroupInfo,
    consumers: Sequence[ConsumerInfo],
    time_ms: int,
) -> GroupInspection:
    stream, limit = request.stream, COUNT_MAX if request.count is None else request.count
    held = [
        await _pending(client, stream, group.name, limit, consumer.name) for consumer in consumers
    ]
    return GroupInspection(
        group,
        _dated(await _pending(client, stream, group.name, limit), time_ms),
        [
            ConsumerInspection(
                name,
                time_ms - idle_ms,
                None if inactive_ms is None else time_ms - inactive_ms,
                pending_count,
                _dated(items, time_ms),
            )
            for (name, pending_count, idle_ms, inactive_ms), items in zip(
                consumers, held, strict=True
            )
        ],
    )


def _dated(items: Sequence[PendingItem], time_ms: int) -> list[PendingInspection]:
    return [
        PendingInspection(
            item.id,
            item.consumer,
            0 if item.idle_ms is None else max(time_ms - item.idle_ms, 0),
            item.delivery_count,
        )
        for item in items
    ]


async def observe(client: Client, request: Observe) -> Observation:
    names, count = await first_names_of(
        client, request.limit, after=request.after, only=request.only
    )
    observed: list[ObservedStream] = []
    room = request.limit
    for name in names:
        if room <= 0:
            break
        with suppress(Fault, WrongType):  # it was deleted meanwhile, or something else is beside it
            stream = await _observed_stream(client, name, room - 1)
            observed.append(stream)
            room -= 1 + len(stream.groups)
        count -= 1
    return Observation(observed, max(count, 0))


async def _observed_stream(client: Client, stream: bytes, groups_max: int) -> ObservedStream:
    info = await describe(client, stream)
    groups: list[GroupInfo] = []
    if info.group_count and groups_max:
        groups = await list_groups(client, ListGroups(stream, limit=groups_max))
    return ObservedStream(
        name=stream,
        length=info.length,
        hot_bytes=None,
        cold_bytes=None,
        added_count=info.entries_added,
        groups=[await _observed_group(client, stream, group) for group in groups],
        groups_left_out=max(info.group_count - len(groups), 0),
    )


async def _observed_group(client: Client, stream: bytes, group: GroupInfo) -> ObservedGroup:
    """Measure a group; what the servers do not count follows from its position, if known.

    What it has read was delivered, and what of it is not pending was acknowledged. The entry with
    the smallest id was, as a rule, delivered first.
    """
    oldest = await _pending(client, stream, group.name, 1) if group.pending_count else []
    read = group.entries_read
    return ObservedGroup(
        name=group.name,
        lag=group.lag,
        pending_count=group.pending_count,
        delayed_count=group.delayed_count,
        oldest_pending_ms=oldest[0].idle_ms or 0 if oldest else 0,
        delivered_count=read,
        redelivered_count=None,
        passed_count=None,
        expired_count=None,
        acked_count=None if read is None else max(read - group.pending_count, 0),
        dead_letter_count=None,
        severity=severity_of(attention_of(group, SystemClock().wall_ms())),
    )


PERFORMERS: Performers = {
    ListPending: by_function(list_pending),
    SumPending: by_operation(Effect.READ, _read_summary),
    DetailStream: by_function(detail_stream),
    InspectStream: by_function(inspect_stream),
    Observe: by_function(observe),
}
