"""The same random histories through a group and through a consumer of NATS JetStream.

`README.md` says where the two mean different things.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.aio.client import Client

from headgate.app.backends.port import Backend
from headgate.engine.config import FieldName
from tests.contract.backends import KINDS
from tests.contract.conftest import backend, url
from tests.oracles.group import GroupQueue
from tests.oracles.jetstream import JetStreamConsumer, nats_running
from tests.oracles.queue import KEYS, PausingHistory, Received

__all__ = ["backend", "url"]

PAUSE_MS = 300
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 100))]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture(params=[kind for kind in KINDS if kind.name in ("memory", "redis", "valkey")])
def kind(request: pytest.FixtureRequest) -> object:
    return request.param


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with nats_running(tmp_path / "nats") as client:
        yield client


@pytest.fixture
def pending_max() -> int | None:
    """Return how many entries may be received and not settled: the queues have one key then."""
    return None


@pytest.fixture
async def consumer(client: Client, pending_max: int | None) -> JetStreamConsumer:
    consumer = JetStreamConsumer(client, "orders", pending_max)
    await consumer.create()
    return consumer


@pytest.fixture
async def group(backend: Backend, pending_max: int | None) -> GroupQueue:
    group = GroupQueue(backend)
    rules = {"key_field": FieldName(b"key"), "key_pending_max": pending_max}
    await group.create(**rules if pending_max else {})
    return group


@pytest.mark.parametrize("pending_max", [None, 1, 3])
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_group_gives_what_a_consumer_gives(
    consumer: JetStreamConsumer, group: GroupQueue, seed: int, pending_max: int | None
) -> None:
    history = PausingHistory(seed, [consumer, group], keys="a" if pending_max else KEYS)
    await history.run()
    assert history.received_count
    assert history.pause_count


async def test_a_reader_waits_for_the_end_of_a_pause(
    consumer: JetStreamConsumer, group: GroupQueue
) -> None:
    for queue in (consumer, group):
        await queue.send("", "1")
        until_ms = now_ms() + PAUSE_MS
        await queue.pause(until_ms)
        assert await queue.receive() is None
        assert await queue.wait() == Received("", "1", 1)
        assert now_ms() >= until_ms


async def test_what_is_acknowledged_in_a_pause_does_not_come_again(
    consumer: JetStreamConsumer, group: GroupQueue
) -> None:
    for queue in (consumer, group):
        for text in "12":
            await queue.send("", text)
            assert await queue.receive() == Received("", text, 1)
        await queue.pause(now_ms() + 3_600_000)
        await queue.delete("1")
        await queue.retry("2", 0)
        assert await queue.receive() is None
        await queue.pause(None)
        assert await queue.receive() == Received("", "2", 2)
        assert await queue.receive() is None
