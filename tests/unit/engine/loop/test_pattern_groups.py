"""Groups over patterns: a read finds what a look at every stream would find, with few looks."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from headgate.engine.entry import MAX_ID, MIN_ID, Draft, EntryId
from headgate.engine.errors import LimitReached, StreamError
from headgate.engine.limits import PATTERN_GROUP_IDLE_S, PATTERN_GROUPS_MAX
from headgate.engine.replies import GroupsRead
from headgate.engine.requests.deliveries import (
    Ack,
    Extend,
    GroupCursor,
    MissingGroups,
    Nack,
    NackMode,
    ReadGroup,
    ReadGroups,
)
from headgate.engine.requests.entries import Add, Delete
from headgate.engine.requests.groups import (
    CreateGroup,
    DeleteConsumer,
    DestroyGroup,
    GroupStart,
    UpdateGroup,
)
from headgate.engine.requests.keyspace import DeleteAll, DeleteStreams, RenameStream
from tests.unit.driver import Driver
from tests.virtual_time import VirtualClock

G = b"g"
CONSUMERS = [b"ana", b"ben", b"cleo"]
NAMES = [b"s.%d" % number for number in range(6)] + [b"other"]
FROM_START = MissingGroups(GroupStart(MIN_ID))
ANY = ReadGroups(b"s.*", G, CONSUMERS[0], create=FROM_START)


async def quiet() -> None:
    """Let everything happen that can happen now."""
    for _ in range(50):
        await asyncio.sleep(0)


class Naive:
    """What a look at every stream finds."""

    def __init__(self, engine: Driver) -> None:
        self.engine = engine

    def has_something(self, request: ReadGroups) -> bool:
        if request.max_pending is not None and self.held(request.consumer) >= request.max_pending:
            return False
        return any(self._gives(name, request) for name in self._names())

    def held(self, consumer: bytes) -> int:
        groups = [self.engine.keyspace.stream(name).groups.get(G) for name in self._names()]
        return sum(
            pending.is_owned_by(consumer)
            for group in groups
            if group is not None
            for pending in group.pel.by_id.values()
        )

    def _names(self) -> list[bytes]:
        return [name for name in self.engine.keyspace.streams if name.startswith(b"s.")]

    def _gives(self, name: bytes, request: ReadGroups) -> bool:
        stream = self.engine.keyspace.stream(name)
        group = stream.groups.get(G)
        if group is None:
            return request.create is not None and stream.log.length > 0
        if stream.log.range(group.last_id.next(), MAX_ID, 1, None):
            return True
        now_ms = self.engine._executor.steady_ms()
        idle_ms = 2**60 if request.claim_idle_ms is None else request.claim_idle_ms
        return any(
            pending.is_claimable(now_ms, idle_ms)
            and (request.claim_own or not pending.is_owned_by(request.consumer))
            and stream.log.get(pending.id) is not None
            for pending in group.pel.by_id.values()
        )


class Waiting(NamedTuple):
    request: ReadGroups
    task: asyncio.Task[GroupsRead]


class History:
    """Random requests about a few streams, and reads of their groups, blocked ones too."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.engine = Driver(VirtualClock())
        self.naive = Naive(self.engine)
        self.waiting: list[Waiting] = []
        self.held: list[tuple[bytes, EntryId]] = []

    async def step(self) -> None:
        chance = self.chance
        act = chance.choices(
            [
                *(self.append, self.read, self.wait, self.cancel, self.settle, self.rest),
                *(self.read_one, self.change_stream, self.change_group),
            ],
            [10, 10, 5, 1, 8, 4, 3, 2, 2],
        )[0]
        with suppress(StreamError):  # of a stream or a group that is not there
            await act()
        await quiet()
        for _, task in self.waiting:
            if task.done():
                self.take(await task)
        self.waiting = [each for each in self.waiting if not each.task.done()]
        for request, _ in self.waiting:
            assert not self.naive.has_something(request)

    def take(self, read: GroupsRead) -> None:
        for each in read.reads:
            self.held += [(each.stream, delivery.id) for delivery in each.deliveries]

    def request(self, **options: object) -> ReadGroups:
        chance = self.chance
        return replace(
            ANY,
            consumer=chance.choice(CONSUMERS),
            limit=chance.choice([1, 2, 100]),
            claim_idle_ms=chance.choice([None, 100]),
            claim_own=chance.random() < 0.7,
            max_pending=chance.choice([None, 3]),
            create=chance.choice([FROM_START, None]),
            weights=chance.choice([{}, {b"s.1": 3}]),
            **options,
        )

    async def append(self) -> None:
        count = self.chance.choice([1, 1, 4])
        drafts = [Draft(None, (b"n", b"x")) for _ in range(count)]
        await self.engine.perform(Add(self.chance.choice(NAMES), drafts))

    async def read(self) -> None:
        request = self.request()
        was_there = self.naive.has_something(request)
        read = await self.engine.perform(request)
        self.take(read)
        # Who waited first gets what there is in a group that this read creates.
        assert bool(read.reads) is was_there or self.waiting
        assert len({each.stream for each in read.reads}) == len(read.reads)
        if request.max_pending is not None:
            assert read.pending_count == self.naive.held(request.consumer)
        if read.delivery_count < request.limit and self.naive.has_something(request):
            read = await self.engine.perform(request)  # a group was created meanwhile
            self.take(read)
            assert read.reads

    async def wait(self) -> None:
        request = self.request(wait_ms=self.chance.choice([None, 150]))
        self.waiting.append(Waiting(request, asyncio.create_task(self.engine.perform(request))))

    async def cancel(self) -> None:
        if self.waiting:
            self.chance.choice(self.waiting).task.cancel()
            await quiet()
            self.waiting = [each for each in self.waiting if not each.task.cancelled()]

    async def settle(self) -> None:
        if not self.held:
            return
        stream, entry_id = self.held.pop(self.chance.randrange(len(self.held)))
        consumer = self.chance.choice(CONSUMERS)
        delay_ms = self.chance.choice([0, 60])
        await self.engine.perform(
            self.chance.choice(
                [
                    Ack(stream, G, [entry_id]),
                    Nack(stream, G, [entry_id], NackMode.FAIL, delay_ms=delay_ms),
                    Extend(stream, G, [entry_id], consumer),
                    Delete(stream, [entry_id]),
                ]
            )
        )

    async def rest(self) -> None:
        await asyncio.sleep(self.chance.choice([0.03, 0.1, 1]))

    async def read_one(self) -> None:
        cursor = GroupCursor(self.chance.choice(NAMES))
        consumer = self.chance.choice(CONSUMERS)
        [read] = await self.engine.perform(ReadGroup(G, consumer, [cursor], limit=2))
        self.held += [(read.stream, delivery.id) for delivery in read.deliveries]

    async def change_stream(self) -> None:
        one, other = self.chance.sample(NAMES, 2)
        kind = self.chance.randrange(8)
        if kind == 0:
            await self.engine.perform(DeleteAll())
        elif kind < 4:
            await self.engine.perform(DeleteStreams([one]))
        else:
            await self.engine.perform(RenameStream(one, other))

    async def change_group(self) -> None:
        name, consumer = self.chance.choice(NAMES), self.chance.choice(CONSUMERS)
        await self.engine.perform(
            self.chance.choice(
                [
                    CreateGroup(name, G, GroupStart(MIN_ID)),
                    DestroyGroup(name, G),
                    UpdateGroup(name, G, last_id=MIN_ID),
                    DeleteConsumer(name, G, consumer, release=True),
                ]
            )
        )


