"""Decisions about deliveries: outcomes per id; and a decision only looks, whatever it discovers."""

from collections.abc import Callable

import pytest

from headgate.engine.config import GroupPolicy
from headgate.engine.decisions import Decision
from headgate.engine.decisions.group_reads import settling
from headgate.engine.decisions.group_reads.reads import read_group
from headgate.engine.entry import MIN_ID
from headgate.engine.journal import snapshot
from headgate.engine.requests.deliveries import AckThrough, GiveBack, GroupCursor, ReadGroup
from headgate.engine.requests.entries import Delete
from headgate.engine.state.keyspace import Keyspace
from tests.unit.driver import Driver, G, S, entry_id
from tests.unit.driver import entry_id as number_id


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


DEAD = GroupPolicy(claim_idle_ms=10, max_deliveries=1, dead_letter_stream=b"d")

LATER_MS = 10_000


def read(keyspace: Keyspace) -> Decision[object]:
    request = ReadGroup(G, b"b", [GroupCursor(S)], claim_idle_ms=10)
    return read_group(keyspace, request, LATER_MS).replied_as(str)


def dead_letter(keyspace: Keyspace) -> Decision[object]:
    return settling.settle(keyspace, S, G, None, LATER_MS).replied_as(str)


def everything(keyspace: Keyspace) -> bytes:
    return b"".join(snapshot.pieces(keyspace, 1))


@pytest.mark.parametrize(("decide", "policy"), [(read, GroupPolicy()), (dead_letter, DEAD)])
async def test_a_search_for_idle_entries_leaves_those_that_are_gone_as_they_are(
    decide: Callable[[Keyspace], Decision[object]], policy: GroupPolicy
) -> None:
    engine = Driver()
    await engine.start(1, 2, 3)
    await engine.take()
    await engine.perform(Delete(S, [entry_id(1), entry_id(2)]))
    engine.keyspace.group(S, G).policy = policy
    before = everything(engine.keyspace)
    decision = decide(engine.keyspace)
    assert everything(engine.keyspace) == before
    [unclaimable] = decision.unclaimable
    assert unclaimable == (S, G, [entry_id(1), entry_id(2)])


async def test_who_carries_it_out_need_not_come_by_them_again() -> None:
    engine = Driver()
    await engine.start(1, 2, 3)
    await engine.take()
    await engine.perform(Delete(S, [entry_id(1), entry_id(2)]))
    engine.clock.now_ms = LATER_MS
    assert read(engine.keyspace).unclaimable
    [taken] = await engine.take(b"b", claim=10)
    assert [delivery.id for delivery in taken.deliveries] == [entry_id(3)]
    engine.clock.now_ms = 2 * LATER_MS
    assert not read(engine.keyspace).unclaimable
