"""When memory is full appends are refused, and service is back as soon as something goes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from headgate.engine.config import StreamConfig
from headgate.engine.engine import Engine
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, EntryId
from headgate.engine.errors import MemoryFull, Unavailable
from headgate.engine.journal.storage import MemoryStorage, Storage
from headgate.engine.replies import Created
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import CommitBatch, LastCommit
from headgate.engine.requests.deliveries import (
    Ack,
    Autoclaim,
    Claim,
    Extend,
    GroupCursor,
    Nack,
    NackMode,
    ReadGroup,
)
from headgate.engine.requests.entries import Add, Delete, Range, Read, StreamCursor, Trim, TrimTo
from headgate.engine.requests.groups import CreateConsumer, CreateGroup, GroupStart
from headgate.engine.requests.streams import CreateStream, DeleteStream, DescribeStream
from headgate.engine.state.memory import Memory, MemoryBounds, WhenFull

PAIR = (b"k", b"v" * 50)
BOUND = 60_000
BATCH = 20
CONFIG = StreamConfig()
PENDING = [EntryId(number, 0) for number in range(1, 11)]
NEVER_READ = [EntryId(number, 0) for number in range(11, 21)]


def engine_of(when_full: WhenFull = WhenFull.REFUSE, bound: int | None = BOUND) -> Engine:
    return Engine(MemoryStorage(), memory=MemoryBounds(bound, when_full))


async def fill(engine: Engine, stream: bytes = b"s") -> int:
    """Append until that is refused; returns how often it was not."""
    for count in range(10_000):
        try:
            await engine.perform(Add(stream, [Draft(None, PAIR)] * BATCH))
        except MemoryFull:
            return count
    raise AssertionError("never full")


async def read_group(engine: Engine, limit: int | None = None) -> int:
    request = ReadGroup(b"g", b"c", [GroupCursor(b"s")], limit)
    [read] = await engine.perform(request)
    return len(read.deliveries)


async def test_an_append_is_refused_when_memory_is_full_and_changes_nothing() -> None:
    engine = engine_of()
    await fill(engine)
    before = engine.storage.position, (await engine.perform(DescribeStream(b"s"))).length

    for stream in (b"s", b"another"):
        with pytest.raises(MemoryFull, match="reached their memory limit"):
            await engine.perform(Add(stream, [Draft(None, PAIR)]))
    with pytest.raises(MemoryFull):
        await engine.perform(CreateGroup(b"s", b"g", GroupStart(MIN_ID)))
    with pytest.raises(MemoryFull):
        await engine.perform(CommitBatch(b"w", 1, {b"s": [Draft(None, PAIR)] * 2000}))

    assert (engine.storage.position, (await engine.perform(DescribeStream(b"s"))).length) == before
    assert await engine.perform(LastCommit(b"w")) is None
    assert await engine.perform(Trim(b"s", TrimTo(max_length=BATCH))) > 0
    await engine.perform(Add(b"s", [Draft(None, PAIR)]))


async def test_deliveries_become_pending_up_to_a_slack_above_the_bound() -> None:
    engine = engine_of()
    await engine.perform(CreateGroup(b"s", b"g", GroupStart(MIN_ID), create_stream=True))
    await fill(engine)

    delivered = 0
    with suppress(MemoryFull):
        while more := await read_group(engine, 10):
            delivered += more
    assert BOUND < engine.memory.size_bytes < 1.25 * BOUND
    with pytest.raises(MemoryFull):
        await read_group(engine, 10)

    pending = await engine.perform(Range(b"s", limit=delivered))
    await engine.perform(Ack(b"s", b"g", [entry.id for entry in pending]))
    assert await read_group(engine, 10) == 10


async def test_the_step_of_a_transaction_that_adds_fails_alone() -> None:
    engine = engine_of()
    await fill(engine)

    create = CreateStream(b"t", CONFIG)
    refused, deleted, created = await engine.perform_all([create, DeleteStream(b"s"), create])

    assert isinstance(refused, MemoryFull)
    assert deleted
    assert isinstance(created, Created)
    assert created.is_new


async def test_the_oldest_entries_go_if_the_operator_wants_it() -> None:
    engine = engine_of(WhenFull.TRIM_OLDEST)
    for name in (b"a", b"b", b"c"):
        await engine.perform(Add(name, [Draft(None, PAIR)] * BATCH))
    random = Random(1)
    for _ in range(200):
        drafts = [Draft(None, (b"k", random.randbytes(50))) for _ in range(BATCH)]
        await engine.perform(Add(b"c", drafts))

    assert engine.memory.size_bytes < 1.25 * BOUND
    assert (await engine.perform(DescribeStream(b"c"))).entries_added == 201 * BATCH
    assert [(await engine.perform(DescribeStream(name))).length for name in (b"a", b"b")] == [0, 0]
    last = (await engine.perform(Range(b"c", reverse=True, limit=1)))[0]
    assert last.id == (await engine.perform(DescribeStream(b"c"))).last_id


async def test_where_no_entry_can_go_an_append_is_refused_all_the_same() -> None:
    engine = engine_of(WhenFull.TRIM_OLDEST)
    with suppress(MemoryFull):
        for number in range(1000):
            await engine.perform(CreateStream(b"%d" % number, CONFIG))

    assert engine.memory.size_bytes > BOUND
    with pytest.raises(MemoryFull):
        await engine.perform(Add(b"0", [Draft(None, PAIR)]))


async def test_what_has_gone_takes_nothing() -> None:
    engine = engine_of(bound=None)
    await engine.perform(CreateGroup(b"s", b"g", GroupStart(MIN_ID), create_stream=True))
    await engine.perform(Add(b"s", [Draft(None, PAIR)] * 300))
    assert await read_group(engine, 10) == 10
    [first, *_] = await engine.perform(Range(b"s"))
    before = engine.memory.pending_bytes
    await engine.perform(Nack(b"s", b"g", [first.id], NackMode.FAIL, error=b"x" * 1_000))
    assert engine.memory.pending_bytes > before + 1_000

    await engine.perform(DeleteStream(b"s"))

    assert engine.memory == Memory(extents=engine.memory.extents)


ADDING: Mapping[str, Request[Any]] = {
    "entries to claim": Claim(b"s", b"g", b"c", NEVER_READ, 0, force=True, just_id=True),
    "entries to give back": Nack(b"s", b"g", NEVER_READ, NackMode.SILENT, force=True),
    "entries to give back later": Nack(
        b"s", b"g", NEVER_READ, NackMode.FAIL, delay_ms=9, force=True
    ),
    "new entries": ReadGroup(b"g", b"c", [GroupCursor(b"s")]),
    "a reader that finds nothing": ReadGroup(b"g", b"n", [GroupCursor(b"s", MAX_ID)]),
    "a reader of its history": ReadGroup(b"g", b"n", [GroupCursor(b"s", MIN_ID)]),
    "a reader that need not acknowledge": ReadGroup(
        b"g", b"n", [GroupCursor(b"s")], limit=1, no_ack=True
    ),
    "a consumer": CreateConsumer(b"s", b"g", b"n"),
    "a consumer that claims": Claim(b"s", b"g", b"n", PENDING[:1], 0, just_id=True),
    "a consumer that claims any": Autoclaim(b"s", b"g", b"n", 0, limit=1),
    "an error": Nack(b"s", b"g", PENDING[1:2], NackMode.FAIL, error=b"it failed"),
}
"""Requests of readers that add to memory, besides entries."""

GOING_ON: Mapping[str, Request[Any]] = {
    "an ack": Ack(b"s", b"g", PENDING[:1]),
    "a nack": Nack(b"s", b"g", PENDING[1:2], NackMode.FAIL),
    "a claim": Claim(b"s", b"g", b"d", PENDING[2:3], 0),
    "a claim of any": Autoclaim(b"s", b"g", b"d", 0, limit=5),
    "an extension": Extend(b"s", b"g", PENDING[3:4], b"d"),
    "a reader of its history": ReadGroup(b"g", b"c", [GroupCursor(b"s", MIN_ID)]),
    "a read": Read([StreamCursor(b"s", MIN_ID)]),
    "a delete": Delete(b"s", PENDING[4:5]),
    "a trim": Trim(b"s", TrimTo(max_length=5)),
}
"""Requests that go on when memory is full."""


async def beyond(storage: Storage, memory: MemoryBounds) -> Engine:
    """Return an engine with 20 entries, 10 of them pending, for a bound below its size."""
    engine = Engine(storage, memory=memory)
    drafts = [Draft(EntryId(number, 0), PAIR) for number in range(1, 21)]
    await engine.perform(Add(b"s", drafts))
    await engine.perform(CreateGroup(b"s", b"g", GroupStart(MIN_ID)))
    await engine.perform(CreateConsumer(b"s", b"g", b"d"))
    await engine.perform(ReadGroup(b"g", b"c", [GroupCursor(b"s")], limit=10))
    return engine


async def beyond_memory() -> Engine:
    """Return an engine that has more than its bound and the slack above it."""
    engine = await beyond(MemoryStorage(), MemoryBounds(20_000))
    with suppress(MemoryFull):
        for number in range(1_000):
            name = b"%d" % number * 50
            await engine.perform(CreateConsumer(b"s", b"g", name))
    return engine


@pytest.mark.parametrize("what", ADDING)
async def test_what_readers_add_is_refused_beyond_the_slack(what: str) -> None:
    engine = await beyond_memory()
    before = engine.storage.position, engine.memory.size_bytes
    assert before[1] < 20_000 * 1.25

    with pytest.raises(MemoryFull):
        await engine.perform(ADDING[what])
    [refused] = await engine.perform_all([ADDING[what]])

    assert isinstance(refused, MemoryFull)
    assert (engine.storage.position, engine.memory.size_bytes) == before


@pytest.mark.parametrize("what", GOING_ON)
async def test_what_adds_nothing_goes_on_beyond_the_slack(what: str) -> None:
    engine = await beyond_memory()
    await engine.perform(GOING_ON[what])


class NearlyFull(MemoryStorage):
    """Storage with a nearly full disk."""

    is_scarce = False
    refusal = "the disk is full"


@pytest.mark.parametrize("what", ADDING)
async def test_what_readers_add_is_refused_where_the_disk_is_nearly_full(what: str) -> None:
    storage = NearlyFull()
    engine = await beyond(storage, MemoryBounds())
    storage.is_scarce = True

    with pytest.raises(Unavailable, match="the disk is full"):
        await engine.perform(ADDING[what])
    for request in GOING_ON.values():
        await engine.perform(request)


async def test_pending_entries_of_many_groups_stay_within_the_slack() -> None:
    engine = engine_of(bound=400_000)
    ids = [EntryId(number, 0) for number in range(1, 101)]
    await engine.perform(Add(b"s", [Draft(each, PAIR) for each in ids]))
    for at in range(30):
        await engine.perform(CreateGroup(b"s", b"%d" % at, GroupStart(MIN_ID)))
    refused = 0
    for at in range(30):
        try:
            await engine.perform(Claim(b"s", b"%d" % at, b"c", ids, 0, force=True, just_id=True))
        except MemoryFull:
            refused += 1
    assert 0 < refused < 30
    assert engine.memory.size_bytes < 1.25 * 400_000
