"""Wake-ups: what happens when a server cannot be heard."""

from __future__ import annotations

import asyncio
import socket

from headgate.app.backends.redis.address import Address, read_url
from headgate.app.backends.redis.client import ClientOptions
from headgate.app.backends.redis.waiting.wake_ups import WakeUps

HOST = "127.0.0.1"


def ignore(*_: object) -> None:
    pass


async def test_a_server_that_cannot_be_heard_is_told_of() -> None:
    # A gateway in which all reads block sends nothing over which it could notice.
    is_lost = asyncio.Event()
    with socket.socket() as silent:
        silent.bind((HOST, 0))  # does not listen
        port = silent.getsockname()[1]
        options = ClientOptions(read_url(f"redis://{HOST}:{port}"))
        wake_ups = WakeUps(options, [b"headgate:"], ignore, ignore, on_lost=is_lost.set)
        wake_ups.follow([Address(HOST, port)])
        running = asyncio.create_task(wake_ups.run())
        async with asyncio.timeout(10):
            await is_lost.wait()
        running.cancel()
        await asyncio.wait({running})
