"""Periodic work of the gateway goes on after a failure, and says once that it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from headgate.app.auth.key_ring import KeyWatch
from headgate.app.backends.redis.durability import Durability
from headgate.app.backends.redis.faults import Lost
from headgate.app.backends.redis.keys import KeyNames
from headgate.app.backends.redis.node import Node
from headgate.app.backends.redis.waiting.wait_queues import QueuedRead, WaitQueues
from headgate.app.runtime import periodic
from headgate.app.runtime.telemetry import Collected
from headgate.engine.loop.wait_queue import QueueKey
from tests.conditions import WITHIN_S
from tests.failures import FAILURES, each_failure
from tests.virtual_time import in_virtual_time, settle

_FAILED, _AGAIN = "periodic work has failed and is retried", "periodic work succeeds again"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    # `message` is there only if a handler has formatted the line, which another test may change.
    texts = [line.getMessage() for line in caplog.records]
    return [text for text in texts if text.startswith("periodic work")]


@each_failure
@pytest.mark.parametrize("times", [1, 20])
@in_virtual_time
async def test_the_work_goes_on(
    times: int, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    left, done = times, asyncio.Event()

    async def work() -> None:
        nonlocal left
        if left:
            left -= 1
            raise failure
        done.set()
        await asyncio.sleep(1)

    running = asyncio.create_task(periodic.repeat("work", work))
    await done.wait()
    await asyncio.sleep(2)
    running.cancel()
    await asyncio.wait([running])
    failed, *after = lines(caplog)
    assert (failed, after[-1]) == (_FAILED, _AGAIN)
    assert len(after) <= 3, "a line of each kind of failure for each work"


def families() -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(Collected(periodic.failure_families))
    return {
        sample.labels["work"]: sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "headgate_periodic_failures_total"
    }


def test_failures_are_logged_once_and_counted_all(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    note = periodic.watch("work of a test")
    before = families().get("work of a test", 0)

    for _ in range(50):
        for failure in FAILURES:
            note(failure)
        note(None)

    assert families()["work of a test"] == before + 200
    assert len(lines(caplog)) == len(FAILURES) + 1
    first = caplog.records[0]
    assert (first.levelname, first.work) == ("ERROR", "work of a test")  # type: ignore[attr-defined]
    assert first.reason == "OSError: [Errno 24] Too many open files"  # type: ignore[attr-defined]


# What needs more than one call to fail.


@each_failure
async def test_who_asks_a_server_hears_of_a_failure_and_the_next_one_is_answered(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(lambda: None, Durability(), 1.0)  # type: ignore[arg-type, return-value]
    running = asyncio.create_task(node.run())
    replies: Iterator[Exception | list[Any]] = iter([failure, [b"PONG"]])

    async def exchange(packed: bytes, count: int) -> list[Any]:
        reply = next(replies)
        if isinstance(reply, Exception):
            raise reply
        return reply

    monkeypatch.setattr(node, "_exchange", exchange)
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(Lost):
            await node.ask((b"PING",), changes=False)
        assert await node.ask((b"PING",), changes=False) == b"PONG"
    running.cancel()
    await asyncio.wait([running])


@each_failure
@in_virtual_time
async def test_a_blocked_read_is_served_although_its_queue_has_failed(failure: Exception) -> None:
    queues = WaitQueues(KeyNames(b"headgate:"), 10, lambda: True)
    running = asyncio.create_task(queues.run())
    await settle()
    key, left = QueueKey(b"orders", b"billing"), 3

    async def attempt() -> list[int]:
        return [1]

    class Read(QueuedRead[list[int] | None]):
        """Fails when it is given what it has got."""

        def give(self, outcome: Any) -> None:
            nonlocal left
            if left:
                left -= 1
                raise failure
            super().give(outcome)

    read = Read([key], None, attempt, lambda _: None)
    with queues.watching([key]) as watch:
        waiting = asyncio.create_task(queues.block(read, None, watch))
        await settle()
        queues.signal(key)
        async with asyncio.timeout(3600):
            assert await waiting == [1]
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])


async def test_an_expired_key_ends_although_its_file_cannot_be_looked_at(tmp_path: Path) -> None:
    watch = KeyWatch(tmp_path / "keys.json", data_dir=tmp_path, now_ms=lambda: 1)
    ended = asyncio.Event()

    async def look() -> None:
        raise RuntimeError("can't start new thread")

    watch._file.look = look  # type: ignore[method-assign]
    watch.ring.end_expired = lambda _: ended.set()  # type: ignore[method-assign, assignment]
    running = asyncio.create_task(watch.run())
    async with asyncio.timeout(WITHIN_S):
        await ended.wait()
    running.cancel()
    await asyncio.wait([running])
