"""Deleted streams are freed bit by bit, with requests in between."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable

import pytest

from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.limits import FREED_AT_ONCE_MAX
from headgate.engine.requests.entries import Add, From, Read, StreamCursor
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.keyspace import DeleteAll
from headgate.engine.requests.streams import DeleteStream, ListStreams
from headgate.engine.state.memory import free
from headgate.engine.state.pending import PendingEntry
from tests.unit.driver import Driver, G, S

COUNT = 3 * FREED_AT_ONCE_MAX
PAIR = (b"k", b"v")


@pytest.fixture
def pending_count() -> Callable[[], int]:
    """Return a function for the number of pending entries made by this test, in use or not."""
    gc.collect()
    gc.freeze()  # what others have made is not looked at

    return lambda: sum(isinstance(thing, PendingEntry) for thing in gc.get_objects())


@pytest.fixture
async def engine(pending_count: Callable[[], int]) -> Driver:
    assert pending_count() == 0
    engine = Driver()
    await engine.start(*range(1, COUNT + 1))
    while (await engine.take())[0].deliveries:
        pass
    await engine.perform(Add(S, [Draft(None, PAIR)], Idempotent(b"p", b"key")))
    return engine


async def test_a_stream_that_is_deleted_is_freed_in_turns(
    engine: Driver, pending_count: Callable[[], int]
) -> None:
    gc.collect()
    seen = [pending_count()]
    gc.disable()  # what is freed must not need it
    try:
        running = asyncio.create_task(engine.run())
        await asyncio.sleep(0)
        await engine.perform(DeleteStream(S))
        while len(seen) < 100 and seen[-1]:
            await asyncio.sleep(0)
            seen.append(pending_count())
    finally:
        gc.enable()
    await engine.close()
    await running

    assert seen[0] == COUNT
    assert seen[-1] == 0
    assert len(set(seen)) >= 3  # not all at once


async def test_all_streams_go_with_one_record(engine: Driver) -> None:
    await engine.perform(CreateGroup(b"t", b"g", GroupStart(MIN_ID), create_stream=True))
    before = engine.storage.position

    await engine.perform(DeleteAll())

    assert engine.storage.position == before + 1
    assert await engine.perform(ListStreams()) == []
    await engine.put(1)
    assert [stream.name for stream in await engine.perform(ListStreams())] == [S]


async def test_a_flush_of_nothing_is_not_recorded() -> None:
    engine = Driver()

    await engine.perform(DeleteAll())

    assert engine.storage.position == 0


async def test_a_reader_goes_on_when_all_streams_have_gone(engine: Driver) -> None:
    cursors = [StreamCursor(S, MIN_ID), StreamCursor(b"t", From.NOW)]
    await engine.perform(DeleteStream(S))
    reading = asyncio.create_task(engine.perform(Read(cursors, wait_ms=None, missing_ok=True)))
    await asyncio.sleep(0)

    await engine.perform(DeleteAll())
    await engine.perform(Add(S, [Draft(None, PAIR)]))

    assert [len(read.entries) for read in await reading] == [1, 0]


async def test_a_group_that_is_destroyed_leaves_no_cycle(
    engine: Driver, pending_count: Callable[[], int]
) -> None:
    gc.collect()
    gc.disable()
    try:
        free(engine.keyspace.group(S, G).dismantle())
        left = pending_count()
    finally:
        gc.enable()

    assert left == 0
