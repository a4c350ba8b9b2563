"""To look at the state changes nothing; what needs one decision is begun without a coroutine."""

from __future__ import annotations

import asyncio

import pytest

from headgate.engine.engine import Engine
from headgate.engine.entry import Draft, EntryId
from headgate.engine.errors import StreamNotFound
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.requests.entries import Add, Delete, From, Range, Read, StreamCursor
from headgate.engine.requests.keyspace import ExpireStream
from headgate.engine.requests.streams import DescribeStream, ListStreams
from headgate.engine.state.entries.packed import is_worth_packing
from headgate.engine.state.memory import MemoryBounds, WhenFull
from tests.unit.driver import Driver, S, entry_id

MANY = [Draft(None, (b"k", b"%d" % number)) for number in range(5_000)]


GOING_SOON = ExpireStream(S, 10)


async def test_a_look_records_nothing() -> None:
    engine = Driver()
    await engine.put(1)
    await engine.perform(GOING_SOON)
    engine.clock.now_ms += 10
    before = engine.storage.position
    assert engine.keyspace.find(S) is not None
    assert engine.storage.position == before
    assert await engine.perform(ListStreams()) == []
    assert engine.storage.position == before + 1
    assert engine.keyspace.find(S) is None


async def test_a_look_makes_no_room() -> None:
    engine = Driver()
    await engine.perform(Add(S, MANY))
    size_bytes = engine.memory.size_bytes
    engine._executor._memory_bounds = MemoryBounds(size_bytes // 2, WhenFull.TRIM_OLDEST)
    engine._executor._trims_oldest = True
    assert engine.keyspace.memory.size_bytes == size_bytes
    await engine.perform(DescribeStream(S))
    assert engine.memory.size_bytes < size_bytes


async def test_a_long_batch_is_decided_about_once_it_is_packed() -> None:
    assert is_worth_packing(MANY)
    engine = Driver()
    await engine.put(1)
    await engine.perform(GOING_SOON)
    adding = asyncio.create_task(engine.perform(Add(S, MANY)))
    await asyncio.sleep(0)
    assert not adding.done()
    engine.clock.now_ms += 10  # the stream goes while the batch is packed
    ids = (await adding).ids
    assert (await engine.perform(DescribeStream(S))).length == len(MANY)
    assert (await engine.perform(Range(S, limit=1)))[0].id == ids[0] > entry_id(1)


PAIR = (b"f", b"v")


@pytest.fixture
def engine() -> Engine:
    return Engine(MemoryStorage())


async def test_what_needs_one_decision_can_be_carried_out_at_once(engine: Engine) -> None:
    begun = engine.begin(Add(S, [Draft(None, PAIR)]))
    assert begun is not None
    await engine.until_durable(begun.position)
    assert engine.durable_position >= begun.position
    assert [entry.id for entry in await engine.perform(Range(S))] == begun.reply.ids


async def test_what_may_wait_or_take_long_is_not_begun(engine: Engine) -> None:
    await engine.perform(Add(S, [Draft(None, PAIR)]))
    assert engine.begin(Read([StreamCursor(S, From.NOW)], wait_ms=None)) is None
    assert engine.begin(Add(S, [Draft(None, PAIR)] * 5_000)) is None
    assert engine.begin(Delete(S, [EntryId(number, 0) for number in range(1_000)])) is None
    assert len(await engine.perform(Range(S))) == 1


async def test_what_cannot_be_is_an_error_at_once(engine: Engine) -> None:
    with pytest.raises(StreamNotFound):
        engine.begin(DescribeStream(S))
