"""Filling: a copy that is marked gets what it lacks; nothing of it acts yet."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec import UNSET

from headgate.app.backends.copying.contents import (
    MARK,
    PAGE,
    PLACEHOLDER,
    DeliveryPage,
    EntryPage,
    StreamStore,
    ahead,
    consumers_of,
    groups_of,
    is_plain,
    pages_of,
    pending_of,
    trimmed_id,
)
from headgate.engine.config import NO_POLICY, Patch
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.errors import Conflict, StreamNotFound
from headgate.engine.replies import StreamInfo
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import Claim, Nack, NackMode
from headgate.engine.requests.entries import Add, Delete, Trim, TrimTo
from headgate.engine.requests.groups import (
    CreateConsumer,
    CreateGroup,
    DestroyGroup,
    GroupStart,
    UpdateGroup,
)
from headgate.engine.requests.keyspace import ExpireStream, GetExpiry, SetCounters
from headgate.engine.requests.streams import DescribeStream

# Entries: copied with their ids, and then the counters of their stream.
#
# Some ids have to be in the copy without an entry: those of pending entries whose stream entry is
# gone, and the last one that a trim removed. No request makes such an id by itself. So a
# placeholder is appended in its place, and removed when the groups have been copied:
#
# 1. `copy_entries` appends entries and placeholders in order of their ids.
# 2. The groups are copied. Pending entries can be made for placeholders as for entries.
# 3. `settle_entries` trims the placeholders that stand for trimmed entries, deletes the others,
#    and sets the counters.

_REMEMBERED_MAX = 100_000
"""Placeholders that are remembered until they are removed. Each one takes about 100 bytes."""


async def copy_entries(
    source: StreamStore,
    target: StreamStore,
    info: StreamInfo,
    after: EntryId,
    on_copied: Callable[[int], None],
) -> Sequence[EntryId] | None:
    """Append the entries above `after`, which is the last id of the copy, with their ids.

    Return the ids of all placeholders of the copy, or None if there are too many to remember or an
    earlier run appended some of them. Raises LastIdMismatch if somebody else appended to the copy.
    """
    absent: list[EntryId] | None = [] if after == MIN_ID else None
    async for page in ahead(pages_of(source, info, after)):
        if absent is not None:
            absent.extend(page.absent)
            absent = absent if len(absent) <= _REMEMBERED_MAX else None
        drafts = _drafts(page)
        if drafts:
            added = await target.perform(
                Add(info.name, drafts, create_stream=False, expected_last_id=after)
            )
            after = added.ids[-1]
        on_copied(len(page.entries))
    return absent


def _drafts(page: EntryPage) -> Sequence[Draft]:
    """Return the entries of a page and the placeholders between them, ordered by id."""
    drafts = [
        Draft(entry_id, fields, page.times[entry_id].timing if entry_id in page.times else None)
        for entry_id, fields in page.entries
    ]
    if not page.absent:
        return drafts
    placeholders = {entry_id: Draft(entry_id, PLACEHOLDER) for entry_id in page.absent}
    by_id = {entry.id: draft for entry, draft in zip(page.entries, drafts, strict=True)}
    return [draft for _, draft in sorted((placeholders | by_id).items())]


async def settle_entries(
    source: StreamStore, target: StreamStore, info: StreamInfo, absent: Sequence[EntryId] | None
) -> None:
    """Remove the placeholders of a copy and set its counters; `absent` None looks them up."""
    copied = await target.perform(DescribeStream(info.name))
    if copied.length != info.length:
        kept_from = _kept_from(info)
        await target.perform(Trim(info.name, TrimTo(min_id=kept_from)))
        async for ids in _absent_ids(source, info, absent, kept_from):
            await target.perform(Delete(info.name, ids))
    counters = info.last_id, info.entries_added, info.max_deleted_id
    await target.perform(SetCounters(info.name, *counters))


async def _absent_ids(
    source: StreamStore, info: StreamInfo, absent: Sequence[EntryId] | None, start: EntryId
) -> AsyncIterator[Sequence[EntryId]]:
    if absent is None:
        async for page in ahead(pages_of(source, info, start.previous())):
            if page.absent:
                yield page.absent
    else:
        kept = absent[bisect_left(absent, start) :]
        for begin in range(0, len(kept), PAGE):
            yield kept[begin : begin + PAGE]


def _kept_from(info: StreamInfo) -> EntryId:
    """Return the id below which a trim removed everything.

    What is gone above it was deleted. If nothing was ever deleted, everything was trimmed.
    """
    if info.max_deleted_id == MIN_ID:
        return info.first_id if info.length else info.last_id.next()
    trimmed = trimmed_id(info)
    return MIN_ID if trimmed is None else trimmed.next()


class _Delivery(NamedTuple):
    consumer: bytes | None
    at_ms: int  # unix time
    delivery_count: int
    delay_ms: int


async def copy_groups(source: StreamStore, target: StreamStore, stream: bytes) -> None:
    """Create the groups of a stream in its copy, with their pending entries but without policies.

    Groups that the copy already has are created anew.
    """
    unfinished = [group.name async for group in groups_of(target, stream)]
    await _perform_all(target, [DestroyGroup(stream, group) for group in unfinished])
    async for group in groups_of(source, stream):
        await target.perform(CreateGroup(stream, group.name, GroupStart(MIN_ID)))
        async for consumers in consumers_of(source, stream, group.name):
            creations = [CreateConsumer(stream, group.name, each.name) for each in consumers]
            await _perform_all(target, creations)
        async for page in ahead(pending_of(source, stream, group.name)):
            if not is_plain(target):
                await _perform_all(target, [*_failures(stream, group.name, page)])
            await _perform_all(target, [*_deliveries(stream, group.name, page)])


def _failures(stream: bytes, group: bytes, page: DeliveryPage) -> Iterator[Request[Any]]:
    alike: dict[bytes, list[EntryId]] = defaultdict(list)
    for item in page.items:
        if item.last_error is not None:
            alike[item.last_error].append(item.id)
    for error, ids in alike.items():
        yield Nack(stream, group, ids, NackMode.SILENT, error=error, force=True, by_policy=False)


def _deliveries(stream: bytes, group: bytes, page: DeliveryPage) -> Iterator[Request[Any]]:
    alike: dict[_Delivery, list[EntryId]] = defaultdict(list)
    for item in page.items:
        at_ms = page.at_ms - (item.idle_ms or 0)
        delivery = _Delivery(item.consumer, at_ms, item.delivery_count, item.delay_ms)
        if item.consumer is None:
            delivery = delivery._replace(at_ms=0)
        alike[delivery].append(item.id)
    for (consumer, at_ms, count, delay_ms), ids in alike.items():
        if consumer is None:
            yield Nack(
                stream,
                group,
                ids,
                NackMode.SILENT,
                delay_ms,
                retry_count=count,
                force=True,
                by_policy=False,
            )
        else:
            yield Claim(
                stream,
                group,
                consumer,
                ids,
                min_idle_ms=0,
                time_ms=at_ms,
                retry_count=count,
                force=True,
                just_id=True,
            )


async def place_groups(source: StreamStore, target: StreamStore, stream: bytes) -> None:
    """Set the positions of the groups of a copy; its counters must already be right."""
    async for group in groups_of(source, stream):
        entries_read = UNSET if group.entries_read is None else group.entries_read
        await target.perform(UpdateGroup(stream, group.name, group.last_id, entries_read))


async def govern_groups(source: StreamStore, target: StreamStore, stream: bytes) -> None:
    """Set the policies of the groups of a copy: from now on they act."""
    async for group in groups_of(source, stream):
        if group.policy != NO_POLICY:
            patch = Patch.to(group.policy)
            await target.perform(UpdateGroup(stream, group.name, policy=patch))


async def _perform_all(store: StreamStore, requests: Sequence[Request[Any]]) -> None:
    await asyncio.gather(*map(store.perform, requests))


class SourceChanged(Conflict):
    def __init__(self) -> None:
        super().__init__("it changed during the copy")


async def mark(target: StreamStore, stream: bytes) -> None:
    """Mark a copy as incomplete; it is created unless it exists."""
    await target.perform(CreateGroup(stream, MARK, GroupStart(MIN_ID), create_stream=True))


async def fill(
    source: StreamStore,
    target: StreamStore,
    info: StreamInfo,
    after: EntryId,
    on_copied: Callable[[int], None],
) -> None:
    """Add all entries above `after`, the last id of the copy, and create its groups anew.

    Raises SourceChanged if the stream differs from `info` by now; a later run continues the copy.
    """
    absent = await copy_entries(source, target, info, after, on_copied)
    await copy_groups(source, target, info.name)
    # Without its placeholders, a copy cannot get the pending entries of another run.
    if await source.perform(DescribeStream(info.name)) != info:
        raise SourceChanged
    await settle_entries(source, target, info, absent)
    await place_groups(source, target, info.name)


async def unmark(source: StreamStore, target: StreamStore, stream: bytes) -> None:
    """Set the expiry of a copy and remove its mark; it is deleted if it has expired meanwhile."""
    at_ms = await source.perform(GetExpiry(stream))
    if at_ms is not None:
        await target.perform(ExpireStream(stream, 0, at_ms=at_ms))
    with suppress(StreamNotFound):
        await target.perform(DestroyGroup(stream, MARK))
