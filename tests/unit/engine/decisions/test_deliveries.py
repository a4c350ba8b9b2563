"""Decisions about deliveries that the model does not make: outcomes per id."""

import pytest

from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.replies import Outcome
from headgate.engine.requests.deliveries import (
    Ack,
    AckThrough,
    GiveBack,
    GroupCursor,
    ListPending,
    ReadGroup,
)
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, GroupStart
from tests.unit.driver import Driver, G, S
from tests.unit.driver import entry_id as number_id


@pytest.fixture
async def engine() -> Engine:
    engine = Engine(MemoryStorage())
    await engine.perform(CreateGroup(b"s", b"g", GroupStart(MIN_ID), create_stream=True))
    return engine


async def test_an_id_acknowledged_twice_in_one_call_counts_once(engine: Engine) -> None:
    [entry_id] = (await engine.perform(Add(b"s", [Draft(None, (b"k", b"v"))]))).ids
    await engine.perform(ReadGroup(b"g", b"c", [GroupCursor(b"s")]))

    outcomes = await engine.perform(Ack(b"s", b"g", [entry_id, entry_id], consumer=b"c"))

    assert outcomes == [Outcome.ACKED, Outcome.NOT_PENDING]


async def test_what_is_given_back_is_as_if_it_had_never_been_delivered(engine: Engine) -> None:
    [entry_id] = (await engine.perform(Add(b"s", [Draft(None, (b"k", b"v"))]))).ids
    await engine.perform(ReadGroup(b"g", b"c", [GroupCursor(b"s")]))

    await engine.perform(GiveBack(b"s", b"g", b"c", {entry_id: 1}))

    [item] = await engine.perform(ListPending(b"s", b"g"))
    assert (item.consumer, item.delivery_count) == (None, 0)


@pytest.mark.parametrize("consumer", [b"c", b"d"])
async def test_a_delivery_that_was_not_the_last_one_is_not_given_back(
    engine: Engine, consumer: bytes
) -> None:
    [entry_id] = (await engine.perform(Add(b"s", [Draft(None, (b"k", b"v"))]))).ids
    await engine.perform(ReadGroup(b"g", b"c", [GroupCursor(b"s")]))
    again = ReadGroup(b"g", consumer, [GroupCursor(b"s")], claim_idle_ms=0)
    await engine.perform(again)

    await engine.perform(GiveBack(b"s", b"g", b"c", {entry_id: 1}))

    [item] = await engine.perform(ListPending(b"s", b"g"))
    assert (item.consumer, item.delivery_count) == (consumer, 2)


async def through(driver: Driver, seen: int) -> list[int]:
    """Acknowledge through an entry; returns what is left with the consumer."""
    await driver.perform(AckThrough(S, G, b"a", number_id(seen)))
    return await driver.held_numbers(b"a")


async def test_what_was_sent_before_the_last_one_seen_is_acknowledged_with_it() -> None:
    driver = Driver()
    await driver.start(1, 2, 3)
    await driver.take(limit=1)
    await driver.take()

    assert await through(driver, 2) == [3]
    assert await through(driver, 2) == [3]  # pending no more: it vouches for nothing


async def test_a_lower_id_that_was_sent_later_may_be_lost_though_it_was_the_same_moment() -> None:
    driver = Driver()
    await driver.start(1, 2)
    await driver.take(b"other", limit=1)
    await driver.take()
    await driver.perform(GiveBack(S, G, b"other", {number_id(1): 1}))
    await driver.take(released=True)

    assert await through(driver, 2) == [1]


async def test_a_clock_that_steps_back_does_not_make_a_later_delivery_an_earlier_one() -> None:
    driver = Driver()
    await driver.start(1, 2)
    await driver.take(b"other", limit=1)
    await driver.take()
    await driver.perform(GiveBack(S, G, b"other", {number_id(1): 1}))
    driver.clock.now_ms -= 1000
    await driver.take(released=True)

    assert await through(driver, 2) == [1]


async def test_what_was_not_shown_again_before_the_connection_broke_stays_pending() -> None:
    driver = Driver()
    await driver.start(1, 2, 3)
    await driver.take()
    await driver.take(after=MIN_ID, limit=2)  # it came back, and was shown two of three

    assert await through(driver, 2) == [3]


async def test_who_holds_nothing_has_seen_nothing() -> None:
    driver = Driver()
    await driver.start(1)
    await driver.take(b"other")

    assert await through(driver, 1) == []
    assert await driver.held_numbers(b"other") == [1]
