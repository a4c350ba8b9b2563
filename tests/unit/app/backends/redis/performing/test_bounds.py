"""Bounds of groups and consumers; the consumer of released entries does not count."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from deploy.local_cluster.server import Server
from headgate.app.backends.redis.address import read_url
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.client import ClientOptions
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import LimitReached
from headgate.engine.limits import ERRORS_MAX
from headgate.engine.requests.deliveries import Autoclaim, Claim, ListPending, Nack, NackMode
from headgate.engine.requests.groups import CreateConsumer, CreateGroup, GroupStart
from tests.contract.calls import ANA, BEN, G, S, filled, got, ids, take
from tests.unit.app.backends.redis.performing.conftest import side

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
