"""Blocked reads: their wake-ups, the exact times, and no traces of cancelled ones."""

import asyncio
import gc
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

import pytest

from headgate.engine.config import StreamConfig
from headgate.engine.eager import EagerCall
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.errors import Draining, LimitExceeded, Unavailable
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.limits import SERVED_AT_ONCE_MAX
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import (
    Ack,
    Claim,
    Extend,
    GroupCursor,
    Nack,
    NackMode,
    ReadGroup,
)
from headgate.engine.requests.entries import Add, Delete, From, Read, References, StreamCursor
from headgate.engine.requests.groups import DeleteConsumer, DestroyGroup
from headgate.engine.requests.streams import CreateStream, DeleteStream
from tests.unit.driver import Driver, G, S, entry_id, numbers
from tests.virtual_time import VirtualClock, now_ms, settle

T = TypeVar("T")


def blocking_driver(waiters_max: int = 10_000) -> tuple[Driver, VirtualClock]:
    clock = VirtualClock()
    return Driver(clock, waiters_max=waiters_max), clock


async def started(*reads: Coroutine[Any, Any, T]) -> list[asyncio.Task[T]]:
    """Start reads one after the other, each until it is blocked or over."""
    tasks = []
    for read in reads:
        tasks.append(asyncio.create_task(read))
        await settle()
    return tasks


async def begun(reads: Iterable[Coroutine[Any, Any, T]]) -> list[asyncio.Task[T]]:
    """Start many reads, and return once all are blocked."""
    tasks = [asyncio.create_task(read) for read in reads]
    await settle()
    return tasks


