"""Read what a stream is made of a page at a time, and compare two streams."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from headgate.app.backends.port import Ability
from headgate.engine.entry import MAX_ID, MIN_ID, Entry, EntryId, EntryTimes
from headgate.engine.replies import ConsumerInfo, GroupInfo, PendingItem, PendingSummary, StreamInfo
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import ListPending, SumPending
from headgate.engine.requests.entries import FindTimes, Range
from headgate.engine.requests.groups import ListConsumers, ListGroups
from headgate.engine.requests.keyspace import TellTime
from headgate.engine.requests.streams import DescribeStream, GetAttributes, ListStreams

T = TypeVar("T")

PAGE = 1_000
"""Entries, pending entries, groups or consumers read at once."""

PAGE_BYTES = 4 * 2**20
"""Names and values of the entries read at once."""

MARK = b"headgate move: not complete"
"""A group of this name marks a copy that is not complete: nobody may rely on it."""

PLACEHOLDER = (b"headgate move", b"placeholder")
"""Fields of an entry that stands for one that is gone, while the copy is made."""


class StreamStore(Protocol):
    """A place of streams: a backend, a plain Redis server, or a file."""

    @property
    def abilities(self) -> AbstractSet[Ability]: ...

    def perform(self, request: Request[T]) -> Awaitable[T]: ...


def is_plain(store: StreamStore) -> bool:
    """Tell whether its streams have no epochs, policies and settings, as in plain Redis."""
    return Ability.POLICIES not in store.abilities


class EntryPage(NamedTuple):
    """Entries in order, and the ids between them that the stream has lost but the copy needs."""

    entries: list[Entry]
    absent: list[EntryId]
    through: EntryId  # the last id that the page covers
    times: dict[EntryId, EntryTimes]  # of entries that have some


class DeliveryPage(NamedTuple):
    items: list[PendingItem]
    at_ms: int


async def streams_of(store: StreamStore) -> AsyncIterator[StreamInfo]:
    after = None
    while page := await store.perform(ListStreams(after=after, limit=PAGE)):
        for info in page:
            yield info
        after = page[-1].name


async def groups_of(store: StreamStore, stream: bytes) -> AsyncIterator[GroupInfo]:
    """Yield the groups of a stream, by name, without the mark."""
    after = None
    while page := await store.perform(ListGroups(stream, after, PAGE)):
        for info in page:
            if info.name != MARK:
                yield info
        after = page[-1].name


async def consumers_of(
    store: StreamStore, stream: bytes, group: bytes
) -> AsyncIterator[list[ConsumerInfo]]:
    after = None
    while page := await store.perform(ListConsumers(stream, group, after, PAGE)):
        yield page
        after = page[-1].name


async def entries_of(store: StreamStore, stream: bytes) -> AsyncIterator[list[Entry]]:
    start = MIN_ID
    while page := await store.perform(Range(stream, start, MAX_ID, PAGE, PAGE_BYTES)):
        yield page
        if page[-1].id == MAX_ID:
            return
        start = page[-1].id.next()


async def pending_of(
    store: StreamStore, stream: bytes, group: bytes
) -> AsyncIterator[DeliveryPage]:
    start = MIN_ID
    while items := await store.perform(ListPending(stream, group, start, limit=PAGE)):
        yield DeliveryPage(items, await store.perform(TellTime()))
        if items[-1].id == MAX_ID:
            return
        start = items[-1].id.next()


def trimmed_id(info: StreamInfo) -> EntryId | None:
    """Return the greatest id that a trim removed, or None if no trim removed all below its id.

    A trim that spares entries leaves some below it; a copy cannot repeat such a trim.
    """
    trimmed = info.trimmed_through
    is_below = not info.length or trimmed < info.first_id
    return trimmed if MIN_ID < trimmed <= info.last_id and is_below else None


async def pages_of(
    store: StreamStore, info: StreamInfo, after: EntryId
) -> AsyncIterator[EntryPage]:
    """Yield the entries of a stream above `after`, and the ids that a copy needs besides.

    These are the ids of pending entries without a stream entry, and the id of `trimmed_id`. A page
    has at most `PAGE` entries and `PAGE` absent ids, so pages are cut where groups have more
    pending entries than that.
    """
    pending = await _pending_ranges(store, info.name)
    while after < info.last_id:
        page = await _page(store, info, after, pending)
        yield page
        after = page.through


async def _page(
    store: StreamStore, info: StreamInfo, after: EntryId, pending: dict[bytes, PendingSummary]
) -> EntryPage:
    start, trimmed = after.next(), trimmed_id(info)
    entries = await store.perform(Range(info.name, start, info.last_id, PAGE, PAGE_BYTES))
    through = entries[-1].id if entries else info.last_id
    lists = await asyncio.gather(
        *(
            store.perform(ListPending(info.name, group, start, through, PAGE))
            for group, summary in pending.items()
            if (summary.min_id or MAX_ID) <= through and start <= (summary.max_id or MIN_ID)
        )
    )
    through = min([through, *(items[-1].id for items in lists if len(items) == PAGE)])
    present = {entry.id for entry in entries}
    needed = {item.id for items in lists for item in items}
    if trimmed is not None and start <= trimmed:
        needed.add(trimmed)
    absent = sorted(entry_id for entry_id in needed - present if entry_id <= through)
    if len(absent) > PAGE:
        absent, through = absent[:PAGE], absent[PAGE - 1]
    entries = [entry for entry in entries if entry.id <= through]
    times: dict[EntryId, EntryTimes] = {}
    if info.timed_count:
        times = await store.perform(FindTimes(info.name, [entry.id for entry in entries]))
    return EntryPage(entries, absent, through, times)


async def _pending_ranges(store: StreamStore, stream: bytes) -> dict[bytes, PendingSummary]:
    groups = [group.name async for group in groups_of(store, stream) if group.pending_count]
    summaries = await asyncio.gather(
        *(store.perform(SumPending(stream, group)) for group in groups)
    )
    return dict(zip(groups, summaries, strict=True))


async def ahead(pages: AsyncIterator[T]) -> AsyncIterator[T]:
    """Yield the same pages, reading the next one while the caller works on the last."""
    reading = asyncio.ensure_future(anext(pages, None))
    try:
        while (page := await reading) is not None:
            reading = asyncio.ensure_future(anext(pages, None))
            yield page
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


_DIGEST_BYTES = 16

_NOT_PLAIN = {"epoch", "trimmed_through"}
"""Facts that a server of Redis does not keep."""


class Fingerprint(NamedTuple):
    """The facts that a stream and its copy have in common; digests are hexadecimal.

    Times are left out because they change while they are read; configuration and policies because a
    copy gets them last.
    """

    epoch: int
    length: int
    last_id: EntryId
    max_deleted_id: EntryId
    trimmed_through: EntryId | None
    entries_added: int
    entries: str
    groups: str
    consumers: str
    pending: str

    def differences(self, other: Fingerprint) -> list[str]:
        pairs = zip(self._fields, self, other, strict=True)
        return [name for name, mine, theirs in pairs if mine != theirs]


async def fingerprint_of(store: StreamStore, stream: bytes) -> Fingerprint:
    info = await store.perform(DescribeStream(stream))
    entries, groups, consumers, pending = (_Digest() for _ in range(4))
    async for page in ahead(entries_of(store, stream)):
        entries.add_entries(page)
    async for group in groups_of(store, stream):
        read = b"" if group.entries_read is None else b"%d" % group.entries_read
        groups.add((group.name, str(group.last_id).encode(), read))
        async for holders in consumers_of(store, stream, group.name):
            for holder in holders:
                consumers.add((group.name, holder.name, b"%d" % holder.pending_count))
        async for deliveries in pending_of(store, stream, group.name):
            for item in deliveries.items:
                owner = () if item.consumer is None else (item.consumer,)
                numbers = b"%s %d" % (str(item.id).encode(), item.delivery_count)
                pending.add((group.name, numbers, *owner))
    return Fingerprint(
        info.epoch,
        info.length,
        info.last_id,
        info.max_deleted_id,
        trimmed_id(info),
        info.entries_added,
        *(digest.value() for digest in (entries, groups, consumers, pending)),
    )


async def differences(source: StreamStore, target: StreamStore, stream: bytes) -> list[str]:
    theirs, ours = await asyncio.gather(
        fingerprint_of(source, stream), fingerprint_of(target, stream)
    )
    names = ours.differences(theirs)
    if is_plain(source) or is_plain(target):
        names = [name for name in names if name not in _NOT_PLAIN]
    if is_plain(source) and theirs.max_deleted_id == MIN_ID:
        # An old server does not know it, though entries are gone: the copy does.
        names = [name for name in names if name != "max_deleted_id"]
    return [name.replace("_", " ") for name in names]


async def settings_of(store: StreamStore, stream: bytes) -> str:
    """Return a digest of a stream's configuration, close, attributes and policies."""
    info = await store.perform(DescribeStream(stream))
    settings = _Digest()
    settings.add([msgspec.json.encode((info.config, info.closed_at_ms))])
    attributes = await store.perform(GetAttributes(stream))
    settings.add([part for name in sorted(attributes) for part in (name, attributes[name])])
    async for group in groups_of(store, stream):
        settings.add([group.name, msgspec.json.encode(group.policy)])
    return settings.value()


class _Digest:
    """A digest of rows of bytes; where parts and rows end changes it."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=_DIGEST_BYTES)

    def add(self, row: Iterable[bytes]) -> None:
        parts = [part for text in row for part in (b"%d:" % len(text), text)]
        self._hash.update(b"".join([*parts, b"\n"]))

    def add_entries(self, entries: Iterable[Entry]) -> None:
        self._hash.update(b"".join(map(_packed, entries)))

    def value(self) -> str:
        return self._hash.hexdigest()


_packed = msgspec.msgpack.Encoder().encode  # which tells where an entry ends
