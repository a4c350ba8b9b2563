"""Streams that retain the latest entry of each key: what goes, what stays, and who is told."""

import asyncio
import random
from collections.abc import Iterable

import pytest

from headgate.engine.config import FieldName, Patch, StreamConfig
from headgate.engine.entry import MIN_ID, Draft, Entry, EntryId, Fields, value_of
from headgate.engine.errors import Invalid
from headgate.engine.loop import housekeeping
from headgate.engine.replies import Gap, TablePage
from headgate.engine.requests.deliveries import Ack
from headgate.engine.requests.entries import Add, Range, Read, StreamCursor
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.requests.streams import CreateStream, UpdateStream
from headgate.engine.requests.tables import ReadTable
from tests.unit.driver import Driver, G, S, entry_id, kept, numbers
from tests.virtual_time import VirtualClock

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
START_MS = 10 * DAY_MS
KEY = FieldName(b"k")
LATEST = StreamConfig(key_field=KEY, retain=True)


def draft(at_ms: int, key: bytes | None, *, is_removed: bool = False) -> Draft:
    fields: Fields = (b"n", b"1") if key is None else (b"k", key)
    fields += (b"deleted", b"1") if is_removed else ()
    return Draft(entry_id(at_ms), fields)


async def put(engine: Driver, *entries: tuple[int, str]) -> None:
    """Append entries; `-a` removes the row of a, and the empty key is none."""
    await engine.perform(
        Add(
            S,
            [
                draft(at_ms, key.strip("-").encode() or None, is_removed="-" in key)
                for at_ms, key in entries
            ],
        )
    )


async def left(engine: Driver) -> list[int]:
    return [entry.id.ms for entry in await engine.perform(Range(S))]


async def test_superseded_entries_go_after_an_hour_and_a_tombstone_after_a_day() -> None:
    async with kept(Driver(VirtualClock(START_MS))) as engine:
        await engine.perform(CreateStream(S, LATEST))
        day, hour = START_MS - DAY_MS + 60_000, START_MS - HOUR_MS + 60_000
        await put(engine, (1, "a"), (2, "-a"), (3, ""), (4, "b"), (5, "c"))
        await put(engine, (day, "-c"), (hour, "b"), (hour + 1, "b"))
        await asyncio.sleep(30)
        assert await left(engine) == [3, day, hour, hour + 1]
        await asyncio.sleep(60)
        assert await left(engine) == [3, hour + 1]


async def test_it_stays_while_it_is_pending_unread_or_not_archived() -> None:
    async with kept(Driver(VirtualClock(START_MS))) as engine:
        await engine.perform(CreateStream(S, LATEST))
        await put(engine, *[(at, "a") for at in range(1, 8)])
        await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
        assert numbers(await engine.take(limit=4)) == [1, 2, 3, 4]
        await engine.perform(Ack(S, G, [entry_id(1), entry_id(3)]))
        await engine.perform(UpdateStream(S, Patch.of(StreamConfig, archived_until_ms=3)))
        await asyncio.sleep(60)
        assert await left(engine) == [2, 3, 4, 5, 6, 7]
        await engine.perform(UpdateStream(S, Patch.of(StreamConfig, archived_until_ms=7)))
        await asyncio.sleep(60)
        assert await left(engine) == [2, 4, 5, 6, 7]
        await engine.perform(UpdateStream(S, Patch.of(StreamConfig, compact_unread=True)))
        await asyncio.sleep(60)
        assert await left(engine) == [2, 4, 7]


async def test_a_tombstone_stays_while_an_entry_does_that_it_hides() -> None:
    async with kept(Driver(VirtualClock(START_MS))) as engine:
        await engine.perform(CreateStream(S, LATEST))
        await put(engine, (1, "a"), (2, "-a"), (3, "b"))
        await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
        await engine.take()
        await engine.perform(Ack(S, G, [entry_id(2), entry_id(3)]))
        await asyncio.sleep(60)
        assert await left(engine) == [1, 2, 3]
        await engine.perform(Ack(S, G, [entry_id(1)]))
        await asyncio.sleep(60)
        assert await left(engine) == [3]


async def test_a_reader_behind_it_is_told_the_gap() -> None:
    async with kept(Driver(VirtualClock(START_MS))) as engine:
        await engine.perform(CreateStream(S, LATEST))
        await put(engine, (1, "a"), (2, "b"), (3, "a"), (4, "b"), (5, "b"))
        await asyncio.sleep(60)
        [behind, ahead] = [
            (await engine.perform(Read([StreamCursor(S, entry_id(at))])))[0] for at in (1, 4)
        ]
        assert (behind.gap, [entry.id.ms for entry in behind.entries]) == (
            Gap(entry_id(1), entry_id(4)),
            [3, 5],
        )
        assert ahead.gap is None