async def cancelled(*tasks: asyncio.Task[Any]) -> None:
    """Cancel reads and wait until they are gone."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)


def over(tasks: list[asyncio.Task[T]]) -> list[bool]:
    return [task.done() for task in tasks]


# Plain reads


async def test_what_a_reader_was_woken_for_is_its_own_even_if_it_goes_at_once() -> None:
    engine, _ = blocking_driver()
    await engine.put(1)
    item, other = await started(engine.follow(), engine.follow())
    await engine.put(2, 3)
    await engine.perform(Delete(S, [entry_id(2)]))
    await engine.put(4)
    assert await item == [(S, [2, 3])]
    (third,) = await started(engine.follow())
    await engine.put(5)
    await engine.perform(DeleteStream(S))
    assert (await other, await third) == ([(S, [2, 3])], [(S, [5])])


async def test_a_read_of_nothing_is_over_exactly_at_its_deadline_and_empty() -> None:
    engine, _ = blocking_driver()
    await engine.put(1)
    assert await engine.follow(wait_ms=250) == []
    assert (now_ms(), engine.waiter_count) == (250, 0)


async def test_a_blocked_read_of_the_last_entry_gets_the_last_one_there_is_then() -> None:
    engine, _ = blocking_driver()
    await engine.perform(CreateStream(S, StreamConfig()))
    (task,) = await started(engine.follow(after=From.LAST))
    await engine.put(1, 2, 3)
    assert await task == [(S, [3])]


async def test_an_entry_trimmed_in_the_same_command_wakes_nobody() -> None:
    engine, _ = blocking_driver()
    await engine.perform(CreateStream(S, StreamConfig(max_length=0)))
    (task,) = await started(engine.follow(wait_ms=100))
    await engine.put(1)
    assert await task == []
    assert now_ms() == 100


async def test_a_reader_that_names_a_stream_twice_is_counted_once() -> None:
    engine, _ = blocking_driver()
    await engine.put(1)
    assert await engine.follow(S, S, wait_ms=10) == []
    (task,) = await started(engine.follow(S, S))
    assert engine.waiter_count == 1
    await engine.put(2)
    assert await task == [(S, [2]), (S, [2])]
    assert engine.waiter_count == 0


# Claiming while blocked


IDS = [entry_id(1), entry_id(2)]
Steps = list[int | Request[Any]]


async def done(engine: Driver, steps: Steps) -> None:
    """Let so many milliseconds pass, or perform a request, one step after the other."""
    for step in steps:
        await (asyncio.sleep(step / 1000) if isinstance(step, int) else engine.perform(step))


def taken(limit: int | None = None) -> ReadGroup:
    return ReadGroup(G, b"b", [GroupCursor(S)], limit)


@pytest.mark.parametrize(
    ("given", "claim_ms", "meanwhile", "expected", "at_ms"),
    [
        pytest.param([taken(), 300], 900, [], [1, 2], 900, id="idle enough"),
        pytest.param([taken(1), 50, taken(1)], 100, [Ack(S, G, IDS[:1])], [2], 150, id="acked"),
        pytest.param([taken(), Delete(S, IDS)], 100, [], [], 1_000, id="deleted"),
        pytest.param([taken()], 100, [80, Extend(S, G, IDS, b"b")], [1, 2], 180, id="extended"),
        pytest.param(
            [taken()], 100, [20, Claim(S, G, b"c", IDS[:1], 0, idle_ms=70)], [1], 50, id="aged"
        ),
        pytest.param([taken()], 10**12, [Nack(S, G, IDS, NackMode.FAIL)], [1, 2], 0, id="nacked"),
        pytest.param(
            [taken()], 500, [DeleteConsumer(S, G, b"b", release=True)], [1, 2], 0, id="released"
        ),
    ],
)
async def test_a_claiming_reader_wakes_at_the_very_moment_it_may_claim_and_no_other_does(
    given: Steps, claim_ms: int, meanwhile: Steps, expected: list[int], at_ms: int
) -> None:
    engine, _ = blocking_driver()
    await engine.start(1, 2)
    await done(engine, given)
    plain, claiming = await started(
        engine.take(b"p", wait_ms=None), engine.take(b"a", claim=claim_ms, wait_ms=1_000 - now_ms())
    )
    await done(engine, meanwhile)
    assert numbers(await claiming) == expected
    assert (now_ms(), plain.done()) == (at_ms, False)
    await cancelled(plain)


async def test_two_claiming_readers_wake_each_at_its_own_time() -> None:
    engine, _ = blocking_driver()
    await engine.start(1, 2)
    await engine.take(b"z")
    slow, fast = await started(
        engine.take(b"slow", 1, claim=500, wait_ms=None),
        engine.take(b"fast", 1, claim=200, wait_ms=None),
    )
    assert numbers(await fast) == [1]
    assert now_ms() == 200
    assert numbers(await slow) == [2]
    assert now_ms() == 500
    assert engine.waiter_count == 0


async def test_a_paced_reader_woken_by_time_takes_as_much_as_it_asked_for_once() -> None:
    engine, _ = blocking_driver()
    await engine.start(1, 2, 3)
    await engine.take(b"b")
    first, second = await started(
        engine.take(b"a", 1, claim=100, wait_ms=None, max_pending=5),
        engine.take(b"c", 1, claim=100, wait_ms=None, max_pending=5),
    )
    assert (numbers(await first), numbers(await second)) == ([1], [2])
    assert await engine.held_numbers(b"a") == [1]
    assert await engine.held_numbers(b"b") == [3]
    assert now_ms() == 100


# Readers that may hold only so much


async def test_a_full_reader_wakes_when_it_acknowledges() -> None:
    engine, _ = blocking_driver()
    await engine.start(1, 2)
    await engine.take(max_pending=1)
    (task,) = await started(engine.take(max_pending=1, wait_ms=None))
    await asyncio.sleep(0.005)
    assert not task.done()
    await engine.perform(Ack(S, G, [entry_id(1)]))
    assert numbers(await task) == [2]
    assert now_ms() == 5


async def test_a_full_reader_wakes_when_another_claims_from_it() -> None:
    engine, _ = blocking_driver()
    await engine.start(1, 2)
    await engine.take(b"a", max_pending=1)
    (task,) = await started(engine.take(b"a", max_pending=1, wait_ms=None))
    assert numbers(await engine.take(b"b", 1, claim=0)) == [1]
    assert numbers(await task) == [2]


async def test_a_full_reader_does_not_keep_those_behind_it_waiting() -> None:
    engine, _ = blocking_driver()
    await engine.start(1)
    await engine.take(b"a")
    full, free = await started(
        engine.take(b"a", max_pending=1, wait_ms=None), engine.take(b"b", wait_ms=None)
    )
    await engine.put(2)
    assert numbers(await free) == [2]
    assert not full.done()
    await cancelled(full)


# Going away


async def test_a_cancelled_reader_leaves_nothing_behind() -> None:
    engine, _ = blocking_driver()
    await engine.start(1, after=None)
    tasks = await started(
        engine.take(wait_ms=None, claim=50), engine.take(wait_ms=10_000), engine.take(wait_ms=None)
    )
    (plain,) = await started(engine.follow())
    await cancelled(*tasks, plain)
    assert engine.waiter_count == 0
    assert engine._executor.waiters._queues == {}
    assert not engine._executor.waiters._noted
    await engine.put(2)
    assert await engine.held() == []


async def test_a_claimed_entry_handed_back_has_the_count_it_had_before() -> None:
    engine, _ = blocking_driver()
    await engine.start(1)
    await engine.take(b"b")
    await engine.take(b"b", after=MIN_ID)
    (gone,) = await started(engine.take(b"a", claim=100, wait_ms=None))
    await engine.perform(Nack(S, G, [entry_id(1)], mode=NackMode.FAIL))
    assert [item.delivery_count for item in await engine.held(b"a")] == [3]
    await cancelled(gone)
    assert [(item.consumer, item.delivery_count) for item in await engine.held()] == [(None, 2)]


async def test_an_entry_added_at_the_moment_of_the_deadline_is_delivered_to_one_only() -> None:
    engine, _ = blocking_driver()
    await engine.start()
    added = asyncio.create_task(_add_at(engine, 0.100))
    first = asyncio.create_task(engine.take(b"a", wait_ms=100))
    got = numbers(await first)
    await added
    again = numbers(await engine.take(b"b"))
    assert sorted(got + again) == [1]
    assert await engine.held_numbers(b"a") == got


async def _add_at(engine: Driver, when: float) -> None:
    loop = asyncio.get_running_loop()
    reached = loop.create_future()
    loop.call_at(when, reached.set_result, None)
    await reached
    await engine.put(1)


async def test_a_destroyed_group_gets_nothing_handed_back() -> None:
    engine, _ = blocking_driver()
    await engine.start()
    (gone,) = await started(engine.take(b"a", wait_ms=None))
    await engine.put(1)
    await engine.perform(DestroyGroup(S, G))
    await cancelled(gone)
    assert engine.waiter_count == 0


# Many


async def test_one_read_too_many_is_refused_and_the_others_stay() -> None:
    engine, _ = blocking_driver(waiters_max=2)
    await engine.start()
    tasks = await started(engine.take(wait_ms=None), engine.take(wait_ms=None))
    with pytest.raises(LimitExceeded) as refusal:
        await engine.take(wait_ms=None)
    assert (refusal.value.limit, engine.waiter_count) == (2, 2)
    with pytest.raises(LimitExceeded):
        await engine.follow()
    assert numbers(await engine.take(wait_ms=0)) == []
    await cancelled(*tasks)
    assert engine.waiter_count == 0


class CountingClock(VirtualClock):
    """Counts looks at the clock: one by every attempt to read as a group."""

    count = 0

    def wall_ms(self) -> int:
        self.count += 1
        return super().wall_ms()


async def test_an_append_looks_at_one_group_reader_more_than_it_serves() -> None:
    clock = CountingClock()
    engine = Driver(clock)
    await engine.start()
    tasks = await begun(engine.take(b"%d" % n, 1, wait_ms=None) for n in range(500))
    clock.count = 0
    await engine.put(1, 2, 3)
    assert clock.count == 1 + 3 + 1
    await settle()
    assert sum(over(tasks)) == 3
    await cancelled(*tasks[3:])


async def test_an_entry_given_back_is_offered_to_one_reader_more_than_takes_it() -> None:
    clock = CountingClock()
    engine = Driver(clock)
    await engine.start(1, 2)
    await engine.take(b"z")
    plain = [asyncio.create_task(engine.take(b"p%d" % n, 1, wait_ms=None)) for n in range(500)]
    tasks = [
        asyncio.create_task(engine.take(b"%d" % n, 1, claim=10**9, wait_ms=None))
        for n in range(500)
    ]
    await settle()
    clock.count = 0
    await engine.perform(Nack(S, G, [entry_id(1)], mode=NackMode.FAIL))
    await engine.perform(DeleteConsumer(S, G, b"z", release=True))
    await settle()
    assert [numbers(await task) for task in tasks[:2]] == [[1], [2]]
    assert sum(over(tasks)) == 2
    assert clock.count < 30
    await cancelled(*tasks[2:], *plain)


async def test_an_append_looks_at_no_reader_whose_consumer_holds_all_it_may() -> None:
    clock = CountingClock()
    engine = Driver(clock)
    await engine.start(*range(1, 501))
    for n in range(500):
        await engine.take(b"%d" % n, 1)
    tasks = [
        asyncio.create_task(engine.take(b"%d" % n, max_pending=1, wait_ms=None)) for n in range(500)
    ]
    await settle()
    clock.count = 0
    await engine.put(501)
    await engine.perform(Ack(S, G, [entry_id(300)]))
    await settle()
    assert numbers(await tasks[299]) == [501]
    assert clock.count < 10
    await engine.perform(Ack(S, G, [entry_id(8)]))
    await engine.perform(Ack(S, G, [entry_id(7)]))
    await engine.put(502, 503)
    await engine.perform(Delete(S, [entry_id(9)], References.DELETE))
    await engine.put(504)
    assert (numbers(await tasks[7]), numbers(await tasks[6])) == ([502], [503])
    assert numbers(await tasks[8]) == [504]
    assert sum(over(tasks)) == 4
    await cancelled(*(task for task in tasks if not task.done()))
    assert (engine.waiter_count, engine._executor.waiters._queues) == (0, {})


async def test_many_readers_are_served_in_turns_and_others_have_theirs_between() -> None:
    engine, _ = blocking_driver()
    await engine.put(1)
    tasks = await begun(engine.follow() for _ in range(1_000))
    await engine.put(2)
    seen = [engine.waiter_count]
    while engine.waiter_count:
        await asyncio.sleep(0)
        seen.append(engine.waiter_count)
    assert seen == [900, 800, 700, 600, 500, 400, 300, 200, 100, 0]
    assert await asyncio.gather(*tasks) == [[(S, [2])]] * 1_000


async def test_a_reader_that_comes_while_others_are_served_has_its_turn_behind_them() -> None:
    engine, _ = blocking_driver()
    await engine.start()
    tasks = [asyncio.create_task(engine.take(b"%d" % n, 1, wait_ms=None)) for n in range(300)]
    late = asyncio.create_task(engine.take(b"late", 1, wait_ms=1))
    tasks += [asyncio.create_task(engine.take(b"%d" % n, 1, wait_ms=None)) for n in range(300, 400)]
    await settle()
    await engine.put(*range(1, 402))
    assert engine.waiter_count == 301
    tasks[150].cancel()
    newcomer = asyncio.create_task(engine.take(b"new", wait_ms=0))
    assert numbers(await newcomer) == [401]
    del tasks[150]
    assert [numbers(await task) for task in [*tasks[:299], late, *tasks[299:]]] == [
        [n] for n in range(1, 401)
    ]


async def test_everybody_is_told_in_turns_that_the_engine_is_about_to_stop() -> None:
    engine, _ = blocking_driver()
    await engine.start()
    tasks = await begun(engine.take(b"%d" % n, wait_ms=None) for n in range(250))
    engine.drain()
    with pytest.raises(Draining):
        await engine.take(wait_ms=1)
    await asyncio.sleep(0)
    assert sum(over(tasks)) == 100
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, Draining) for outcome in outcomes)
    assert engine.waiter_count == 0


async def test_who_comes_while_others_are_told_of_a_failure_waits_as_ever() -> None:
    engine, _ = blocking_driver()
    await engine.start()
    tasks = await begun(engine.take(b"%d" % n, wait_ms=None) for n in range(250))
    engine._executor.waiters.fail(Unavailable("for a moment"))
    late = asyncio.create_task(engine.take(b"late", wait_ms=None))
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
    assert (engine.waiter_count, late.done()) == (1, False)
    await engine.put(1)
    assert numbers(await late) == [1]


# Retention


async def test_a_read_that_goes_as_it_blocks_is_not_run_again() -> None:
    failed: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, facts: failed.append(facts))
    engine = Engine(MemoryStorage())
    engine.begin(Add(S, [Draft(None, (b"f", b"v"))]))
    blocking = Read([StreamCursor(S, From.NOW)], wait_ms=None)
    served = [asyncio.create_task(engine.perform(blocking)) for _ in range(2 * SERVED_AT_ONCE_MAX)]
    await asyncio.sleep(0)

    async def read() -> None:
        await engine.perform(blocking)

    going = EagerCall(read(), lambda _: None)
    going.start()
    engine.begin(Add(S, [Draft(None, (b"f", b"v"))]))  # serves the first ones in this turn
    going.cancel()
    del going
    await asyncio.gather(*served)
    await settle()
    gc.collect()
    assert failed == []
    assert engine.waiter_count == 0
