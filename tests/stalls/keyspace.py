"""Keyspace: what the largest requests are sent to, written as a snapshot that gateways start from.

A stream with all entries, half of them pending with one consumer; a group with many consumers, each
with an entry pending; a stream with many groups; one whose entries have many fields, and one whose
entries have as many as there may be; two streams whose groups hold back as much as they may for
their keys; one that archives what trims remove; and many streams with one entry each. Run as a
program, as its memory is not needed any more then.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path
from typing import NamedTuple

from headgate.engine.clock import SystemClock
from headgate.engine.config import FieldName, GroupPolicy, StreamConfig
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft, EntryId, Timing
from headgate.engine.journal import recovery
from headgate.engine.journal.disk import SystemDisk
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.limits import ENTRY_FIELDS_MAX, KEY_AHEAD_MAX, TIMED_AT_ONCE_MAX
from headgate.engine.requests.deliveries import GroupCursor, ReadGroup
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, GroupStart, ListKeys
from headgate.engine.requests.streams import CreateStream
from headgate.engine.requests.tables import ReadRow

BIG = "big"
"""The stream with all entries."""
GROUP, HOLDER = "workers", "holder"
"""Of the big stream: it has half of the entries pending, all with this consumer."""
FRESH = "fresh"
"""Of the big stream: it has read nothing."""
HALF = "half"
"""Of the big stream: it has half of the entries still to read, and nothing pending."""
CROWD = "crowd"
"""A stream whose group of the same name has all the consumers."""
GROUPED = "grouped"
"""A stream with many groups."""
WIDE = "wide"
"""A stream whose entries have many fields, with a group of the same name that has read nothing."""

WIDEST = "widest"
"""A stream whose entries have as many fields as one may have, and still become a dead letter. All
names and values are empty. They are pending with the holder, in a group of the same name."""

ONE_KEY = "one-key"
"""A stream of entries with one key. A group of the same name has delivered the first of them, and
holds back all others."""
FAIR = "fair"
"""A group of the following stream, in which its keys take turns."""

KEYS = "keys"
"""A stream whose entries have as many keys, twice. Of each key the group of the same name has
delivered the first entry to the holder, and holds back the second one."""

DUE = "due"
"""A stream of entries with one due time, which is over. A group of the same name has passed them by
before, and so has one with `-keyed` behind the name. There all have one key."""
EXPIRED = "expired"
"""A stream of expired entries. One group has delivered some of them before, one has held back all,
and one has yet to look at them."""

ARCHIVING = "archiving"
"""A stream with as many entries as are pending in the big one. What trims remove is archived."""

TABLE = "table"
"""A stream that is a table. Its keys are in another order than its entries."""

FIRST_MS = 1_700_000_000_000
_BATCH = 10_000
_BEHIND_MS = 3_600_000
_WIDE_FIELDS = 125
_STEP = 7_919  # a prime number
_WIDEST_FIELDS = ENTRY_FIELDS_MAX - 6
WIDEST_COUNT = 50


class _Behind(SystemClock):
    """A clock that is an hour behind."""

    def wall_ms(self) -> int:
        return super().wall_ms() - _BEHIND_MS


class Size(NamedTuple):
    """The numbers of all things in the keyspace, and of those in one request."""

    entries: int = 2_000_000
    pending: int = 1_000_000
    consumers: int = 100_000
    streams: int = 200_000
    groups: int = 10_000
    staged: int = 1_000_000
    members: int = 4_000
    followers: int = 10_000
    held: int = 100_000
    many: int = 10_000  # ids, commands and entries in one request

    def part(self, divisor: int) -> Size:
        """Return a size that is so much smaller."""
        return Size(*(count // divisor for count in self))

    def scattered_ids(self, among: int) -> list[str]:
        """Return ids of the big stream, spread evenly over so many of its first entries."""
        step = max(among // self.many, 1)
        return [entry_id(number) for number in range(0, among, step)][: self.many]


def entry_id(number: int) -> str:
    """Return the id of an entry of the big stream."""
    return f"{FIRST_MS + number}-0"


def stream_name(number: int) -> str:
    """Return the name of one of the many streams."""
    return f"s-{number:06}"


async def fill(engine: Engine, size: Size) -> None:
    """Make all of it."""
    big, crowd = BIG.encode(), CROWD.encode()
    await engine.perform(CreateStream(ARCHIVING.encode(), StreamConfig(archive=True)))
    for stream, count in ((big, size.entries), (ARCHIVING.encode(), size.pending)):
        for start in range(0, count, _BATCH):
            numbers = range(start, min(start + _BATCH, count))
            await engine.perform(Add(stream, [_draft(FIRST_MS + number) for number in numbers]))
    await engine.perform(CreateGroup(big, FRESH.encode(), GroupStart(MIN_ID)))
    await engine.perform(CreateGroup(big, GROUP.encode(), GroupStart(MIN_ID)))
    half = EntryId(FIRST_MS + size.pending - 1, 0)
    await engine.perform(CreateGroup(big, HALF.encode(), GroupStart(half)))
    for _ in range(0, size.pending, _BATCH):
        limit = min(_BATCH, size.pending)
        request = ReadGroup(GROUP.encode(), HOLDER.encode(), [GroupCursor(big)], limit=limit)
        await engine.perform(request)
    for start in range(0, size.consumers, _BATCH):
        numbers = range(start, min(start + _BATCH, size.consumers))
        await engine.perform(Add(crowd, [_draft(FIRST_MS + number) for number in numbers]))
    await engine.perform(CreateGroup(crowd, crowd, GroupStart(MIN_ID)))
    for number in range(size.consumers):
        name = b"consumer-%06d" % number
        await engine.perform(ReadGroup(crowd, name, [GroupCursor(crowd)], limit=1))
    await engine.perform(Add(GROUPED.encode(), [_draft(FIRST_MS)]))
    for number in range(size.groups):
        await engine.perform(
            CreateGroup(GROUPED.encode(), b"group-%05d" % number, GroupStart(MIN_ID))
        )
    fields = tuple(part for at in range(_WIDE_FIELDS) for part in (b"f%03d" % at, b"v"))
    for start in range(0, size.many, _BATCH // 10):
        count = min(_BATCH // 10, size.many - start)
        await engine.perform(Add(WIDE.encode(), [Draft(None, fields)] * count))
    await engine.perform(CreateGroup(WIDE.encode(), WIDE.encode(), GroupStart(MIN_ID)))
    for number in range(WIDEST_COUNT):
        widest = Draft(EntryId(FIRST_MS + number, 0), (b"", b"") * _WIDEST_FIELDS)
        await engine.perform(Add(WIDEST.encode(), [widest]))
    await engine.perform(CreateGroup(WIDEST.encode(), WIDEST.encode(), GroupStart(MIN_ID)))
    await engine.perform(
        ReadGroup(WIDEST.encode(), HOLDER.encode(), [GroupCursor(WIDEST.encode())])
    )
    await _hold(engine, ONE_KEY.encode(), size.held, 1)
    await _hold(engine, KEYS.encode(), 2 * size.held, size.held)
    await _index(engine, KEYS.encode())
    await _time(engine, size.held)
    await _tabulate(engine, size.held)
    for number in range(size.streams):
        await engine.perform(Add(stream_name(number).encode(), [_draft(FIRST_MS)]))


async def _hold(engine: Engine, name: bytes, entry_count: int, key_count: int) -> None:
    """Append entries with so many keys, and let a group hold back what it may not deliver yet."""
    for start in range(0, entry_count, _BATCH):
        numbers = range(start, min(start + _BATCH, entry_count))
        drafts = [
            Draft(EntryId(FIRST_MS + number, 0), (b"key", b"%d" % (number % key_count)))
            for number in numbers
        ]
        await engine.perform(Add(name, drafts))
    policy = GroupPolicy(key_field=FieldName(b"key"), key_ahead_max=KEY_AHEAD_MAX)
    await engine.perform(CreateGroup(name, name, GroupStart(MIN_ID), policy=policy))
    request = ReadGroup(name, HOLDER.encode(), [GroupCursor(name)], by_policy=True)
    while (await engine.perform(request))[0].deliveries:
        pass


async def _index(engine: Engine, stream: bytes) -> None:
    """Make a fair group, and read a little until all that is ahead of it is indexed."""
    names, key = (stream, FAIR.encode()), FieldName(b"key")
    policy = GroupPolicy(fair_field=key, key_field=key)
    await engine.perform(CreateGroup(*names, GroupStart(MIN_ID), policy=policy))
    request = ReadGroup(names[1], HOLDER.encode(), [GroupCursor(stream)], limit=1)
    while not (await engine.perform(ListKeys(*names, limit=1))).is_complete:
        await engine.perform(request)


async def _time(engine: Engine, entry_count: int) -> None:
    """Append entries with times, by a clock that is behind."""
    due_ms = _Behind().wall_ms() + _BEHIND_MS // 2
    times = {DUE: Timing(deliver_at_ms=due_ms), EXPIRED: Timing(expires_at_ms=due_ms)}
    for name, timing in times.items():
        stream = name.encode()
        for start in range(0, entry_count, TIMED_AT_ONCE_MAX):
            numbers = range(start, min(start + TIMED_AT_ONCE_MAX, entry_count))
            fields = (b"key", b"one")
            drafts = [Draft(EntryId(FIRST_MS + at, 0), fields, timing) for at in numbers]
            await engine.perform(Add(stream, drafts))
        for group in (stream, stream + b"-keyed"):
            key = FieldName(b"key") if group.endswith(b"-keyed") else None
            policy = GroupPolicy(key_field=key, key_ahead_max=KEY_AHEAD_MAX)
            await engine.perform(CreateGroup(stream, group, GroupStart(MIN_ID), policy=policy))
            request = ReadGroup(group, HOLDER.encode(), [GroupCursor(stream)], by_policy=True)
            await engine.perform(request)
        await engine.perform(CreateGroup(stream, FRESH.encode(), GroupStart(MIN_ID)))


async def _tabulate(engine: Engine, entry_count: int) -> None:
    """Append entries to a table, each with a key of its own."""
    table = TABLE.encode()
    await engine.perform(CreateStream(table, StreamConfig(key_field=FieldName(b"key"))))
    for start in range(0, entry_count, _BATCH):
        numbers = range(start, min(start + _BATCH, entry_count))
        keys = (number * _STEP % entry_count for number in numbers)
        drafts = [Draft(None, (b"key", b"%07d" % key, b"n", b"1")) for key in keys]
        await engine.perform(Add(table, drafts))
        await engine.perform(ReadRow(table, b""))


def _draft(at_ms: int) -> Draft:
    return Draft(EntryId(at_ms, 0), (b"temp", b"%d.5" % (at_ms % 40), b"site", b"s%d" % at_ms))


def write(directory: Path, size: Size) -> None:
    """Write the snapshot of it."""

    async def filled() -> Engine:
        engine = Engine(MemoryStorage(records_max=0), clock=_Behind(), has_bucket=True)
        await fill(engine, size)
        return engine

    gc.disable()  # nothing of it is garbage
    engine = asyncio.run(filled())
    disk = SystemDisk(directory)
    recovery.save(disk, engine.keyspace, 1)
    disk.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]), Size(*map(int, sys.argv[2:])))
