"""The number of commands of a group read in the server, with any number of pending entries."""

from __future__ import annotations

import asyncio

import pytest

from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.performing.group_reads import Attempt, attempt
from headgate.engine.config import FieldName, GroupPolicy
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.requests.deliveries import Claim, GroupCursor, ListPending, ReadGroup
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, GroupStart
from tests.conditions import WITHIN_S
from tests.contract.calls import ANA, BEN, G, S, got, take

HOUR_MS = 3_600_000


async def command_counts(redis: RedisBackend) -> dict[bytes, int]:
    """Return the server's count of runs of each command, in functions too."""
    [text] = await redis.client.execute_everywhere(b"INFO", b"commandstats", changes=False)
    counts = {}
    for line in text.splitlines():
        if line.startswith(b"cmdstat_"):
            name, _, facts = line.removeprefix(b"cmdstat_").partition(b":calls=")
            counts[name] = int(facts.partition(b",")[0])
    return counts


async def cost(redis: RedisBackend, request: ReadGroup) -> int:
    """Return how many commands a function runs for a read."""
    before = await command_counts(redis)
    await redis.perform(request)
    after = await command_counts(redis)
    around = (b"info", b"fcall", b"ping", b"xlen", b"client|no-evict")
    return sum(count - before.get(name, 0) for name, count in after.items() if name not in around)


async def pending(redis: RedisBackend, count: int) -> None:
    """Let a consumer hold so many entries."""
    await redis.perform(Add(S, [Draft(None, (b"n", b"1"))] * count))
    await redis.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
    for _ in range(0, count, 2_000):
        await redis.perform(take(ANA))


@pytest.mark.parametrize("count", [0, 1, 100, 20_000])
async def test_a_read_that_finds_nothing_idle_is_cheap(redis: RedisBackend, count: int) -> None:
    await pending(redis, count)
    first = await cost(redis, take(BEN, claim_idle_ms=HOUR_MS))
    assert first <= 30  # searches for the oldest delivery, in few steps
    again = await cost(redis, take(BEN, claim_idle_ms=HOUR_MS))
    assert again <= 14


async def test_a_read_of_new_entries_takes_few_commands(redis: RedisBackend) -> None:
    await pending(redis, 0)
    await redis.perform(Add(S, [Draft(None, (b"n", b"1"))] * 200))
    assert await cost(redis, take(ANA, 100)) <= 9
    assert await cost(redis, take(ANA, 100)) <= 9


async def test_a_read_looks_again_at_a_bounded_number_of_turns(redis: RedisBackend) -> None:
    keys, turns = 30, 50
    policy = GroupPolicy(key_field=FieldName(b"k"), key_pending_max=turns)
    start = GroupStart(MIN_ID)
    await redis.perform(CreateGroup(S, G, start, create_stream=True, policy=policy))
    for _ in range(turns):
        await redis.perform(Add(S, [Draft(None, (b"k", b"%d" % key)) for key in range(keys)]))
    read = ReadGroup(G, ANA, [GroupCursor(S)], keys * turns, claim_released=True)
    reads = [*await redis.perform(read), *await redis.perform(read)]
    assert sum(len(each.deliveries) for each in reads) == keys * turns
    await redis.perform(Add(S, [Draft(None, (b"k", b"%d" % key)) for key in range(keys)]))
    assert await cost(redis, read) < 2_000  # 3,700 if all were looked at


async def test_the_oldest_delivery_is_found_among_younger_ones(redis: RedisBackend) -> None:
    await pending(redis, 3_000)
    items = await redis.perform(ListPending(S, G, limit=3_000))
    for place, item in enumerate(items[::300]):  # the greater the id, the older
        await redis.perform(Claim(S, G, ANA, [item.id], 0, idle_ms=1_000 * (place + 1)))
    tried = await attempt(redis.client, take(BEN, 1, claim_idle_ms=60_000))
    assert not tried.is_served
    assert tried.claim_in_ms is not None
    assert 40_000 < tried.claim_in_ms <= 50_000


async def test_very_many_pending_entries_are_searched_in_parts(redis: RedisBackend) -> None:
    count = 45_000
    for first in range(1, count, 15_000):
        drafts = [Draft(EntryId(first + at, 0), (b"n", b"1")) for at in range(15_000)]
        await redis.perform(Add(S, drafts))
    await pending(redis, 0)
    for _ in range(0, count, 2_000):
        await redis.perform(take(ANA))
    await redis.perform(Claim(S, G, ANA, [EntryId(count, 0)], 0, idle_ms=2 * HOUR_MS))
    attempts: list[Attempt] = []
    async with asyncio.timeout(WITHIN_S):
        while not attempts or not attempts[-1].is_served:
            attempts.append(await attempt(redis.client, take(BEN, claim_idle_ms=HOUR_MS)))
    assert [each.id.ms for each in attempts[-1].reads[0].deliveries] == [count]
    assert {each.claim_in_ms for each in attempts[:-1]} == {50}
    assert await got(redis, take(BEN, claim_idle_ms=HOUR_MS)) == []
