"""Clients that know nothing of the gateway acknowledge, claim and destroy in between."""

from __future__ import annotations

import pytest

from headgate.app.backends.redis.backend import RedisBackend
from headgate.engine.config import NO_POLICY, GroupPolicy, Patch
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.errors import GroupNotFound
from headgate.engine.limits import COUNT_MAX
from headgate.engine.replies import Outcome
from headgate.engine.requests.deliveries import (
    Ack,
    Claim,
    ListPending,
    Nack,
    NackMode,
    SumPending,
)
from headgate.engine.requests.entries import Delete
from headgate.engine.requests.groups import (
    CreateGroup,
    DeleteConsumer,
    DescribeConsumer,
    DescribeGroup,
    GroupStart,
    ListConsumers,
    UpdateGroup,
)
from tests.contract.calls import ANA, BEN, G, S, filled, got, held, ids, take, taken
from tests.unit.app.backends.redis.performing.native import run, side

NOBODY = b"\0released"


async def released(redis: RedisBackend, *numbers: int) -> None:
    """Append entries, and let a consumer get them and give them back."""
    await filled(redis, *numbers)
    await redis.perform(take(ANA))
    await redis.perform(Nack(S, G, ids(*numbers), NackMode.FAIL))


async def test_an_entry_that_nobody_owns_is_shown_as_nobodys(redis: RedisBackend) -> None:
    await released(redis, 1, 2)
    assert await held(redis) == {1: None, 2: None}
    assert await redis.perform(ListPending(S, G, consumer=NOBODY)) == []
    summary = await redis.perform(SumPending(S, G))
    assert (summary.total, summary.consumers, summary.holder_count) == (2, [], 0)
    info = await redis.perform(DescribeGroup(S, G))
    assert (info.pending_count, info.released_count, info.consumer_count) == (2, 2, 1)
    assert [each.name for each in await redis.perform(ListConsumers(S, G))] == [ANA]
    assert await redis.perform(DescribeConsumer(S, G, NOBODY)) is None
    assert await redis.perform(DeleteConsumer(S, G, NOBODY, release=False)) is None


async def test_what_another_client_acknowledged_is_not_delivered(redis: RedisBackend) -> None:
    await released(redis, 1, 2)
    await run(redis, "XACK", G, "1-0")
    assert await got(redis, take(BEN, claim_idle_ms=3_600_000)) == [2]
    assert await side(redis, b"released", "EXISTS") == 0


async def test_what_another_client_claimed_stays_with_its_consumer(redis: RedisBackend) -> None:
    await released(redis, 1, 2)
    await run(redis, "XCLAIM", G, b"native", 0, "1-0")
    assert await got(redis, take(BEN, claim_idle_ms=3_600_000)) == [2]
    assert await held(redis) == {1: b"native", 2: BEN}
    assert await redis.perform(Ack(S, G, ids(1), BEN)) == [Outcome.CLAIMED]


async def test_what_is_released_and_gone_from_its_set_is_found_by_its_id(
    redis: RedisBackend,
) -> None:
    await released(redis, 1)
    await side(redis, b"released", "DEL")
    assert await held(redis) == {1: None}
    claimed = await redis.perform(Claim(S, G, BEN, ids(1), 3_600_000))
    assert [delivery.id for delivery in claimed.deliveries] == ids(1)


async def test_a_group_that_another_client_made_again_has_no_policy(redis: RedisBackend) -> None:
    await filled(redis, 1)
    await redis.perform(UpdateGroup(S, G, policy=Patch.of(GroupPolicy, max_pending=1)))
    await run(redis, "XGROUP DESTROY", G)
    with pytest.raises(GroupNotFound):
        await redis.perform(take(ANA))
    await run(redis, "XGROUP CREATE", G, 0)
    assert (await redis.perform(DescribeGroup(S, G))).policy == NO_POLICY
    await run(redis, "XADD", "2-0", "n", 2)
    assert await got(redis, take(ANA)) == [1, 2]
    created = CreateGroup(S, G, GroupStart(MIN_ID), policy=NO_POLICY)
    assert not (await redis.perform(created)).is_new


@pytest.mark.parametrize("field", ["epoch", "next", "trimmed", "max_length", "note"])
async def test_a_foreign_field_beside_a_policy_is_ignored(redis: RedisBackend, field: str) -> None:
    await filled(redis, 1)
    policy = GroupPolicy(max_pending=1)
    await redis.perform(UpdateGroup(S, G, policy=Patch.to(policy)))
    await side(redis, b"group", "HSET", field, "garbage")
    assert (await redis.perform(DescribeGroup(S, G))).policy == policy
    assert await got(redis, take(ANA)) == [1]


async def test_the_former_name_of_on_disconnect_is_read_and_goes_with_a_change(
    redis: RedisBackend,
) -> None:
    await filled(redis, 1)
    await redis.perform(UpdateGroup(S, G, policy=Patch.of(GroupPolicy, max_pending=1)))
    await side(redis, b"group", "HSET", "keeps", "1")
    assert (await redis.perform(DescribeGroup(S, G))).policy.on_disconnect
    changed = UpdateGroup(S, G, policy=Patch.of(GroupPolicy, on_disconnect=False))
    assert not (await redis.perform(changed)).policy.on_disconnect


async def test_a_stream_that_another_client_made_again_has_no_policies(
    redis: RedisBackend,
) -> None:
    await released(redis, 1)
    await redis.perform(UpdateGroup(S, G, policy=Patch.of(GroupPolicy, max_pending=1)))
    await run(redis, "DEL")
    await run(redis, "XADD", "1-0", "n", 1)
    await run(redis, "XADD", "2-0", "n", 2)
    created = await redis.perform(CreateGroup(S, G, GroupStart(MIN_ID), policy=GroupPolicy()))
    assert (created.is_new, created.info.policy) == (True, NO_POLICY)
    assert await got(redis, take(ANA, claim_idle_ms=0)) == [1, 2]


async def test_an_entry_that_failed_for_good_keeps_the_greatest_count(
    redis: RedisBackend,
) -> None:
    await filled(redis, 1)
    await redis.perform(take(ANA))
    await redis.perform(Nack(S, G, ids(1), NackMode.FATAL))
    [item] = await redis.perform(ListPending(S, G))
    assert item.delivery_count == COUNT_MAX
    [delivery] = await taken(redis, take(BEN, claim_idle_ms=3_600_000))
    assert (delivery.delivered_before, delivery.id) == (COUNT_MAX, EntryId(1, 0))
    [item] = await redis.perform(ListPending(S, G))
    assert item.delivery_count == COUNT_MAX
    await redis.perform(Nack(S, G, ids(1), NackMode.SILENT))
    [item] = await redis.perform(ListPending(S, G))
    assert item.delivery_count == COUNT_MAX  # the numbers of Lua are not exact up there


async def test_entries_that_are_gone_from_the_stream_are_not_in_the_way(
    redis: RedisBackend,
) -> None:
    await filled(redis, *range(1, 301))
    await redis.perform(take(ANA))
    await redis.perform(Delete(S, ids(*range(1, 300))))
    numbers: list[int] = []
    while not numbers:
        numbers = await got(redis, take(BEN, 1, claim_idle_ms=0))
    assert numbers == [300]
    assert await held(redis) == {300: BEN}
