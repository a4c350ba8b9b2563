"""Contents: what a stream is made of, read through the port a page at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from headgate.app.backends.port import Backend
from headgate.engine.entry import MAX_ID, MIN_ID, Entry, EntryId
from headgate.engine.replies import ConsumerInfo, GroupInfo, PendingItem, StreamInfo
from headgate.engine.requests.deliveries import ListPending
from headgate.engine.requests.entries import Range
from headgate.engine.requests.groups import ListConsumers, ListGroups
from headgate.engine.requests.keyspace import TellTime
from headgate.engine.requests.streams import ListStreams

PAGE = 1_000
"""Entries, pending entries, groups or consumers read at once."""

PAGE_BYTES = 4 * 2**20
"""Names and values of the entries read at once."""

MARK = b"headgate move: not complete"
"""A group of this name marks a copy that is not complete: nobody may rely on it."""

PLACEHOLDER = (b"headgate move", b"placeholder")
"""Fields of an entry that stands for one that is gone, while the copy is made."""


class EntryPage(NamedTuple):
    """Entries in order, and ids between them that the stream has no more but the copy needs."""

    entries: list[Entry]
    absent: list[EntryId]
    through: EntryId  # the last id that the page covers


class DeliveryPage(NamedTuple):
    """Pending entries in order, and the unix time at which they were so."""

    items: list[PendingItem]
    at_ms: int


async def streams_of(backend: Backend) -> AsyncIterator[StreamInfo]:
    """Yield all streams, by name."""
    after = None
    while page := await backend.perform(ListStreams(after=after, limit=PAGE)):
        for info in page:
            yield info
        after = page[-1].name


async def groups_of(backend: Backend, stream: bytes) -> AsyncIterator[GroupInfo]:
    """Yield the groups of a stream, by name, without the mark.

    Raises:
        StreamNotFound: the stream does not exist.
    """
    after = None
    while page := await backend.perform(ListGroups(stream, after, PAGE)):
        for info in page:
            if info.name != MARK:
                yield info
        after = page[-1].name


async def consumers_of(
    backend: Backend, stream: bytes, group: bytes
) -> AsyncIterator[list[ConsumerInfo]]:
    """Yield the consumers of a group, by name, in pages."""
    after = None
    while page := await backend.perform(ListConsumers(stream, group, after, PAGE)):
        yield page
        after = page[-1].name


async def entries_of(backend: Backend, stream: bytes) -> AsyncIterator[list[Entry]]:
    """Yield the entries of a stream, in pages.

    Raises:
        StreamNotFound: the stream does not exist.
    """
    start = MIN_ID
    while page := await backend.perform(Range(stream, start, MAX_ID, PAGE, PAGE_BYTES)):
        yield page
        if page[-1].id == MAX_ID:
            return
        start = page[-1].id.next()


async def pending_of(backend: Backend, stream: bytes, group: bytes) -> AsyncIterator[DeliveryPage]:
    """Yield the pending entries of a group, in pages."""
    start = MIN_ID
    while items := await backend.perform(ListPending(stream, group, start, limit=PAGE)):
        yield DeliveryPage(items, await backend.perform(TellTime()))
        if items[-1].id == MAX_ID:
            return
        start = items[-1].id.next()


def trimmed_id(info: StreamInfo) -> EntryId | None:
    """Return the greatest id that a trim removed; None if there is none below all entries.

    A trim that spares entries leaves some below it. A copy cannot repeat such a trim.
    """
    trimmed = info.trimmed_through
    is_below = not info.length or trimmed < info.first_id
    return trimmed if MIN_ID < trimmed <= info.last_id and is_below else None


async def pages_of(backend: Backend, info: StreamInfo, after: EntryId) -> AsyncIterator[EntryPage]:
    """Yield the entries of a stream above `after`, and the ids that a copy needs besides.

    These are the ids of pending entries without a stream entry, and the id of `trimmed_id`. A page
    has at most `PAGE` entries and `PAGE` absent ids, so pages are cut where groups have more
    pending entries than that.
    """
    trimmed = trimmed_id(info)
    groups = [group.name async for group in groups_of(backend, info.name) if group.pending_count]
    while after < info.last_id:
        start = after.next()
        entries = await backend.perform(Range(info.name, start, info.last_id, PAGE, PAGE_BYTES))
        through = entries[-1].id if entries else info.last_id
        present = {entry.id for entry in entries}
        absent = [] if trimmed is None or not start <= trimmed <= through else [trimmed]
        for group in groups:
            request = ListPending(info.name, group, start, through, PAGE)
            items = await backend.perform(request)
            absent = sorted({*absent, *(item.id for item in items if item.id not in present)})
            if len(items) == PAGE:
                through = items[-1].id
            if len(absent) > PAGE:
                through = min(through, absent[PAGE - 1])
        yield EntryPage(
            [entry for entry in entries if entry.id <= through],
            [entry_id for entry_id in absent if entry_id <= through],
            through,
        )
        after = through
