"""Housekeeping: what is too old goes in time and bit by bit, and nothing else is touched."""

import asyncio

from headgate.engine.commands import KeysForgotten
from headgate.engine.config import GroupPolicy, StreamConfig
from headgate.engine.decisions import keys
from headgate.engine.entry import Draft, EntryId
from headgate.engine.limits import CONSUMERS_AT_ONCE_MAX, EXPIRED_AT_ONCE_MAX, FORGOTTEN_KEYS_MS
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateConsumer, ListConsumers
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.keyspace import ExpireStream
from headgate.engine.requests.streams import CreateStream, ListStreams
from tests.changes import acting_by, configured
from tests.lengths import length_of
from tests.unit.driver import Driver, G, S, kept
from tests.virtual_time import VirtualClock

WINDOW_MS = 10_000


class CountingClock(VirtualClock):
    """Counts looks at the clock."""

    count = 0

    def wall_ms(self) -> int:
        self.count += 1
        return super().wall_ms()


async def use_key(engine: Driver, stream: bytes, key: bytes) -> None:
    draft = Draft(None, (b"f", b"v"))
    await engine.perform(Add(stream, [draft], Idempotent(b"p", key)))


def key_count(engine: Driver, stream: bytes) -> int:
    return len(engine.keyspace.stream(stream).keys)


async def test_streams_of_which_nothing_is_due_cost_nothing() -> None:
    clock = CountingClock()
    async with kept(Driver(clock)) as engine:
        for number in range(1_000):
            name = b"%d" % number
            await engine.perform(CreateStream(name, StreamConfig(max_age_ms=60_000)))
            await use_key(engine, name, b"k")
        await asyncio.sleep(2)
        clock.count = 0
        await asyncio.sleep(20)
        assert clock.count < 20 * 10
        await asyncio.sleep(60)
        assert [await length_of(engine, b"%d" % number) for number in range(1_000)] == [0] * 1_000


async def test_keys_go_when_their_time_is_over_whatever_the_clock_did() -> None:
    clock = VirtualClock(10**9)
    async with kept(Driver(clock)) as engine:
        await engine.perform(CreateStream(S, StreamConfig(idempotency_window_ms=WINDOW_MS)))
        await use_key(engine, S, b"a")
        await asyncio.sleep(5)
        clock.step(-20_000)
        await use_key(engine, S, b"b")
        assert key_count(engine, S) == 2
        await asyncio.sleep(7)
        assert list(engine.keyspace.stream(S).keys.by_producer[b"p"]) == [b"b"]
        await asyncio.sleep(5)
        assert key_count(engine, S) == 0


async def test_a_shorter_window_or_age_holds_at_once() -> None:
    async with kept(Driver(VirtualClock(10**9))) as engine:
        await engine.perform(CreateStream(S, StreamConfig(max_age_ms=10**6)))
        await use_key(engine, S, b"a")
        await asyncio.sleep(3)
        await engine.perform(configured(S, StreamConfig(max_age_ms=5_000)))
        await asyncio.sleep(1)
        assert await length_of(engine, S) == 1
        await asyncio.sleep(3)
        assert await length_of(engine, S) == 0
        await engine.perform(Add(S, [Draft(EntryId(10**9 + 4_000, 0), (b"f", b"v"))]))
        await asyncio.sleep(4)
        assert await length_of(engine, S) == 0


async def test_many_streams_that_expire_at_one_moment_go_bit_by_bit() -> None:
    clock = VirtualClock(10**9)
    async with kept(Driver(clock)) as engine:
        for number in range(10 * EXPIRED_AT_ONCE_MAX):
            name = b"%d" % number
            await engine.perform(CreateStream(name, StreamConfig()))
            await engine.perform(ExpireStream(name, 5_000))
        clock.step(5_000)
        await engine.perform(ListStreams(limit=1))
        assert len(engine.keyspace.streams) == 9 * EXPIRED_AT_ONCE_MAX
        await asyncio.sleep(2)
        assert len(engine.keyspace.streams) == 0


async def test_many_consumers_that_are_idle_go() -> None:
    async with kept(Driver(VirtualClock())) as engine:
        await engine.start()
        await engine.perform(acting_by(S, G, GroupPolicy(consumer_ttl_ms=5_000)))
        for number in range(2 * CONSUMERS_AT_ONCE_MAX + 1):
            await engine.perform(CreateConsumer(S, G, b"%d" % number))
        await asyncio.sleep(4)
        assert len(await engine.perform(ListConsumers(S, G))) == 2 * CONSUMERS_AT_ONCE_MAX + 1
        await asyncio.sleep(3)
        assert await engine.perform(ListConsumers(S, G)) == []


DRAFT = Draft(None, (b"k", b"v"))


async def test_keys_of_some_moments_are_forgotten_at_once() -> None:
    engine = Driver()
    for number in range(10):
        await engine.perform(Add(S, [DRAFT], Idempotent(b"p", b"%d" % number)))
        engine.clock.now_ms += FORGOTTEN_KEYS_MS
    engine.clock.now_ms += 1_000_000

    left = []
    while (decision := keys.forget_keys(engine.keyspace, S, engine.clock.wall_ms())).commands:
        [command] = decision.commands
        assert isinstance(command, KeysForgotten)
        engine.keyspace.apply(command)
        left.append(len(engine.keyspace.stream(S).keys))

    assert left == list(range(9, -1, -1))
