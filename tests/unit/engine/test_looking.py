"""To look at the state changes nothing: what has to go does so when a request is answered."""

from __future__ import annotations

import asyncio

from headgate.engine.decisions import Decision, streams
from headgate.engine.entry import Draft
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import MemoryBounds, WhenFull
from headgate.engine.state.packed import is_worth_packing
from tests.unit.driver import Driver, S, entry_id

MANY = [Draft(None, (b"k", b"%d" % number)) for number in range(5_000)]


def going_soon(keyspace: Keyspace, now_ms: int) -> Decision[None]:
    return streams.set_expiry(keyspace, S, now_ms + 10)


async def test_a_look_records_nothing() -> None:
    engine = Driver()
    await engine.put(1)
    await engine.perform(going_soon)
    engine.hand.now_ms += 10
    before = engine.storage.position
    assert engine.keyspace.find(S) is not None
    assert engine.storage.position == before
    assert await engine.list_streams() == []
    assert engine.storage.position == before + 1
    assert engine.keyspace.find(S) is None


async def test_a_look_makes_no_room() -> None:
    engine = Driver()
    await engine.add(S, MANY)
    size_bytes = engine.memory.size_bytes
    engine._memory_bounds = MemoryBounds(size_bytes // 2, WhenFull.TRIM_OLDEST)
    engine._trims_oldest = True
    assert engine.keyspace.memory.size_bytes == size_bytes
    await engine.stream_info(S)
    assert engine.memory.size_bytes < size_bytes


async def test_a_long_batch_is_decided_about_once_it_is_packed() -> None:
    assert is_worth_packing(MANY)
    engine = Driver()
    await engine.put(1)
    await engine.perform(going_soon)
    adding = asyncio.create_task(engine.add(S, MANY))
    await asyncio.sleep(0)
    assert not adding.done()
    engine.hand.now_ms += 10  # the stream goes while the batch is packed
    ids = await adding
    assert (await engine.stream_info(S)).length == len(MANY)
    assert (await engine.range(S, limit=1))[0].id == ids[0] > entry_id(1)
