"""Somebody sets the wall clock: nobody waits for longer because of that, and nobody for less."""

import asyncio
from collections.abc import Callable

import pytest

from headgate.engine import commands
from headgate.engine.config import GroupPolicy, StreamConfig
from headgate.engine.engine import Engine
from headgate.engine.entry import Draft, EntryId
from headgate.engine.errors import Unavailable
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.limits import CLOCK_STEP_MS_MIN
from headgate.engine.requests.bulk import CommitBatch, LastCommit
from headgate.engine.requests.deliveries import Autoclaim, Claim, ListPending, Nack, NackMode
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.groups import ListConsumers
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.keyspace import ExpireStream
from headgate.engine.requests.streams import CreateStream
from headgate.engine.state.keyspace import Keyspace
from tests.changes import acting_by
from tests.journals.records import reloaded, replayed
from tests.lengths import length_of
from tests.unit.driver import Driver, G, S, deliveries, entry_id, kept, numbers
from tests.virtual_time import ManualClock, VirtualClock, now_ms

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
START_MS = 1_700_000_000_000
IDLE_MS = 30_000

either_way = pytest.mark.parametrize("by_ms", [-HOUR_MS, -DAY_MS, HOUR_MS, DAY_MS])


def driver() -> tuple[Driver, VirtualClock]:
    clock = VirtualClock(START_MS)
    return Driver(clock), clock


def records(engine: Engine) -> list[list[commands.Command]]:
    assert isinstance(engine.storage, MemoryStorage)
    return [commands.decode(record) for record in engine.storage.records]


def steps(engine: Engine) -> list[int]:
    """Return the recorded steps of the clock."""
    recorded = [command for record in records(engine) for command in record]
    return [item.by_ms for item in recorded if isinstance(item, commands.ClockSet)]


# Idle entries


@either_way
async def test_who_waits_for_an_idle_entry_gets_it_when_it_has_been_idle(by_ms: int) -> None:
    engine, clock = driver()
    await engine.start(1)
    await engine.take(b"b")
    blocked = asyncio.create_task(engine.take(b"a", claim=IDLE_MS, wait_ms=None))
    await asyncio.sleep(10)
    clock.step(by_ms)
    [item] = deliveries(await blocked)
    assert now_ms() == IDLE_MS
    assert item.idle_ms == IDLE_MS


