"""Open ranges: all pages are of one moment."""

from __future__ import annotations

from random import Random

import pytest

from headgate.engine import limits
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, Entry, EntryId
from headgate.engine.errors import LimitExceeded, RangeClosed, StreamNotFound
from headgate.engine.loop import executor, ranges
from headgate.engine.replies import OpenedRange
from headgate.engine.requests.entries import (
    Add,
    CloseRange,
    Delete,
    OpenRanges,
    Range,
    ReadOn,
    Span,
    Trim,
    TrimTo,
)
from headgate.engine.requests.keyspace import DeleteAll, SetCounters
from headgate.engine.requests.streams import DeleteStream, DescribeStream
from tests.unit.driver import Driver, S, entry_id

T = b"t"


async def filled(count: int, stream: bytes = S, value: bytes = b"v") -> Driver:
    engine = Driver()
    await engine.perform(Add(stream, [Draft(entry_id(n), (b"n", value)) for n in range(1, count)]))
    return engine


async def pages_of(engine: Driver, opened: OpenedRange, stream: bytes = S) -> list[Entry]:
    entries = list(opened.entries)
    while len(entries) < opened.entry_count:
        assert opened.number is not None
        page = await engine.perform(ReadOn(stream, opened.number))
        assert page
        entries += page
    return entries


def open_count(engine: Driver) -> int:
    return len(engine._ranges)


@pytest.mark.parametrize("seed", range(20))
async def test_a_range_is_read_as_it_was_whatever_happens_meanwhile(seed: int) -> None:
    random = Random(seed)
    engine = await filled(6_000)
    await engine.perform(Delete(S, [entry_id(n) for n in random.sample(range(1, 6_000), 60)]))
    start, end = sorted(entry_id(random.randrange(6_100)) for _ in range(2))
    limit = random.choice([None, random.randrange(1, 6_000)])
    reverse = random.random() < 0.5
    expected = await engine.perform(Range(S, start, end, limit, reverse=reverse))

    [opened] = await engine.perform(OpenRanges([Span(S, start, end)], reverse, limit))
    entries = list(opened.entries)
    number = 7_000
    while len(entries) < opened.entry_count:
        match random.randrange(5):
            case 0:
                await engine.perform(Delete(S, random.sample(expected, 1)[0][:1]))
            case 1:
                await engine.perform(Trim(S, TrimTo(min_id=entry_id(random.randrange(6_000)))))
            case 2:
                number += 1
                await engine.put(number)
            case 3:
                many = [entry_id(n) for n in range(1, 6_000, 2)]
                await engine.perform(Delete(S, many[: random.randrange(3_000)]))
            case 4 if random.random() < 0.2:
                await engine.perform(random.choice([DeleteStream(S), DeleteAll()]))
                await engine.put(number := number + 1)
        assert opened.number is not None
        entries += await engine.perform(ReadOn(S, opened.number))

    assert entries == expected
    assert opened.entry_count == len(expected)
    assert open_count(engine) == 0
    await engine.perform(DeleteAll())
    assert engine.memory.held_bytes == 0


async def test_the_newest_entries_are_copied_and_ids_may_come_again() -> None:
    engine = await filled(4_050)
    [opened] = await engine.perform(OpenRanges([Span(S)]))
    await engine.perform(Delete(S, [entry_id(4_049)]))
    await engine.perform(SetCounters(S, entry_id(4_049)))
    await engine.put(4_050)
    entries = await pages_of(engine, opened)
    assert [entry.id.ms for entry in entries] == list(range(1, 4_050))


async def test_several_streams_are_opened_at_one_moment() -> None:
    engine = await filled(3_000)
    await engine.perform(Add(T, [Draft(entry_id(n), (b"n", b"v")) for n in range(1, 5)]))
    spans = [Span(T, entry_id(2), MAX_ID), Span(b"missing"), Span(S)]
    with pytest.raises(StreamNotFound):
        await engine.perform(OpenRanges(spans))
    assert open_count(engine) == 0
    first, missing, second = await engine.perform(OpenRanges(spans, missing_ok=True))
    assert ([entry.id.ms for entry in first.entries], first.number) == ([2, 3, 4], None)
    assert missing == OpenedRange(0, [], None)
    assert len(await pages_of(engine, second)) == 2_999


async def test_a_range_that_is_closed_is_read_no_further() -> None:
    engine = await filled(3_000)
    [opened] = await engine.perform(OpenRanges([Span(S)]))
    assert opened.number is not None
    for request in (ReadOn(T, opened.number), ReadOn(S, opened.number + 1)):
        with pytest.raises(RangeClosed):
            await engine.perform(request)
    await engine.perform(CloseRange(T, opened.number))
    assert await engine.perform(ReadOn(S, opened.number))
    await engine.perform(CloseRange(S, opened.number))
    with pytest.raises(RangeClosed):
        await engine.perform(ReadOn(S, opened.number))
    await engine.perform(CloseRange(S, opened.number))


async def test_what_open_ranges_hold_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "HELD_BYTES_MAX", 10_000)
    monkeypatch.setattr(ranges, "HELD_BYTES_MAX", 10_000)
    engine = await filled(20_000)
    [first] = await engine.perform(OpenRanges([Span(S)]))
    await engine.perform(Trim(S, TrimTo(max_length=10)))
    assert first.number is not None
    with pytest.raises(RangeClosed):
        await engine.perform(ReadOn(S, first.number))
    assert engine.memory.held_bytes == 0


async def test_a_range_that_nobody_reads_is_closed_in_time() -> None:
    engine = await filled(3_000)
    [opened] = await engine.perform(OpenRanges([Span(S)]))
    engine.clock.now_ms += limits.RANGE_IDLE_MS_MAX + 1
    [other] = await engine.perform(OpenRanges([Span(S)]))
    assert opened.number is not None
    with pytest.raises(RangeClosed):
        await engine.perform(ReadOn(S, opened.number))
    assert len(await pages_of(engine, other)) == 2_999


async def test_there_may_be_so_many_open_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "OPEN_RANGES_MAX", 3)
    engine = await filled(3_000)
    for _ in range(3):
        await engine.perform(OpenRanges([Span(S)]))
    with pytest.raises(LimitExceeded, match="open ranges"):
        await engine.perform(OpenRanges([Span(S)]))
    assert open_count(engine) == 3


async def test_chunks_of_all_open_ranges_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "OPEN_CHUNKS_MAX", 50)
    engine = await filled(3_000)
    [opened] = await engine.perform(OpenRanges([Span(S)]))
    with pytest.raises(LimitExceeded, match="open ranges"):
        await engine.perform(OpenRanges([Span(S)]))
    assert len(await pages_of(engine, opened)) == 2_999
    await engine.perform(OpenRanges([Span(S)]))


async def test_pages_of_wide_entries_are_short() -> None:
    engine = Driver()
    wide = (b"", b"") * 10_000
    for n in range(1, 9):
        await engine.perform(Add(S, [Draft(EntryId(n, 0), wide)]))
    [opened] = await engine.perform(OpenRanges([Span(S, MIN_ID, MAX_ID)]))
    assert (len(opened.entries), opened.entry_count) == (1, 8)
    assert len(await pages_of(engine, opened)) == 8
    assert (await engine.perform(DescribeStream(S))).length == 8
