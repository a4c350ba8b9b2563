"""Housekeeping: what is too old goes in time and bit by bit, and nothing else is touched."""

import asyncio

import pytest

from headgate.engine.commands import KeysForgotten
from headgate.engine.config import FieldName, GroupPolicy, Patch, StreamConfig
from headgate.engine.decisions import keys
from headgate.engine.decisions.streams import stream_info
from headgate.engine.entry import Draft, EntryId
from headgate.engine.errors import WalkOver
from headgate.engine.limits import CONSUMERS_AT_ONCE_MAX, EXPIRED_AT_ONCE_MAX, FORGOTTEN_KEYS_MS
from headgate.engine.replies import TableInfo
from headgate.engine.requests.entries import Add, Trim, TrimTo
from headgate.engine.requests.groups import CreateConsumer, ListConsumers
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.keyspace import ExpireStream
from headgate.engine.requests.streams import CreateStream, ListStreams, UpdateStream
from headgate.engine.requests.tables import ReadTable
from headgate.engine.state.memory import Pieces
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


def entries_of(numbers: range) -> list[Draft]:
    return [Draft(EntryId(number, 0), (b"k", b"%d" % number)) for number in numbers]


async def test_a_table_is_built_and_forgets_what_was_trimmed_without_being_read() -> None:
    async with kept(Driver(VirtualClock())) as engine:
        for start in range(1, 12_001, 1_000):
            await engine.perform(Add(S, entries_of(range(start, start + 1_000))))
        await engine.perform(UpdateStream(S, AS_TABLE))
        await asyncio.sleep(5)
        assert table_of(engine) == (12_000, EntryId(12_000, 0), True)
        await engine.perform(Trim(S, TrimTo(max_length=10)))
        await asyncio.sleep(5)
        assert table_of(engine).row_count <= 1_020
        page = await engine.perform(ReadTable(S, limit=100))
        assert [row.id.ms for row in page.rows] == sorted(range(11_991, 12_001), key=str)


async def test_many_appends_of_one_turn_are_in_the_table() -> None:
    async with kept(Driver(VirtualClock())) as engine:
        await engine.perform(CreateStream(S, StreamConfig(key_field=FieldName(b"k"))))
        appends = [Add(S, [Draft(None, (b"k", b"%d" % at))]) for at in range(1_200)]
        await asyncio.gather(*map(engine.perform, appends))
        assert table_of(engine)[::2] == (1_200, True)


async def test_what_a_walk_needs_is_freed_bit_by_bit_a_minute_after_its_last_page() -> None:
    async with kept(Driver(VirtualClock())) as engine:
        await engine.perform(CreateStream(S, StreamConfig(key_field=FieldName(b"k"))))
        await engine.perform(Add(S, entries_of(range(1, 101))))
        page = await engine.perform(ReadTable(S, limit=1))
        for start in range(101, 3_101, 500):
            await engine.perform(Add(S, entries_of(range(start, start + 500))))
        assert engine.keyspace.memory.past_count == 3_000
        await asyncio.sleep(50)
        again = ReadTable(S, after_key=page.after_key, limit=100, as_of=page.as_of)
        assert len((await engine.perform(again)).rows) == 99
        freed: list[Pieces] = []
        engine.keyspace.dispose = freed.append
        await asyncio.sleep(70)
        [past] = freed
        assert sum(1 for _ in past) >= 3  # not all at once
        assert engine.keyspace.memory.past_count == 0
        with pytest.raises(WalkOver):
            await engine.perform(again)


def table_of(engine: Driver) -> TableInfo:
    info = stream_info(engine.keyspace, S).table
    assert info is not None
    return info


AS_TABLE = Patch.of(StreamConfig, key_field=FieldName(b"k"))
