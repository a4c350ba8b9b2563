"""Events of entries are counted as they happen, and not when they are loaded."""

from __future__ import annotations

from headgate.engine.config import GroupPolicy
from headgate.engine.entry import MIN_ID
from headgate.engine.replies import ObservedGroup
from headgate.engine.requests.deliveries import Ack, Claim, GroupCursor, ReadGroup
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.requests.streams import Observe
from tests.unit.driver import Driver, G, S, entry_id


async def group_of(engine: Driver) -> ObservedGroup:
    observation = await engine.perform(Observe(100))
    [group] = next(stream for stream in observation.streams if stream.name == S).groups
    return group


async def test_first_and_further_deliveries_and_acknowledgements_are_counted() -> None:
    engine = Driver()
    await engine.start(1, 2, 3, 4)
    await engine.take(limit=2)
    await engine.take(b"b", no_ack=True)
    await engine.perform(ReadGroup(G, b"a", [GroupCursor(S, entry_id(0))]))  # its history
    await engine.perform(Claim(S, G, b"b", [entry_id(1)], 0))
    await engine.perform(Ack(S, G, [entry_id(1)]))
    group = await group_of(engine)
    assert (group.delivered_count, group.redelivered_count, group.acked_count) == (4, 3, 1)
    assert engine.activity.appended_count == 4


async def test_a_dead_letter_is_not_acknowledged() -> None:
    engine = Driver()
    await engine.put(1, 2)
    policy = GroupPolicy(max_deliveries=1, dead_letter_stream=b"dead", claim_idle_ms=10)
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID), policy=policy))
    await engine.take(limit=1)
    engine.clock.now_ms += 20
    await engine.perform(ReadGroup(G, b"b", [GroupCursor(S)], wait_ms=0))
    group = await group_of(engine)
    assert (group.dead_letter_count, group.acked_count) == (1, 0)


async def test_the_oldest_pending_entry_is_the_one_held_longest() -> None:
    engine = Driver()
    await engine.start(1, 2, 3)
    assert (await group_of(engine)).oldest_pending_ms == 0
    await engine.take(limit=1)
    engine.clock.now_ms += 500
    await engine.take(limit=1)
    assert (await group_of(engine)).oldest_pending_ms == 500
    await engine.perform(Ack(S, G, [entry_id(1)]))
    assert (await group_of(engine)).oldest_pending_ms == 0
