"""Bounds of streams, groups, consumers and producers, and refusals there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from headgate.engine.config import GroupPolicy, StreamConfig
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.errors import LimitReached
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.requests import Request, deliveries, groups
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.entries import Add
from headgate.engine.requests.idempotency import Idempotent, owned, owner_prefix
from headgate.engine.requests.keyspace import ExpireStream
from headgate.engine.requests.streams import CreateStream, DeleteStream
from headgate.engine.state.bounds import KeyspaceBounds
from tests.changes import acting_by, configured
from tests.lengths import length_of
from tests.unit.driver import Driver, G, S, entry_id, numbers

DRAFT = Draft(None, (b"k", b"v"))
START = groups.GroupStart(MIN_ID)


@contextmanager
def refused(engine: Engine, what: str, limit: int) -> Iterator[None]:
    """Expect that something is one too many, and that nothing changes."""
    before = engine.storage.position
    with pytest.raises(LimitReached) as refusal:
        yield
    assert str(refusal.value) == f"too many {what}: the limit is {limit}"
    assert (refusal.value.what, refusal.value.limit) == (what, limit)
    assert engine.storage.position == before


# Streams


READ = deliveries.ReadGroup(G, b"new", [deliveries.GroupCursor(S)], wait_ms=0)
FULL: list[tuple[str, str, Request[Any], list[Request[Any]]]] = [
    (
        "streams",
        "streams",
        DeleteStream(b"other"),
        [
            CreateStream(b"new", StreamConfig()),
            Add(b"new", [DRAFT]),
            groups.CreateGroup(b"new", G, START, create_stream=True),
            CommitBatch(b"w", 1, {S: [DRAFT], b"new": [DRAFT]}),
        ],
    ),
    (
        "groups",
        "groups in this stream",
        groups.DestroyGroup(S, b"other"),
        [groups.CreateGroup(S, b"new", START)],
    ),
    (
        "consumers",
        "consumers in this group",
        groups.DeleteConsumer(S, G, b"b", release=True),
        [
            groups.CreateConsumer(S, G, b"new"),
            READ,
            replace(READ, wait_ms=None),
            replace(READ, cursors=[deliveries.GroupCursor(S, MIN_ID)]),
            deliveries.Claim(S, G, b"new", [entry_id(1)], 0),
            deliveries.Autoclaim(S, G, b"new", min_idle_ms=0),
        ],
    ),
    (
        "producers",
        "producers in this stream",
        configured(S, StreamConfig(idempotency_max=5)),  # which forgets all keys
        [Add(S, [DRAFT], Idempotent(b"new", b"1"))],
    ),
]
"""The bound, what there is too much of, what makes room, and what needs it."""


@pytest.mark.parametrize(
    ("bound", "what", "removal", "request_"), [(*row, each) for *row, many in FULL for each in many]
)
async def test_one_too_many_is_refused_until_one_goes(
    bound: str, what: str, removal: Request[Any], request_: Request[Any]
) -> None:
    engine = Driver(bounds=KeyspaceBounds(**{f"{bound}_max": 2}))
    await engine.start(1, 2, 3)
    await engine.take(limit=1)
    await engine.put(1, stream=b"other")
    await engine.perform(groups.CreateGroup(S, b"other", START))
    await engine.perform(groups.CreateConsumer(S, G, b"b"))
    for producer in (b"a", b"b"):
        await engine.perform(Add(S, [DRAFT], Idempotent(producer, b"1")))
    with refused(engine, what, 2):
        await engine.perform(request_)
    assert (await engine.perform(Add(S, [DRAFT], Idempotent(b"b", b"1")))).is_repeat
    assert not (await engine.perform(Add(S, [DRAFT], Idempotent(b"a", b"2")))).is_repeat
    await engine.perform(removal)
    await engine.perform(request_)


async def test_the_new_streams_of_a_batch_are_counted_together() -> None:
    engine = Driver(bounds=KeyspaceBounds(streams_max=3))
    await engine.put(1)
    with refused(engine, "streams", 3):
        await engine.perform(
            CommitBatch(b"w", 1, {name: [DRAFT] for name in (b"a", b"b", b"c", S)})
        )

    await engine.perform(CommitBatch(b"w", 1, {name: [DRAFT] for name in (b"a", b"b", S)}))
    assert await length_of(engine, S) == 2


async def test_a_stream_whose_time_is_over_makes_room_for_another() -> None:
    engine = Driver(bounds=KeyspaceBounds(streams_max=1))
    await engine.put(1)
    await engine.perform(ExpireStream(S, 10))
    engine.clock.now_ms += 10
    await engine.put(1, stream=b"new")


async def test_a_dead_letter_waits_for_room_for_its_stream() -> None:
    engine = Driver(bounds=KeyspaceBounds(streams_max=2))
    await engine.start(1)
    await engine.perform(acting_by(S, G, GroupPolicy(max_deliveries=1, dead_letter_stream=b"dead")))
    await engine.put(1, stream=b"other")
    await engine.take(limit=1)
    await engine.perform(deliveries.Nack(S, G, [entry_id(1)], mode=deliveries.NackMode.FAIL))
    assert await engine.held_numbers() == [1]

    await engine.perform(DeleteStream(b"other"))
    await engine.take(b"b")
    assert await engine.held_numbers() == []
    assert await length_of(engine, b"dead") == 1


# Consumers


async def test_a_read_of_several_streams_is_refused_as_a_whole() -> None:
    engine = Driver(bounds=KeyspaceBounds(consumers_max=1))
    await engine.start(1)
    await engine.start(1, stream=b"full")
    await engine.perform(groups.CreateConsumer(b"full", G, b"a"))
    with refused(engine, "consumers in this group", 1):
        await engine.take(b"b", streams=(S, b"full"))


async def test_who_waits_and_is_deleted_comes_again_if_there_is_room() -> None:
    engine = Driver(bounds=KeyspaceBounds(consumers_max=1))
    await engine.start()
    waiting = asyncio.ensure_future(engine.take(wait_ms=None))
    while not engine.waiter_count:
        await asyncio.sleep(0)
    await engine.perform(groups.DeleteConsumer(S, G, b"a", release=True))
    await engine.perform(groups.CreateConsumer(S, G, b"b"))
    await engine.put(1)
    with pytest.raises(LimitReached):
        await waiting
    assert numbers(await engine.take(b"b")) == [1]


# Producers


async def test_the_producers_of_one_owner_leave_half_of_the_room_to_others() -> None:
    engine = Driver(bounds=KeyspaceBounds(producers_max=4))
    first, second, third = [Idempotent(owned(name, b"ann"), b"1") for name in (b"a", b"b", b"c")]
    for key in (first, second):
        await engine.perform(Add(S, [DRAFT], key))
    with refused(engine, "producers of one owner in this stream", 2):
        await engine.perform(Add(S, [DRAFT], third))
    for name in (owned(b"a", b"bob"), b"nobody's"):
        await engine.perform(Add(S, [DRAFT], Idempotent(name, b"1")))
    assert (await engine.perform(Add(S, [DRAFT], second))).is_repeat


@pytest.mark.parametrize("name", [b"9" * 5_000 + b":x", b"3:ann", b":/", b"x/y", b"03", b""])
def test_a_name_that_is_nobodys_has_no_owner(name: bytes) -> None:
    assert owner_prefix(name) == b""
    assert owner_prefix(owned(name, b"ann")) == b"3:ann/"


# A bound that is lowered


async def test_what_is_there_goes_on_when_a_bound_is_lowered() -> None:
    wide = Driver()
    for stream in (S, b"t"):
        await wide.start(1, 2, stream=stream)
        await wide.perform(groups.CreateGroup(stream, b"h", START))
        for consumer in (b"a", b"b"):
            await wide.perform(groups.CreateConsumer(stream, G, consumer))
        for producer in (b"p", b"q"):
            await wide.perform(Add(stream, [DRAFT], Idempotent(producer, b"1")))

    engine = Engine(MemoryStorage(), keyspace=wide.keyspace, bounds=KeyspaceBounds(1, 1, 1, 1))
    await engine.perform(Add(b"t", [DRAFT], Idempotent(b"q", b"2")))
    assert not (await engine.perform(groups.CreateConsumer(b"t", G, b"b"))).is_new
    for item in (
        lambda: engine.perform(Add(b"new", [DRAFT])),
        lambda: engine.perform(groups.CreateGroup(S, b"new", START)),
        lambda: engine.perform(groups.CreateConsumer(S, G, b"new")),
        lambda: engine.perform(Add(S, [DRAFT], Idempotent(b"new", b"1"))),
    ):
        with pytest.raises(LimitReached):
            await item()
