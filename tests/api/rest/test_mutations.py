"""Mutations: a change happens as a whole or not at all, whoever else asks at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.settings import Settings
from headgate.engine.engine import Engine
from tests.api.conftest import Live, running
from tests.conditions import moment, until
from tests.journals.slow_storage import SlowStorage

ORDERS = "/v1/streams/orders"
BILLING = f"{ORDERS}/groups/billing"


@dataclass
class Slow:
    """A gateway whose disk takes its time, with a stream and a group."""

    live: Live
    storage: SlowStorage

    async def at_once(self, *asks: Coroutine[Any, Any, httpx.Response]) -> list[httpx.Response]:
        """Ask in this order; what comes first waits for the disk until all have been asked."""
        tasks: list[asyncio.Task[httpx.Response]] = []
        for ask in asks:
            tasks.append(asyncio.create_task(ask))
            await until(lambda: self.storage.waiting_count == len(tasks))
        while not all(task.done() for task in tasks):
            self.storage.settle()
            await moment()
        return [task.result() for task in tasks]


@pytest.fixture
async def slow() -> AsyncIterator[Slow]:
    storage = SlowStorage()
    backend = await asyncio.to_thread(EmbeddedBackend, Engine(storage))  # it reads a version
    async with running(Settings(), backend) as live:
        slowed = Slow(live, storage)
        await slowed.at_once(live.http.put(ORDERS))
        await slowed.at_once(live.http.put(BILLING, json={"start": "0"}))
        yield slowed
        storage.settle()


@pytest.mark.parametrize("path", [ORDERS, BILLING])
async def test_two_patches_at_once_both_count(slow: Slow, path: str) -> None:
    http = slow.live.http
    entry = {"fields": {"n": "1"}}
    first: dict[str, Any] = {"max_length": 5}
    second: dict[str, Any] = {"max_age_ms": 60_000}
    if path == BILLING:
        first, second = {"policy": {"max_pending": 5}}, {"policy": {"claim_idle_ms": 100}}
    await slow.at_once(
        http.post(f"{ORDERS}/entries", json=entry),
        http.patch(path, json=first),
        http.patch(path, json=second),
    )
    config = (await slow.live.stream("orders"))["config"]
    policy = (await slow.live.group("orders", "billing"))["policy"]
    if path == BILLING:
        assert policy == {"max_pending": 5, "claim_idle_ms": 100}
    else:
        assert (config["max_length"], config["max_age_ms"]) == (5, 60_000)


@pytest.mark.parametrize("path", [ORDERS.replace("orders", "new"), f"{BILLING}/consumers/me"])
async def test_what_was_created_is_answered_though_it_is_gone(slow: Slow, path: str) -> None:
    http = slow.live.http

    created, deleted = await slow.at_once(http.put(path), http.delete(path))

    assert created.status_code == 201
    assert deleted.is_success
    assert created.json()["name"] == path.rpartition("/")[2]
