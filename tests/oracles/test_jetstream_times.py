"""Delays and deadlines of entries, beside schedules and lives of messages of NATS JetStream.

NATS looks for what is due four times a second, and a message lives for whole seconds. So the times
here are further apart than that.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.oracles.jetstream import JetStreamConsumer, nats_running, time_text
from tests.oracles.queue import Received
from tests.processes.gateway import Gateway, no_gateway_left

__all__ = ["no_gateway_left"]

STREAM = "/v1/streams/orders"
GROUP = f"{STREAM}/groups/billing"
APART_MS = 400
TTL_S, PAUSE_MS = 1, 2_500


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class HttpGroup:
    """A group of a gateway, asked over HTTP."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._ids: dict[str, str] = {}

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer of the gateway."""
        answer = await self._http.request(method, path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    async def create(self) -> None:
        await self.ask("PUT", GROUP, {"start": "0", "create_stream": True})

    async def pause(self, until_ms: int) -> None:
        await self.ask("PATCH", GROUP, {"policy": {"paused_until_ms": until_ms}})

    async def send(self, text: str, **times: int) -> None:
        """Append an entry, with when it is delivered and until when."""
        await self.ask("POST", f"{STREAM}/entries", {"fields": {"text": text}, **times})

    async def send_later(self, text: str, due_ms: int) -> None:
        await self.send(text, deliver_at_ms=due_ms)

    async def send_shortly(self, text: str) -> None:
        await self.send(text, ttl_ms=TTL_S * 1000)

    async def receive(self, wait_ms: int = 0) -> Received | None:
        read = await self.ask("POST", f"{GROUP}/read?consumer=me", {"limit": 1, "wait_ms": wait_ms})
        for entry in read["entries"]:
            text = entry["fields"]["text"]
            self._ids[text] = entry["id"]
            return Received("", text, entry["deliveries"])
        return None

    async def wait(self) -> Received | None:
        return await self.receive(20_000)

    async def retry(self, text: str) -> None:
        await self.ask("POST", f"{GROUP}/nack?consumer=me", {"ids": [self._ids[text]]})

    async def lengths(self) -> tuple[int, int]:
        """Return the number of all entries, and of those that are not settled."""
        group = await self.ask("GET", GROUP)
        length = (await self.ask("GET", STREAM))["length"]
        return length, group["pending"] + group["lag"]


class JetStream(JetStreamConsumer):
    """A consumer whose messages may come later, and may live for a time."""

    async def send_later(self, text: str, due_ms: int) -> None:
        """Publish a schedule; what it makes when it is due is for the consumer."""
        headers = {
            "Nats-Schedule": f"@at {time_text(due_ms)}",
            "Nats-Schedule-Target": f"{self._name}.in",
        }
        await self.publish(f"later.{text}", f":{text}", headers)

    async def send_shortly(self, text: str) -> None:
        """Publish a message that lives for a time."""
        await self.publish("in", f":{text}", {"Nats-TTL": f"{TTL_S}s"})


@pytest.fixture
async def consumer(tmp_path: Path) -> AsyncIterator[JetStream]:
    async with nats_running(tmp_path / "nats") as client:
        consumer = JetStream(client, "orders")
        await consumer.create()
        yield consumer


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[HttpGroup]:
    gateway = await Gateway.start(tmp_path / "data")
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        group = HttpGroup(http)
        await group.create()
        yield group
    await gateway.stop()


async def test_entries_come_in_the_order_in_which_they_are_due(
    consumer: JetStream, group: HttpGroup
) -> None:
    for queue in (consumer, group):
        begin_ms = now_ms() + APART_MS
        for number in (3, 1, 2, 0):
            await queue.send_later(str(number), begin_ms + number * APART_MS)
        for number in range(4):
            assert await queue.wait() == Received("", str(number), 1)
            assert now_ms() >= begin_ms + number * APART_MS


async def test_an_entry_is_passed_by_until_it_is_due(consumer: JetStream, group: HttpGroup) -> None:
    due_ms = now_ms() + 3 * APART_MS
    await consumer.send_later("later", due_ms)
    await group.send_later("later", due_ms)
    await consumer.send("", "now")
    await group.send("now")
    for queue in (consumer, group):
        assert await queue.receive() == Received("", "now", 1)
    for queue in (consumer, group):
        assert await queue.wait() == Received("", "later", 1)
        assert now_ms() >= due_ms


async def test_an_entry_that_is_due_comes_at_once(consumer: JetStream, group: HttpGroup) -> None:
    for queue in (consumer, group):
        await queue.send_later("1", now_ms() - APART_MS)
        assert await queue.wait() == Received("", "1", 1)


async def test_an_entry_does_not_come_after_its_deadline(
    consumer: JetStream, group: HttpGroup
) -> None:
    for queue in (consumer, group):
        await queue.send_shortly("given back")
        assert await queue.receive() == Received("", "given back", 1)
        await queue.pause(now_ms() + PAUSE_MS)
        await queue.send_shortly("never seen")
    await consumer.retry("given back", 0)
    await group.retry("given back")
    await consumer.send("", "other")
    await group.send("other")
    for queue in (consumer, group):
        assert await queue.wait() == Received("", "other", 1)
        assert await queue.receive() is None


# Where they differ


async def test_the_log_has_an_entry_from_its_append_and_after_its_deadline(
    consumer: JetStream, group: HttpGroup
) -> None:
    await consumer.send_shortly("1")
    await group.send_shortly("1")
    for queue in (consumer, group):
        await queue.pause(now_ms() + PAUSE_MS)
    await consumer.send("", "2")
    await group.send("2")
    for queue in (consumer, group):
        assert await queue.wait() == Received("", "2", 1)
    assert await consumer.message_count() == 1
    assert await group.lengths() == (2, 1)
    await group.send_later("3", now_ms() + 3_600_000)
    assert (await group.lengths())[0] == 3
