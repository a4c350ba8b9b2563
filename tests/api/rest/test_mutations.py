"""Requests at the same time: changes that happen as a whole, and long polls."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.settings import Settings
from headgate.engine.engine import Engine
from tests.api.conftest import Live, refusal_of, running
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


async def test_entries_meant_for_a_client_that_left_go_to_the_next(live: Live) -> None:
    await live.create_group("orders", "billing")
    leaving = asyncio.create_task(live.read_group("orders", "billing", "gone", wait_ms=30_000))
    await live.until_waiting(1)
    leaving.cancel()
    [entry_id] = await live.append("orders", "42")  # perhaps before the gateway notices

    got = await live.read_group("orders", "billing", "here", wait_ms=5000)

    assert [(entry["id"], entry["deliveries"]) for entry in got["entries"]] == [(entry_id, 1)]
    await live.until_waiting(0)


async def test_a_read_that_is_refused_acknowledges_nothing() -> None:
    async with running(Settings(waiters_max=1)) as live:
        await live.create_group("orders", "billing")
        [entry_id] = await live.append("orders", "42")
        await live.read_group("orders", "billing", "c")
        waiting = asyncio.create_task(live.read_group("orders", "billing", "a", wait_ms=30_000))
        await live.until_waiting(1)

        url = "/v1/streams/orders/groups/billing/read?consumer=c"
        answer = await live.http.post(url, json={"wait_ms": 1000, "ack": [entry_id]})

        assert refusal_of(answer)[:2] == (429, "too_many_waiters")
        assert (await live.group("orders", "billing"))["pending"] == 1
        waiting.cancel()
        await live.until_waiting(0)


async def test_large_entries_come_in_answers_of_bounded_size(live: Live) -> None:
    ids = await live.append("orders", *["x" * 1_000_000] * 10)
    ids += await live.append("orders", *["x" * 1_000_000] * 10)

    answer = await live.http.get("/v1/streams/orders/entries?limit=100")
    got = [entry["id"] for entry in answer.json()["entries"]]
    second = await live.http.get(
        f"/v1/streams/orders/entries?limit=100&after={answer.json()['next_after']}"
    )

    assert 10 < len(got) < 20
    assert got + [entry["id"] for entry in second.json()["entries"]] == ids
