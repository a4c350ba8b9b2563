"""When memory is full appends are refused, and service is back as soon as something goes."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from headgate.engine.config import StreamConfig
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.errors import MemoryFull
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.replies import Created, Outcome
from headgate.engine.requests.bulk import CommitBatch, LastCommit
from headgate.engine.requests.deliveries import Ack, GroupCursor, Nack, NackMode, ReadGroup
from headgate.engine.requests.entries import Add, Delete, Range, Trim, TrimTo
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.requests.streams import CreateStream, DeleteStream, DescribeStream
from headgate.engine.state.memory import Memory, MemoryBounds, WhenFull

PAIR = (b"k", b"v" * 50)
BOUND = 60_000
BATCH = 20
CONFIG = StreamConfig()


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
        with pytest.raises(MemoryFull, match="all the memory they may"):
            await engine.perform(Add(stream, [Draft(None, PAIR)]))
    with pytest.raises(MemoryFull):
        await engine.perform(CreateGroup(b"s", b"g", GroupStart(MIN_ID)))
    with pytest.raises(MemoryFull):
        await engine.perform(CommitBatch(b"w", 1, {b"s": [Draft(None, PAIR)] * 2000}))

    assert (engine.storage.position, (await engine.perform(DescribeStream(b"s"))).length) == before
    assert await engine.perform(LastCommit(b"w")) is None


async def test_reads_acks_trims_and_deletes_go_on_and_appends_are_back() -> None:
    engine = engine_of()
    await engine.perform(CreateGroup(b"s", b"g", GroupStart(MIN_ID), create_stream=True))
    await fill(engine)

    [first, *_] = await engine.perform(Range(b"s", limit=1))
    assert await read_group(engine, 5) == 5
    assert await engine.perform(Ack(b"s", b"g", [first.id], consumer=b"c")) == [Outcome.ACKED]
    assert len(await engine.perform(Delete(b"s", [first.id]))) == 1
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


async def test_without_a_bound_nothing_is_refused() -> None:
    engine = engine_of(bound=None)
    for _ in range(100):
        await engine.perform(Add(b"s", [Draft(None, PAIR)] * BATCH))

    assert (await engine.perform(DescribeStream(b"s"))).length == 100 * BATCH


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

    assert engine.memory == Memory()
