"""Attention: which groups need somebody, at a moment of their histories."""

from __future__ import annotations

from headgate.engine.attention import BEHIND_MS, STALLED_MS, attention_of
from headgate.engine.config import GroupPolicy
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.requests.deliveries import Ack, Nack, NackMode
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, DescribeGroup, GroupStart
from tests.unit.driver import Driver, G, S, deliveries
from tests.virtual_time import ManualClock

LATER = 1_000_000


async def codes(driver: Driver) -> list[str]:
    info = await driver.perform(DescribeGroup(S, G))
    told = attention_of(info, driver.clock.wall_ms())
    return [] if told is None else [f"{told.code} {told.entry_count} {told.severity.name}"]


async def append(driver: Driver, count: int) -> None:
    """Append entries whose ids have the present moment."""
    await driver.perform(Add(S, [Draft(None, (b"n", b"1"))] * count))


def pass_time(driver: Driver, ms: int) -> None:
    driver.clock.now_ms += ms


async def started(*, policy: GroupPolicy | None = None) -> Driver:
    driver = Driver()
    await driver.perform(CreateGroup(S, G, GroupStart(MIN_ID), create_stream=True, policy=policy))
    return driver


async def test_a_group_without_entries_needs_nobody() -> None:
    driver = await started()
    pass_time(driver, LATER)
    assert await codes(driver) == []


async def test_entries_wait_and_there_is_no_consumer() -> None:
    driver = await started()
    await append(driver, 3)
    assert await codes(driver) == ["no_consumer 3 CRITICAL"]


async def test_entries_wait_though_there_are_consumers() -> None:
    driver = await started()
    await append(driver, 1)
    [delivery] = deliveries(await driver.take())
    await driver.perform(Ack(S, G, [delivery.id]))
    pass_time(driver, LATER)  # an idle stream is no trouble
    await append(driver, 2)
    assert await codes(driver) == []
    pass_time(driver, STALLED_MS)
    assert await codes(driver) == ["stalled 2 CRITICAL"]
    await driver.take(limit=1)
    assert await codes(driver) == []
    pass_time(driver, STALLED_MS)  # this consumer may be at work
    assert await codes(driver) == ["stalled 1 WARNING"]


async def test_a_group_that_delivers_old_entries_is_behind() -> None:
    driver = await started()
    await append(driver, 3)
    pass_time(driver, BEHIND_MS)
    await driver.take(limit=1)
    assert await codes(driver) == ["behind 2 WARNING"]


async def test_entries_that_were_given_back_wait_unless_they_are_delayed() -> None:
    driver = await started()
    await append(driver, 2)
    first, second = deliveries(await driver.take())
    await driver.perform(Nack(S, G, [first.id], NackMode.FAIL))
    await driver.perform(Nack(S, G, [second.id], NackMode.FAIL, delay_ms=10 * LATER))
    pass_time(driver, LATER)
    assert await codes(driver) == ["stalled 1 WARNING"]


async def test_a_paused_group_says_so_instead() -> None:
    driver = await started(policy=GroupPolicy(paused_until_ms=ManualClock().now_ms + LATER))
    assert await codes(driver) == []
    await append(driver, 1)
    assert await codes(driver) == ["paused 1 WARNING"]
    pass_time(driver, LATER)
    assert await codes(driver) == ["no_consumer 1 CRITICAL"]
