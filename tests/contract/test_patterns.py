"""Patterns: all streams whose names match are followed, and a cursor finds each of them again."""

import asyncio
import random
from collections import Counter

import pytest
from msgspec.structs import replace

from headgate.app.backends.port import Ability, Backend
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.errors import Invalid
from headgate.engine.patterns import PatternCursor
from headgate.engine.replies import Gap, PatternRead, StreamRead
from headgate.engine.requests.entries import Add, ReadPattern, Trim, TrimTo
from headgate.engine.requests.keyspace import (
    CopyStream,
    DeleteAll,
    DeleteStreams,
    NameFilter,
    RenameStream,
)
from tests.contract.backends import SURVIVES, Kind
from tests.contract.calls import blocked, drafts

pytestmark = pytest.mark.needs(Ability.PATTERNS)

ORDERS = b"orders.*"
BEGINNING = PatternCursor(start=MIN_ID)


async def add(backend: Backend, stream: bytes, text: str, entry_id: EntryId | None = None) -> None:
    await backend.perform(Add(stream, [Draft(entry_id, (b"n", text.encode()))]))


def texts(read: PatternRead) -> list[str]:
    return [entry.fields[1].decode() for each in read.reads for entry in each.entries]


async def all_of(backend: Backend, request: ReadPattern) -> tuple[list[str], PatternCursor]:
    """Return all entries behind a cursor, and the cursor behind them."""
    read = await read_to_end(backend, request)
    return texts(read), read.next_after


async def read_to_end(backend: Backend, request: ReadPattern) -> PatternRead:
    """Read everything behind a cursor: one read gets as far as its turn of the event loop."""
    reads: list[StreamRead] = []
    while True:
        read = await backend.perform(request)
        reads += read.reads
        request = replace(request, after=read.next_after)
        if read.is_at_end and not read.reads:
            return read._replace(reads=reads)


async def now(backend: Backend, pattern: bytes = ORDERS) -> PatternCursor:
    return (await backend.perform(ReadPattern(pattern))).next_after


def kept(cursor: PatternCursor) -> PatternCursor:
    """Return the cursor of a client that comes back: nobody knows more than stands in it."""
    return replace(cursor, follower=0)


async def test_streams_that_match_are_followed_and_those_that_come_later(backend: Backend) -> None:
    await add(backend, b"orders.a", "before")
    cursor = await now(backend)
    await add(backend, b"orders.a", "old stream")
    await add(backend, b"orders.b", "new stream")
    await add(backend, b"bills.a", "other")
    read = await read_to_end(backend, ReadPattern(ORDERS, cursor))
    assert [(each.stream, len(each.entries)) for each in read.reads] == [
        (b"orders.a", 1),
        (b"orders.b", 1),
    ]
    assert texts(read) == ["old stream", "new stream"]


async def test_an_initial_cursor_reads_everything_behind_an_id(backend: Backend) -> None:
    await backend.perform(Add(b"orders.a", drafts(1, 5)))
    await backend.perform(Add(b"orders.b", drafts(4)))
    assert (await all_of(backend, ReadPattern(ORDERS, BEGINNING)))[0] == ["1", "5", "4"]
    behind = PatternCursor(start=EntryId(4, 0))
    assert (await all_of(backend, ReadPattern(ORDERS, behind)))[0] == ["5"]


async def test_a_wait_ends_with_the_first_append_that_matches(backend: Backend) -> None:
    cursor = await now(backend)
    [reading] = await blocked(backend, backend.perform(ReadPattern(ORDERS, cursor, wait_ms=None)))
    await add(backend, b"bills.a", "other")
    await add(backend, b"orders.a", "this")
    assert texts(await reading) == ["this"]


async def test_a_read_that_is_cancelled_leaves_nothing(backend: Backend) -> None:
    cursor = await now(backend)
    [reading] = await blocked(backend, backend.perform(ReadPattern(ORDERS, cursor, wait_ms=None)))
    reading.cancel()
    await asyncio.wait([reading])
    assert not backend.waiter_count
    await add(backend, b"orders.a", "later")
    assert (await all_of(backend, ReadPattern(ORDERS, cursor)))[0] == ["later"]


async def test_only_names_that_may_be_read_are_shown(backend: Backend) -> None:
    only = NameFilter(frozenset({b"orders.x"}), (b"orders.ann.",))
    read = await backend.perform(ReadPattern(b"*", only=only))
    for name in (b"orders.x", b"orders.ann.1", b"orders.ben.1"):
        await add(backend, name, name.decode())
    request = ReadPattern(b"*", read.next_after, only=only)
    assert sorted((await all_of(backend, request))[0]) == ["orders.ann.1", "orders.x"]
    came, _ = await all_of(backend, replace(request, after=kept(read.next_after)))
    assert sorted(came) == ["orders.ann.1", "orders.x"]


async def test_a_filter_passes_entries_by_once(backend: Backend) -> None:
    cursor = await now(backend)
    for at in range(9):
        await add(backend, b"orders.%d" % (at % 3), str(at))
    request = ReadPattern(ORDERS, cursor, filters='{"range":{"n":{"ge":7}}}')
    came, cursor = await all_of(backend, request)
    assert sorted(came) == ["7", "8"]
    assert (await all_of(backend, replace(request, after=kept(cursor))))[0] == []