@pytest.mark.parametrize("seed", range(60))
async def test_reads_find_what_a_look_at_every_stream_finds(seed: int) -> None:
    history = History(seed)
    for _ in range(120):
        await history.step()
    for _, task in history.waiting:
        task.cancel()
    await quiet()
    assert not history.engine.waiter_count


STREAMS = 100_000


async def test_a_read_looks_at_the_streams_that_have_something() -> None:
    engine = Driver(VirtualClock())
    for number in range(STREAMS):
        engine.begin(CreateGroup(b"s.%d" % number, G, GroupStart(MIN_ID), create_stream=True))
    assert (await engine.perform(ANY)).reads == []
    for number in range(0, STREAMS, STREAMS // 50):
        await engine.put(1, stream=b"s.%d" % number)
    before = engine.group_look_count
    read = await engine.perform(replace(ANY, limit=1_000))
    assert len(read.reads) == 50
    assert engine.group_look_count - before <= 60


async def test_a_wait_looks_at_nothing_while_nothing_comes() -> None:
    engine = Driver(VirtualClock())
    for number in range(100):
        await engine.put(1, stream=b"s.%d" % number)
    await engine.perform(ANY)
    waiting = asyncio.create_task(engine.perform(replace(ANY, wait_ms=3_600_000)))
    await quiet()
    before = engine.group_look_count
    await asyncio.sleep(3_000)
    await engine.put(1, stream=b"other")
    assert engine.group_look_count == before
    await engine.put(2, stream=b"s.7")
    assert [each.stream for each in (await waiting).reads] == [b"s.7"]


async def test_the_first_to_wait_is_the_first_to_be_served() -> None:
    engine = Driver(VirtualClock())
    tasks = []
    for at in range(30):
        request = replace(ANY, consumer=b"%d" % at, limit=1, wait_ms=None)
        tasks.append(asyncio.create_task(engine.perform(request)))
        await quiet()
    for served in range(30):
        await engine.put(served + 1, stream=b"s.%d" % (served % 7))
        await quiet()
        assert [task.done() for task in tasks] == [at <= served for at in range(30)]


async def test_groups_over_patterns_are_bounded_and_forgotten() -> None:
    engine = Driver(VirtualClock())
    requests = [
        replace(ANY, group=b"%d" % number, wait_ms=None) for number in range(PATTERN_GROUPS_MAX)
    ]
    tasks = [asyncio.create_task(engine.perform(request)) for request in requests]
    await quiet()
    with pytest.raises(LimitReached):
        await engine.perform(ANY)
    tasks[0].cancel()
    await quiet()
    await engine.perform(ANY)
    for task in tasks:
        task.cancel()
    await asyncio.sleep(2 * PATTERN_GROUP_IDLE_S)
    assert not engine._executor.pattern_groups


async def test_what_a_read_leaves_goes_to_those_that_wait() -> None:
    engine = Driver(VirtualClock())
    request = replace(ANY, limit=1, claim_idle_ms=100)
    await engine.put(1, 2, stream=b"s.1")
    await engine.perform(replace(request, limit=2, consumer=b"gone"))
    waiting = asyncio.create_task(engine.perform(replace(request, wait_ms=None)))
    await quiet()
    await asyncio.sleep(0.1)
    read = await engine.perform(replace(request, consumer=b"ben"))
    await quiet()
    assert [read.delivery_count, (await waiting).delivery_count] == [1, 1]


async def test_many_new_groups_run_few_of_those_that_wait() -> None:
    engine = Driver(VirtualClock())
    tasks = [
        asyncio.create_task(engine.perform(replace(ANY, consumer=b"%d" % at, wait_ms=None)))
        for at in range(50)
    ]
    await quiet()
    before = engine.group_look_count
    for number in range(200):
        engine.begin(CreateGroup(b"s.%d" % number, G, GroupStart(MIN_ID), create_stream=True))
    await quiet()
    assert engine.group_look_count - before <= 400
    for task in tasks:
        task.cancel()