@either_way
async def test_what_is_idle_for_longer_than_the_step_stays_idle_for_as_long(by_ms: int) -> None:
    engine, clock = driver()
    await engine.start(1)
    await engine.take(b"b")
    await asyncio.sleep(10 * DAY_MS // 1000)
    clock.step(by_ms)
    assert [entry.idle_ms for entry in await engine.held()] == [10 * DAY_MS]
    [info] = await engine.perform(ListConsumers(S, G))
    assert (info.idle_ms, info.inactive_ms) == (10 * DAY_MS, 10 * DAY_MS)


async def test_a_step_costs_one_record_however_much_is_pending() -> None:
    engine, clock = driver()
    await engine.start(*range(1, 5_001))
    while numbers(await engine.take(b"b")):
        pass
    await engine.take(b"a", claim=HOUR_MS)
    before = len(records(engine))
    clock.step(-HOUR_MS)
    await engine.perform(ListConsumers(S, G))
    await engine.perform(ListConsumers(S, G))
    assert records(engine)[before:] == [[commands.ClockSet(-HOUR_MS)]]


async def test_a_clock_that_is_adjusted_bit_by_bit_is_followed() -> None:
    engine, clock = driver()
    async with kept(engine):
        await engine.start(1)
        await engine.take(b"b")
        for _ in range(100):
            clock.step(-CLOCK_STEP_MS_MIN // 2)
            await asyncio.sleep(1.5)
        assert [entry.idle_ms for entry in await engine.held()] == [100 * CLOCK_STEP_MS_MIN]
        assert steps(engine) == []


# Rests, dead letters, consumers, keys


@either_way
async def test_consumers_and_dead_letters_go_in_time(by_ms: int) -> None:
    engine, clock = driver()
    policy = GroupPolicy(
        claim_idle_ms=IDLE_MS,
        max_deliveries=1,
        dead_letter_stream=b"d",
        consumer_ttl_ms=2 * IDLE_MS,
    )
    async with kept(engine):
        await engine.start(1)
        await engine.perform(acting_by(S, G, policy))
        await engine.take(b"b")
        await asyncio.sleep(10)
        clock.step(by_ms)
        await asyncio.sleep(19)
        assert await length_of(engine, b"d") == 0
        await asyncio.sleep(3)
        assert await length_of(engine, b"d") == 1
        await asyncio.sleep(27)
        assert len(await engine.perform(ListConsumers(S, G))) == 1
        await asyncio.sleep(3)
        assert await engine.perform(ListConsumers(S, G)) == []


@either_way
async def test_a_key_protects_for_its_time_and_is_forgotten_then(by_ms: int) -> None:
    engine, clock = driver()
    draft = [Draft(None, (b"f", b"v"))]
    async with kept(engine):
        await engine.perform(CreateStream(S, StreamConfig(idempotency_window_ms=IDLE_MS)))
        made = await engine.perform(Add(S, draft, Idempotent(b"p", b"k")))
        await asyncio.sleep(10)
        clock.step(by_ms)
        await asyncio.sleep(19)
        assert (await engine.perform(Add(S, draft, Idempotent(b"p", b"k")))).ids == made.ids
        await asyncio.sleep(3)
        assert len(engine.keyspace.stream(S).keys) == 0
        again = await engine.perform(Add(S, draft, Idempotent(b"p", b"k")))
        assert again.ids > made.ids


@either_way
async def test_a_writer_is_not_forgotten_and_its_commit_is_told_by_the_clock(by_ms: int) -> None:
    engine, clock = driver()
    await engine.perform(CommitBatch(b"w", 7, {}))
    clock.step(100 * by_ms)
    await engine.perform(CommitBatch(b"v", 1, {}))
    last = await engine.perform(LastCommit(b"w"))
    assert last == (7, START_MS + 100 * by_ms)


# What goes by the clock, as in Redis


async def test_a_stream_goes_at_a_moment_whenever_that_comes() -> None:
    engine, clock = driver()
    await engine.put(1)
    await engine.perform(ExpireStream(S, 60_000))
    clock.step(-HOUR_MS)
    await asyncio.sleep(3_600)
    assert await length_of(engine, S) == 1
    await asyncio.sleep(60)
    assert await length_of(engine, S) == 0


async def test_an_age_limit_takes_nothing_early_when_the_clock_is_set_back() -> None:
    engine, clock = driver()
    draft = [Draft(None, (b"f", b"v"))]
    async with kept(engine):
        await engine.perform(CreateStream(S, StreamConfig(max_age_ms=60_000)))
        [first] = (await engine.perform(Add(S, draft))).ids
        clock.step(-HOUR_MS)
        for _ in range(60):
            await asyncio.sleep(59)
            await engine.perform(Add(S, draft))
        ids = [entry.id for entry in await engine.perform(Range(S))]
        assert ids == [EntryId(first.ms, seq) for seq in range(61)]
        await asyncio.sleep(3 * 60)
        assert await length_of(engine, S) == 0


# Restarts


def rewritten(engine: Engine) -> Keyspace:
    return reloaded(replayed(engine))


recovered = pytest.mark.parametrize("recover", [replayed, rewritten])


@recovered
async def test_an_earlier_start_goes_on_from_there(recover: Callable[[Engine], Keyspace]) -> None:
    before = Driver()
    before.clock.now_ms = START_MS
    await before.start(1, 2, 3)
    await before.take(b"a", 1)
    before.clock.now_ms += 20_000
    await before.take(b"a", 1)
    before.clock.now_ms += 10_000
    await before.take(b"b", 1)
    await before.perform(Nack(S, G, [entry_id(3)], mode=NackMode.FAIL, delay_ms=IDLE_MS))

    clock = ManualClock(START_MS - HOUR_MS)
    after = Engine(MemoryStorage(), keyspace=recover(before), clock=clock)
    held = await after.perform(ListPending(S, G))
    assert [entry.idle_ms for entry in held] == [30_000, 10_000, None]
    clock.now_ms += IDLE_MS - 1
    claim = Autoclaim(S, G, b"c", min_idle_ms=IDLE_MS, limit=9, just_id=True)
    assert len((await after.perform(claim)).deliveries) == 2
    clock.now_ms += 1
    assert [delivery.id.ms for delivery in (await after.perform(claim)).deliveries] == [3]


# What cannot be recorded


async def test_a_step_that_cannot_be_recorded_is_recorded_later() -> None:
    engine, clock = driver()
    await engine.start(1)
    await engine.take(b"b")
    storage = engine.storage
    assert isinstance(storage, MemoryStorage)
    blocked = asyncio.create_task(engine.take(b"a", claim=IDLE_MS, wait_ms=None))
    await asyncio.sleep(10)
    clock.step(-HOUR_MS)
    storage.failure = "no room"
    await engine.held()
    with pytest.raises(Unavailable):
        await engine.take(b"c", claim=IDLE_MS)
    storage.failure = None
    assert numbers(await blocked) == [1]
    assert now_ms() == IDLE_MS
    assert steps(engine) == [-HOUR_MS]


async def test_what_is_made_as_old_as_can_be_is_claimed_first() -> None:
    engine = Driver()
    await engine.start(1, 2, 3)
    engine.clock.step(HOUR_MS)
    await engine.take(b"a")
    await engine.perform(Claim(S, G, b"a", [entry_id(2)], 0, time_ms=1))
    await engine.perform(Claim(S, G, b"a", [entry_id(3)], 0, time_ms=0))
    assert [entry.idle_ms for entry in await engine.held()] == [0, 1_000, 1_000]
    assert numbers(await engine.take(b"b", claim=1_000)) == [2, 3]
