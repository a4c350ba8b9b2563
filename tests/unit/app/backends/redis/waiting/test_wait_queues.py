"""Blocked reads: they are run again while their time ends, and hear of servers that are away."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from headgate.app.backends.redis.address import Address, read_url
from headgate.app.backends.redis.client import ClientOptions
from headgate.app.backends.redis.keys import KeyNames
from headgate.app.backends.redis.waiting.wait_queues import QueuedRead, WaitQueues
from headgate.app.backends.redis.waiting.wake_ups import WakeUps
from headgate.engine.loop.wait_queue import QueueKey
from tests.conditions import WITHIN_S

KEY = QueueKey(b"orders", b"billing")


class CoarseLoop(asyncio.SelectorEventLoop):
    """Makes no timer for calls due within a millisecond, as uvloop, which rounds times."""

    def call_at(self, when: float, *call: Any, **context: Any) -> Any:  # type: ignore[override]
        is_now = when - self.time() <= 0.001
        return (self.call_soon if is_now else partial(super().call_at, when))(*call, **context)


@pytest.fixture
async def queues() -> AsyncIterator[WaitQueues]:
    queues = WaitQueues(KeyNames(b"headgate:"), 10, lambda: True)
    serving = asyncio.create_task(queues.run())
    await asyncio.sleep(0)
    yield queues
    serving.cancel()
    await asyncio.wait({serving})


@pytest.mark.parametrize("brought", [None, [1, 2]])
async def test_a_late_reply_is_the_reply(queues: WaitQueues, brought: list[int] | None) -> None:
    returned: list[list[int] | None] = []
    has_begun, is_over = asyncio.Event(), asyncio.Event()

    async def attempt() -> list[int] | None:
        has_begun.set()
        await is_over.wait()
        return brought

    read: QueuedRead[list[int] | None] = QueuedRead([KEY], None, attempt, returned.append)
    with queues.watching([KEY]) as watch:
        waiting = asyncio.create_task(queues.block(read, None, watch))
        await asyncio.sleep(0)
        queues.signal(KEY)
        await has_begun.wait()
        read.expire()
        is_over.set()
        assert await waiting == brought
    assert returned == []  # the servers might not be able to take it back
    assert len(queues) == 0


def test_what_becomes_claimable_twice_at_once_is_read() -> None:
    async def scenario() -> list[int] | None:
        claimable: list[int] = []

        async def attempt() -> list[int] | None:
            return claimable or None

        queues = WaitQueues(KeyNames(b"headgate:"), 10, lambda: True)
        serving = asyncio.create_task(queues.run())
        await asyncio.sleep(0)
        read: QueuedRead[list[int] | None] = QueuedRead([KEY], None, attempt, lambda _: None)
        with queues.watching([KEY]) as watch:
            waiting = asyncio.create_task(queues.block(read, None, watch))
            await asyncio.sleep(0)
            claimable.append(1)
            for _ in range(2):
                queues.due_in(KEY, 1)
            returned = await waiting
        serving.cancel()
        await asyncio.wait({serving})
        return returned

    with asyncio.Runner(loop_factory=CoarseLoop) as runner:
        assert runner.run(scenario()) == [1]


async def test_a_server_that_cannot_be_heard_is_told_of() -> None:
    # A gateway in which all reads block sends nothing over which it could notice.
    is_lost = asyncio.Event()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # does not listen
        port = silent.getsockname()[1]
        options = ClientOptions(read_url(f"redis://127.0.0.1:{port}"))
        wake_ups = WakeUps(options, [b"p"], print, print, on_lost=is_lost.set)
        wake_ups.follow([Address("127.0.0.1", port)])
        running = asyncio.create_task(wake_ups.run())
        async with asyncio.timeout(WITHIN_S):
            await is_lost.wait()
        running.cancel()
        await asyncio.wait({running})