@pytest.mark.parametrize("comes_back", [False, True])
async def test_past_and_future_ids_are_not_lost(backend: Backend, comes_back: bool) -> None:
    await add(backend, b"orders.past", "0", EntryId(1, 0))
    await add(backend, b"orders.future", "0", EntryId(2**50, 0))
    cursor = await now(backend)
    for at in range(1, 4):
        await add(backend, b"orders.past", f"past {at}", EntryId(1, at))
        await add(backend, b"orders.future", f"future {at}", EntryId(2**50, at))
        await add(backend, b"orders.new", f"new {at}", EntryId(0, at))
        after = kept(cursor) if comes_back else cursor
        came, cursor = await all_of(backend, ReadPattern(ORDERS, after))
        expected = {f"past {at}", f"future {at}", f"new {at}"}
        # What was ahead of the clock before the first cursor is not in it.
        assert set(came) - {"0"} == expected
        assert len(came) == 3 + ("0" in came)


async def test_a_stream_that_is_made_again_comes_from_its_beginning(backend: Backend) -> None:
    await backend.perform(Add(b"orders.a", drafts(5, 6)))
    cursor = await now(backend)
    await backend.perform(Add(b"orders.a", drafts(7)))
    await backend.perform(DeleteStreams([b"orders.a"]))
    await backend.perform(Add(b"orders.a", drafts(1, 2)))
    request = ReadPattern(ORDERS, cursor)
    assert (await all_of(backend, replace(request, after=kept(cursor))))[0] == ["1", "2"]
    came, cursor = await all_of(backend, request)
    assert came == ["1", "2"]
    await backend.perform(DeleteAll())
    await backend.perform(Add(b"orders.a", drafts(1)))
    assert (await all_of(backend, replace(request, after=cursor)))[0] == ["1"]


async def test_a_stream_that_gets_a_matching_name_is_followed_from_then(backend: Backend) -> None:
    await add(backend, b"new", "before", EntryId(1, 0))
    cursor = await now(backend)
    await backend.perform(RenameStream(b"new", b"orders.a"))
    await add(backend, b"orders.a", "after")
    await backend.perform(RenameStream(b"orders.a", b"orders.b"))
    came, cursor = await all_of(backend, ReadPattern(ORDERS, cursor))
    assert came == ["after"]
    await backend.perform(CopyStream(b"orders.b", b"orders.c"))
    assert (await all_of(backend, ReadPattern(ORDERS, cursor)))[0] == ["before", "after"]


async def test_a_gap_is_told_where_trimming_overtook_the_reader(backend: Backend) -> None:
    await add(backend, b"orders.a", "first")
    cursor = await now(backend)
    await backend.perform(Add(b"orders.a", [Draft(None, (b"n", b"x"))] * 3))
    await backend.perform(Trim(b"orders.a", TrimTo(max_length=1)))
    [read] = (await read_to_end(backend, ReadPattern(ORDERS, cursor))).reads
    assert len(read.entries) == 1
    assert isinstance(read.gap, Gap)


async def test_a_pattern_has_a_greatest_length(backend: Backend) -> None:
    await backend.perform(ReadPattern(b"a" * 256))
    with pytest.raises(Invalid):
        await backend.perform(ReadPattern(b"a" * 257))


async def test_more_streams_than_are_noted_are_looked_for(backend: Backend) -> None:
    request = ReadPattern(b"s*", await now(backend, b"s*"))
    names = [b"s%05d" % at for at in range(10_500)]
    for low in range(0, len(names), 500):
        await asyncio.gather(
            *(add(backend, name, name.decode()) for name in names[low : low + 500])
        )
    came, _ = await all_of(backend, request)
    assert sorted(came) == [name.decode() for name in names]


@pytest.mark.parametrize("seed", range(6))
async def test_nothing_is_lost_if_a_reader_comes_back_often(backend: Backend, seed: int) -> None:
    chance = random.Random(seed)
    cursor, appended, came = await now(backend), Counter[str](), Counter[str]()
    latest: dict[bytes, EntryId] = {}
    returned_count = 0
    for turn in range(300):
        name = b"orders.%d" % chance.randrange(8)
        entry_id = None
        if chance.random() < 0.2:  # little more than the last id, or of long ago
            ms, seq = latest.get(name, MIN_ID)
            entry_id = EntryId(ms + chance.randrange(3), seq + 1)
        text = f"{turn}"
        reply = await backend.perform(Add(name, [Draft(entry_id, (b"n", text.encode()))]))
        latest[name] = reply.ids[0]
        appended[text] += 1
        if chance.random() < 0.3:
            read = await backend.perform(ReadPattern(ORDERS, cursor, limit=chance.randrange(1, 9)))
            came.update(texts(read))
            cursor = read.next_after
        if chance.random() < 0.1:
            cursor, returned_count = kept(cursor), returned_count + 1
    others, _ = await all_of(backend, ReadPattern(ORDERS, cursor))
    came.update(others)
    assert set(came) == set(appended)
    assert came.total() - appended.total() <= returned_count


@pytest.mark.needs(SURVIVES)
async def test_a_cursor_outlives_a_restart(
    kind: Kind, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("restart")
    async with kind.running(place) as backend:
        await add(backend, b"orders.a", "seen")
        cursor = await now(backend)
        await add(backend, b"orders.a", "before")
    async with kind.running(place) as backend:
        await add(backend, b"orders.b", "new stream", EntryId(1, 0))
        came, _ = await all_of(backend, ReadPattern(ORDERS, cursor))
        assert sorted(set(came) - {"seen"}) == ["before", "new stream"]
