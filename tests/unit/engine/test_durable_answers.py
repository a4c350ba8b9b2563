"""Durable answers: nothing leaves the engine, errors included, before what it tells of is safe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from headgate.engine.config import GroupPolicy, Patch, StreamConfig
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.errors import (
    GroupExists,
    GroupNotFound,
    StreamError,
    StreamExists,
    StreamNotFound,
    Unavailable,
)
from headgate.engine.requests import Request, groups, streams
from headgate.engine.requests.bulk import CommitBatch, SplitRange
from headgate.engine.requests.deliveries import Ack, Autoclaim, GroupCursor, ReadGroup, SumPending
from headgate.engine.requests.entries import (
    Add,
    CountByTime,
    Delete,
    Range,
    Read,
    StreamCursor,
    Trim,
    TrimTo,
)
from headgate.engine.requests.keyspace import RequireGroups
from tests.journals.slow_storage import SlowStorage
from tests.unit.driver import G, S

FIELDS = (b"n", b"1")
MISSING = b"missing"


class Slow:
    """An engine on a slow storage, with a stream and a group that are safe."""

    def __init__(self) -> None:
        self.storage = SlowStorage()
        self.engine = Engine(self.storage)

    async def safely(self, call: Awaitable[object]) -> None:
        """Let a call return, and what it did be safe."""
        task = asyncio.ensure_future(call)
        await turns()
        self.storage.settle()
        await task


async def turns() -> None:
    """Let everybody go on who can."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
async def slow() -> AsyncIterator[Slow]:
    started = Slow()
    running = asyncio.create_task(started.engine.run())
    await started.safely(started.engine.perform(Add(S, [Draft(None, FIELDS), Draft(None, FIELDS)])))
    await started.safely(
        started.engine.perform(groups.CreateGroup(S, G, groups.GroupStart(MIN_ID)))
    )
    yield started
    await started.engine.close()
    await running


def group_request(stream: bytes, group: bytes) -> ReadGroup:
    return ReadGroup(group, b"a", [GroupCursor(stream)])


DRAFTS = [Draft(None, FIELDS)]
REFUSED: list[tuple[type[StreamError], Request[Any]]] = [
    (StreamNotFound, streams.DescribeStream(MISSING)),
    (StreamNotFound, streams.DetailStream(MISSING)),
    (StreamNotFound, Add(MISSING, DRAFTS, create_stream=False)),
    (StreamNotFound, CommitBatch(b"w", 1, {MISSING: DRAFTS}, create_streams=False)),
    (StreamNotFound, Range(MISSING)),
    (StreamNotFound, Range(MISSING, reverse=True)),
    (StreamNotFound, Read([StreamCursor(MISSING, MIN_ID)])),
    (StreamNotFound, SplitRange(MISSING, MIN_ID, EntryId(9, 9), 2)),
    (StreamNotFound, CountByTime(MISSING)),
    (StreamNotFound, groups.ListGroups(MISSING)),
    (StreamNotFound, groups.CreateGroup(MISSING, G, groups.GroupStart(None))),
    (
        GroupExists,
        groups.CreateGroup(S, G, groups.GroupStart(None), policy=GroupPolicy(on_disconnect=True)),
    ),
    (StreamNotFound, streams.UpdateStream(MISSING, Patch(StreamConfig()))),
    (StreamNotFound, Delete(MISSING, [MIN_ID])),
    (StreamNotFound, Trim(MISSING, TrimTo(0))),
    (GroupNotFound, groups.UpdateGroup(S, MISSING)),
    (StreamExists, streams.CreateStream(S, StreamConfig(max_length=1))),
    (GroupNotFound, groups.DescribeGroup(S, MISSING)),
    (GroupNotFound, groups.ListConsumers(S, MISSING)),
    (GroupNotFound, group_request(S, MISSING)),
    (GroupNotFound, Ack(S, MISSING, [EntryId(1, 0)])),
    (GroupNotFound, SumPending(S, MISSING)),
    (GroupNotFound, RequireGroups([S], MISSING)),
]


@pytest.mark.parametrize(("kind", "refused"), REFUSED)
async def test_an_error_waits_until_what_it_tells_of_is_durable(
    slow: Slow, kind: type[StreamError], refused: Request[Any]
) -> None:
    adding = asyncio.create_task(slow.engine.perform(Add(S, DRAFTS)))
    await turns()

    asking = asyncio.create_task(slow.engine.perform(refused))
    await turns()
    was_answered_early = asking.done()
    slow.storage.settle()

    with pytest.raises(kind):
        await asking
    await adding
    assert not was_answered_early


async def test_an_error_that_tells_of_what_is_lost_is_not_told(slow: Slow) -> None:
    deleting = asyncio.create_task(slow.engine.perform(streams.DeleteStream(S)))
    await turns()
    asking = asyncio.create_task(slow.engine.perform(streams.DescribeStream(S)))
    await turns()

    slow.storage.fail()

    with pytest.raises(Unavailable):
        await deleting
    with pytest.raises(Unavailable):
        await asking


async def test_an_error_is_told_at_once_if_all_is_durable(slow: Slow) -> None:
    with pytest.raises(StreamNotFound):
        await slow.engine.perform(streams.DescribeStream(MISSING))


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_takeover_is_told_once_it_is_durable_and_not_lost(
    slow: Slow, is_lost: bool
) -> None:
    engine = slow.engine
    await slow.safely(engine.perform(group_request(S, G)))
    async with engine.claims(S, G, b"a") as takeovers:
        told = asyncio.ensure_future(anext(takeovers))
        claiming = asyncio.create_task(engine.perform(Autoclaim(S, G, b"b", min_idle_ms=0)))
        await turns()
        assert not told.done()
        slow.storage.fail() if is_lost else slow.storage.settle()
        await asyncio.wait([claiming])
        await turns()
        assert told.done() != is_lost
    if is_lost:
        assert isinstance(claiming.exception(), Unavailable)
        with pytest.raises(StopAsyncIteration):
            await told
    else:
        assert (len(told.result().counts), told.result().by) == (2, b"b")
