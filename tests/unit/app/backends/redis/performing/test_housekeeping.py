"""Expired entries, failed entries and absent consumers are removed without a request."""

from __future__ import annotations

from typing import Any

from redis.crc import key_slot

from headgate.app.backends.redis.backend import PERFORMERS, RedisBackend, perform_together
from headgate.app.backends.redis.performing.housekeeping import Housekeeper
from headgate.app.backends.redis.performing.streams import execute_at_index
from headgate.engine.config import GroupPolicy, Patch
from headgate.engine.entry import MIN_ID
from headgate.engine.requests import Request, groups
from headgate.engine.requests.deliveries import SumPending
from headgate.engine.requests.entries import Add
from headgate.engine.requests.keyspace import RenameStream
from tests.conditions import eventually
from tests.contract.calls import ANA, BEN, G, S, drafts, held, numbers, take
from tests.unit.app.backends.redis.performing.conftest import side

DEAD = b"orders-dead"


async def is_relayed(redis: RedisBackend) -> bool:
    return bool(await side(redis, b"outbox", "XLEN") == 0)


async def governed(redis: RedisBackend, policy: GroupPolicy, *numbers: int) -> None:
    await redis.perform(Add(S, drafts(*numbers)))
    await redis.perform(groups.CreateGroup(S, G, groups.GroupStart(MIN_ID), policy=policy))


async def test_what_failed_too_often_becomes_a_dead_letter(redis: RedisBackend) -> None:
    once = GroupPolicy(max_deliveries=1, dead_letter_stream=DEAD, claim_idle_ms=10)
    await governed(redis, once, *range(1, 121))
    await redis.perform(take(ANA))
    await eventually(lambda: redis.perform(SumPending(S, G)), lambda summary: not summary.total)
    await eventually(lambda: is_relayed(redis), bool)
    assert len(await numbers(redis, DEAD)) == 120


async def test_consumers_that_stay_away_go(redis: RedisBackend) -> None:
    await governed(redis, GroupPolicy(consumer_ttl_ms=1), 1)
    await redis.perform(take(ANA))
    await redis.perform(groups.CreateConsumer(S, G, BEN))
    await eventually(
        lambda: redis.perform(groups.ListConsumers(S, G)),
        lambda consumers: [each.name for each in consumers] == [ANA],
    )
    assert await held(redis) == {1: ANA}


async def test_one_gateway_does_it_for_all(quiet: RedisBackend) -> None:
    await governed(quiet, GroupPolicy(consumer_ttl_ms=3_600_000), 1)
    first, other = Housekeeper(quiet.client), Housekeeper(quiet.client)
    assert await first.round()
    assert not await other.round()
    assert await first.round()
    key = quiet.client.names.side_index(b"housekeeping")
    await quiet.client.execute_together(key_slot(key), [[b"DEL", key]], changes=True)
    assert await other.round()


async def test_a_stream_that_needs_nothing_leaves_the_index(quiet: RedisBackend) -> None:
    await governed(quiet, GroupPolicy(consumer_ttl_ms=3_600_000), 1)
    housekeeper = Housekeeper(quiet.client, needless_rounds=2)
    for _ in range(3):
        await housekeeper.round()
    assert await execute_at_index(quiet.client, b"SMEMBERS") == [S]
    await quiet.perform(
        groups.UpdateGroup(S, G, policy=Patch.of(GroupPolicy, consumer_ttl_ms=None))
    )
    for _ in range(2):
        assert await execute_at_index(quiet.client, b"SMEMBERS") == [S]
        await housekeeper.round()
    assert await execute_at_index(quiet.client, b"SMEMBERS") == []


async def test_a_stream_that_is_renamed_is_kept_under_its_new_name(quiet: RedisBackend) -> None:
    await governed(quiet, GroupPolicy(consumer_ttl_ms=1), 1)
    await quiet.perform(groups.CreateConsumer(S, G, BEN))
    for step in (RenameStream(S, b"between"), RenameStream(b"between", b"renamed")):
        request: Request[Any] = step  # also in a transaction, which is at one slot
        rename = PERFORMERS[RenameStream].perform
        assert await perform_together(quiet.client, rename, [request]) == [True]
    housekeeper = Housekeeper(quiet.client)

    async def is_empty() -> bool:
        await housekeeper.round()
        return await quiet.perform(groups.ListConsumers(b"renamed", G)) == []

    await eventually(is_empty, bool)
