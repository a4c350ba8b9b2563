"""coredis, which speaks RESP3 only."""

from __future__ import annotations

import asyncio
from typing import Any

import coredis
import pytest
from coredis.exceptions import StreamDuplicateConsumerGroupError
from coredis.patterns.streams import Consumer, GroupConsumer

from tests.conditions import moment
from tests.processes.gateway import HOST, GatewayProcess


@pytest.fixture
def redis(gateway: GatewayProcess) -> Any:
    """Return a client; a test enters it itself, as its tasks belong to the task of the test."""
    return coredis.Redis(
        HOST, gateway.redis_port, decode_responses=True, client_name="coredis-test"
    )


async def test_a_group_shares_entries(redis: Any, stream: str) -> None:
    async with redis as client:
        for number in (1, 2, 3):
            await client.xadd(stream, {"n": number}, identifier=f"{number}-0")
        assert await client.xgroup_create(stream, "g", identifier="0")
        with pytest.raises(StreamDuplicateConsumerGroupError):
            await client.xgroup_create(stream, "g")
        read = await client.xreadgroup("g", "me", {stream: ">"}, count=2)
        assert [entry.identifier for entry in read[stream]] == ["1-0", "2-0"]
        assert await client.xack(stream, "g", ["1-0"]) == 1
        pending = await client.xpending(stream, "g")
        assert (pending.pending, pending.minimum_identifier) == (1, "2-0")
        about = await client.xinfo_stream(stream)
        assert (about["length"], about["last-entry"].identifier) == (3, "3-0")
        assert await client.client_getname() == "coredis-test"
        assert (await client.client_info())["resp"] == "3"
        following, claimed, deleted = await client.xautoclaim(stream, "g", "you", 0, "0")
        assert (following, [entry.identifier for entry in claimed], deleted) == ("0-0", ["2-0"], ())
        [group] = await client.xinfo_groups(stream)
        assert (group["name"], group["pending"], group["lag"]) == ("g", 1, 1)


async def test_a_consumer_goes_on_where_it_left_off(redis: Any, stream: str) -> None:
    async with redis as client:
        for number in (1, 2):
            await client.xadd(stream, {"n": number}, identifier=f"{number}-0")
        await client.xgroup_create(stream, "g", identifier="0")
        await client.xreadgroup("g", "me", {stream: ">"}, count=1)  # and dies
        async with GroupConsumer(
            client, [stream], group="g", consumer="me", start_from_backlog=True
        ) as consumer:
            entries = [await consumer.get_entry() for _ in range(3)]
        ids = [None if entry is None else entry.identifier for _, entry in entries]
        assert ids == ["1-0", "2-0", None]

        async with Consumer(client, [stream], timeout=20_000) as follower:
            following = asyncio.create_task(follower.get_entry())
            async with asyncio.timeout(20):
                while not any("b" in each["flags"] for each in await client.client_list()):
                    await moment()
                await client.xadd(stream, {"n": 3}, identifier="3-0")
                name, entry = await following
        assert entry is not None
        assert (name, entry.identifier, dict(entry.field_values)) == (stream, "3-0", {"n": "3"})
