"""A consumer whose worker has lost the engine, while others took over its entries."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from headgate.app.backends.embedded import EmbeddedBackend, EmbeddedOptions, open_embedded
from headgate.app.backends.remote.backend import RemoteBackend
from headgate.app.backends.remote.server import EngineServer
from headgate.app.settings import Settings
from headgate.engine.entry import EntryId
from headgate.engine.requests.deliveries import Ack, Claim
from tests.api.conftest import running
from tests.api.live.frames import frames_of
from tests.behind_socket import listening, options_of
from tests.conditions import until
from tests.running import running as keeping_running

NAMES = b"orders", b"billing"


async def test_takeovers_while_the_engine_was_away_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headgate.app.live.group_subscription._PENDING_PAGE", 2)
    engine = await asyncio.to_thread(open_embedded, EmbeddedOptions(None))
    async with keeping_running(engine), AsyncExitStack() as serving:
        place = listening()
        sock = await asyncio.to_thread(place.__enter__)
        serving.push_async_callback(asyncio.to_thread, place.__exit__, None, None, None)
        cut = await serving.enter_async_context(served_at(sock, engine))
        backend = await asyncio.to_thread(RemoteBackend, options_of(engine, sock))
        async with running(Settings(), backend) as live, frames_of(live, "/v1/ws") as frames:
            await live.create_group("orders", "billing")
            await frames.subscribe("jobs", group="billing", consumer="me")
            ids = await live.append("orders", *"0123456789")
            assert await frames.ids(10) == ids
            entry_ids = [EntryId.parse(entry_id) for entry_id in ids]

            await cut()
            await until(lambda: backend.refusal is not None)
            await engine.perform(Claim(*NAMES, b"ben", entry_ids[1:4], 0))
            await engine.perform(Claim(*NAMES, b"cem", entry_ids[8:9], 0))
            await engine.perform(Ack(*NAMES, entry_ids[5:6]))
            await serving.enter_async_context(served_at(sock, engine))
            reported: dict[str, list[str]] = {}
            async with asyncio.timeout(20):
                while len(reported) < 2:
                    frame = await frames.any()
                    if frame["type"] == "claimed":
                        reported[frame["by"]] = frame["ids"]
    assert reported == {"ben": ids[1:4], "cem": ids[8:9]}


@asynccontextmanager
async def served_at(
    sock: socket.socket, engine: EmbeddedBackend
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Serve an engine at a socket; what is yielded cuts all its connections."""
    serving = asyncio.create_task(EngineServer(engine).run(sock))

    async def cut() -> None:
        serving.cancel()
        await asyncio.wait({serving})

    try:
        yield cut
    finally:
        await cut()
