"""Decisions about deliveries: outcomes per id."""

import pytest

from headgate.engine.entry import MIN_ID
from headgate.engine.replies import Deletion, Outcome
from headgate.engine.requests.deliveries import Ack, AckAndDelete, AckThrough, GiveBack
from tests.unit.driver import Driver, G, S
from tests.unit.driver import entry_id as number_id


@pytest.mark.parametrize("consumer", [b"a", b"b"])
async def test_a_delivery_that_was_not_the_last_one_is_not_given_back(consumer: bytes) -> None:
    driver = Driver()
    await driver.start(1)
    await driver.take()
    await driver.take(consumer, claim=0)

    await driver.perform(GiveBack(S, G, b"a", {number_id(1): 1}))

    [item] = await driver.held()
    assert (item.consumer, item.delivery_count) == (consumer, 2)


async def test_an_id_given_twice_is_settled_once() -> None:
    driver = Driver()
    await driver.start(1, 2)
    await driver.take()
    ids = [number_id(1), number_id(1)]

    assert await driver.perform(Ack(S, G, ids)) == [Outcome.ACKED, Outcome.NOT_PENDING]
    deleted = await driver.perform(AckAndDelete(S, G, [number_id(2), number_id(2)]))
    assert deleted == [Deletion.DELETED, Deletion.NOT_FOUND]


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
