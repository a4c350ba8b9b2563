"""Clients that know nothing of the gateway go in between; groups and consumers have bounds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec import structs

from deploy.local_cluster.server import Server
from headgate.app.backends.redis.address import read_url
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.client import ClientOptions
from headgate.engine.config import NO_POLICY, GroupPolicy, Patch
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.errors import GroupNotFound, LimitReached
from headgate.engine.limits import COUNT_MAX, ERRORS_MAX
from headgate.engine.replies import Outcome
from headgate.engine.requests import deliveries, groups
from headgate.engine.requests.deliveries import Autoclaim, Claim, ListPending, Nack, NackMode
from headgate.engine.requests.groups import CreateConsumer, CreateGroup, GroupStart
from tests.contract.calls import ANA, BEN, G, S, filled, got, held, ids, take, taken
from tests.unit.app.backends.redis.performing.conftest import run, side

NOBODY = b"\0released"


async def released(redis: RedisBackend, *numbers: int) -> None:
    """Append entries, and let a consumer get them and give them back."""
    await filled(redis, *numbers)
    await redis.perform(take(ANA))
    await redis.perform(deliveries.Nack(S, G, ids(*numbers), deliveries.NackMode.FAIL))


async def test_an_entry_that_nobody_owns_is_shown_as_nobodys(redis: RedisBackend) -> None:
    await released(redis, 1, 2)
    assert await held(redis) == {1: None, 2: None}
    assert await redis.perform(deliveries.ListPending(S, G, consumer=NOBODY)) == []
    summary = await redis.perform(deliveries.SumPending(S, G))
    assert (summary.total, summary.consumers, summary.holder_count) == (2, [], 0)
    info = await redis.perform(groups.DescribeGroup(S, G))
    assert (info.pending_count, info.released_count, info.consumer_count) == (2, 2, 1)
    assert [each.name for each in await redis.perform(groups.ListConsumers(S, G))] == [ANA]
    assert await redis.perform(groups.DescribeConsumer(S, G, NOBODY)) is None
    assert await redis.perform(groups.DeleteConsumer(S, G, NOBODY, release=False)) is None


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
    assert await redis.perform(deliveries.Ack(S, G, ids(1), BEN)) == [Outcome.CLAIMED]


async def test_a_group_that_another_client_made_again_has_no_policy(redis: RedisBackend) -> None:
    await filled(redis, 1)
    await redis.perform(groups.UpdateGroup(S, G, policy=Patch.of(GroupPolicy, max_pending=1)))
    await run(redis, "XGROUP DESTROY", G)
    with pytest.raises(GroupNotFound):
        await redis.perform(take(ANA))
    await run(redis, "XGROUP CREATE", G, 0)
    assert (await redis.perform(groups.DescribeGroup(S, G))).policy == NO_POLICY
    await run(redis, "XADD", "2-0", "n", 2)
    assert await got(redis, take(ANA)) == [1, 2]
    created = groups.CreateGroup(S, G, groups.GroupStart(MIN_ID), policy=NO_POLICY)
    assert not (await redis.perform(created)).is_new


@pytest.mark.parametrize("field", ["epoch", "next", "trimmed", "max_length", "note"])
async def test_a_foreign_field_beside_a_policy_is_ignored(redis: RedisBackend, field: str) -> None:
    await filled(redis, 1)
    given_up = GroupPolicy(max_deliveries=3, dead_letter_stream=b".dead", backoff_ms=(100, 2_000))
    policy = structs.replace(given_up, max_pending=1)
    await redis.perform(groups.UpdateGroup(S, G, policy=Patch.to(policy)))
    await side(redis, b"group", "HSET", field, "garbage")
    assert (await redis.perform(groups.DescribeGroup(S, G))).policy == policy
    assert await got(redis, take(ANA)) == [1]


async def test_the_former_name_of_on_disconnect_goes_with_a_change(redis: RedisBackend) -> None:
    await filled(redis, 1)
    await redis.perform(groups.UpdateGroup(S, G, policy=Patch.of(GroupPolicy, max_pending=1)))
    await side(redis, b"group", "HSET", "keeps", "1")
    assert (await redis.perform(groups.DescribeGroup(S, G))).policy.on_disconnect
    changed = groups.UpdateGroup(S, G, policy=Patch.of(GroupPolicy, on_disconnect=False))
    assert not (await redis.perform(changed)).policy.on_disconnect


async def test_a_stream_that_another_client_made_again_has_no_policies(redis: RedisBackend) -> None:
    await released(redis, 1)
    await redis.perform(groups.UpdateGroup(S, G, policy=Patch.of(GroupPolicy, max_pending=1)))
    await run(redis, "DEL")
    await run(redis, "XADD", "1-0", "n", 1)
    await run(redis, "XADD", "2-0", "n", 2)
    created = await redis.perform(
        groups.CreateGroup(S, G, groups.GroupStart(MIN_ID), policy=GroupPolicy())
    )
    assert (created.is_new, created.info.policy) == (True, NO_POLICY)
    assert await got(redis, take(ANA, claim_idle_ms=0)) == [1, 2]


async def test_an_entry_that_failed_for_good_keeps_the_greatest_count(redis: RedisBackend) -> None:
    await filled(redis, 1)
    await redis.perform(take(ANA))
    await redis.perform(deliveries.Nack(S, G, ids(1), deliveries.NackMode.FATAL))
    [item] = await redis.perform(deliveries.ListPending(S, G))
    assert item.delivery_count == COUNT_MAX
    [delivery] = await taken(redis, take(BEN, claim_idle_ms=3_600_000))
    assert (delivery.delivered_before, delivery.id) == (COUNT_MAX, EntryId(1, 0))
    [item] = await redis.perform(deliveries.ListPending(S, G))
    assert item.delivery_count == COUNT_MAX
    await redis.perform(deliveries.Nack(S, G, ids(1), deliveries.NackMode.SILENT))
    [item] = await redis.perform(deliveries.ListPending(S, G))
    assert item.delivery_count == COUNT_MAX  # the numbers of Lua are not exact up there


CEM = b"cem"


async def test_what_exists_goes_on_and_nothing_more_is_made(server: Server, tmp_path: Path) -> None:
    options = ClientOptions(read_url(server.url), prefix=f"{tmp_path}:".encode())
    bounds = options.keyspace._replace(groups_max=2, consumers_max=2)
    redis = RedisBackend(options._replace(keyspace=bounds))
    running = asyncio.create_task(redis.client.run())
    await filled(redis, 1, 2, 3)
    await redis.perform(take(ANA, 1))
    await redis.perform(Nack(S, G, ids(1), NackMode.FAIL))
    assert await got(redis, take(BEN, 1)) == [2]
    for refused in (
        take(CEM),
        CreateConsumer(S, G, CEM),
        Claim(S, G, CEM, ids(1), 0),
        Autoclaim(S, G, CEM, 0),
    ):
        with pytest.raises(LimitReached, match="consumers in this group"):
            await redis.perform(refused)
    assert await got(redis, take(ANA, 1)) == [3]
    await redis.perform(CreateGroup(S, b"h", GroupStart(MIN_ID)))
    assert not (await redis.perform(CreateGroup(S, G, GroupStart(MIN_ID)))).is_new
    with pytest.raises(LimitReached, match="groups in this stream"):
        await redis.perform(CreateGroup(S, b"i", GroupStart(MIN_ID)))
    running.cancel()
    await asyncio.wait({running})


async def test_a_group_keeps_so_many_errors(redis: RedisBackend) -> None:
    await filled(redis, 1)
    await redis.perform(take(ANA))
    await redis.perform(Nack(S, G, ids(1), NackMode.FAIL))
    words = [word for number in range(ERRORS_MAX) for word in (f"0-{number + 1}", "old")]
    await side(redis, b"errors", "HSET", *words)
    await redis.perform(Nack(S, G, ids(1), NackMode.FAIL, error=b"timeout"))
    assert await side(redis, b"errors", "HLEN") == ERRORS_MAX
    [item] = await redis.perform(ListPending(S, G))
    assert item.last_error == b"timeout"