async def test_only_a_table_may_retain_its_latest_entries() -> None:
    engine = Driver()
    with pytest.raises(Invalid, match="key_field") as caught:
        await engine.perform(CreateStream(S, StreamConfig(retain=True)))
    assert caught.value.location == ("retain",)
    await engine.perform(CreateStream(S, LATEST))
    with pytest.raises(Invalid, match="key_field"):
        await engine.perform(UpdateStream(S, Patch.of(StreamConfig, key_field=None)))


def rows_of(entries: Iterable[Entry]) -> dict[bytes, EntryId]:
    rows: dict[bytes, EntryId] = {}
    for entry in entries:
        key = value_of(entry.fields, KEY)
        if key is not None:
            rows.pop(key, None)
            if b"deleted" not in entry.fields[::2]:
                rows[key] = entry.id
    return rows


async def go_on(engine: Driver, page: TablePage, rows: dict[bytes, EntryId]) -> None:
    """Walk over the other rows in small pages, for some minutes."""
    found = {row.key: row.id for row in page.rows}
    while page.after_key is not None:
        await asyncio.sleep(20)
        request = ReadTable(S, after_key=page.after_key, as_of=page.as_of, limit=3)
        page = await engine.perform(request)
        found |= {row.key: row.id for row in page.rows}
    assert found == rows


@pytest.mark.parametrize("seed", range(6))
async def test_rows_walks_and_groups_lose_nothing_by_it(seed: int) -> None:
    chance = random.Random(seed)
    keys = [b"%d" % at for at in range(chance.choice([3, 20]))]
    at_ms, written, walks, acked = 0, [], [], set[EntryId]()
    async with kept(Driver(VirtualClock(START_MS))) as engine, asyncio.TaskGroup() as tasks:
        await engine.perform(CreateStream(S, LATEST))
        await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
        for _ in range(60):
            drafts = []
            for _ in range(chance.choice([1, 5, 200])):
                at_ms += 1
                key = chance.choice([*keys, None])
                drafts.append(draft(at_ms, key, is_removed=chance.random() < 0.2))
                written.append(Entry(entry_id(at_ms), drafts[-1].fields))
            await engine.perform(Add(S, drafts))
            held = await engine.take(limit=chance.choice([1, 100, 1_000]))
            done = [entry_id(each) for each in numbers(held) if chance.random() < 0.9]
            await engine.perform(Ack(S, G, done))
            acked.update(done)
            if chance.random() < 0.3:
                page = await engine.perform(ReadTable(S, limit=3))
                walks.append(tasks.create_task(go_on(engine, page, rows_of(written))))
            await asyncio.sleep(chance.choice([0, 1, 15]))
        await asyncio.sleep(60)
        there = await engine.perform(Range(S))
        assert {each.id for each in written} - {each.id for each in there} <= acked
        assert len(there) < len(written)
        assert rows_of(there) == rows_of(written)
        while numbers(await engine.take(limit=1_000)):
            pass
        await engine.perform(Ack(S, G, [each.id for each in written]))
        await asyncio.sleep(600)
        newest = set(rows_of(written).values())
        keyless = {each.id for each in written if value_of(each.fields, KEY) is None}
        assert {each.id for each in await engine.perform(Range(S))} == newest | keyless
    assert len(walks) > 5


async def test_a_tombstone_that_comes_during_a_pass_stays_as_long_as_what_it_hides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(housekeeping, "COMPACTED_PARTS_MAX", 1)
    config = StreamConfig(key_field=KEY, retain=True, compact_after_ms=0, tombstone_ms=0)
    first, last = 1, 2_000
    async with kept(Driver(VirtualClock(START_MS))) as engine:
        await engine.perform(CreateStream(S, config))
        await put(engine, (first, "a"), *[(at, str(at % 7)) for at in range(first + 1, last)])
        while (await engine.perform(Range(S, limit=2)))[1].id.ms == first + 1:
            await asyncio.sleep(0.5)
        await put(engine, (last, "-a"))
        while first in (there := await left(engine)):
            assert last in there
            await asyncio.sleep(0.5)
        await asyncio.sleep(60)
        assert last not in await left(engine)
