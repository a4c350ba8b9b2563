"""Clients that leave at the worst moment, an engine that does, and lines that come whole."""

import asyncio
import gc
import json
import logging
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from headgate.app.backends.embedded import EmbeddedBackend, EmbeddedOptions, open_embedded
from headgate.app.backends.remote.backend import RemoteBackend
from headgate.app.backends.remote.server import EngineServer
from headgate.app.live.connection import Connection
from headgate.app.settings import Settings
from headgate.app.transport.intake import Socket
from headgate.engine.entry import EntryId
from headgate.engine.requests.deliveries import Ack, Claim
from headgate.engine.requests.streams import DeleteStream
from tests.api.conftest import Live, running
from tests.api.live.frames import frames_of
from tests.behind_socket import listening, options_of
from tests.complaints import complaints
from tests.conditions import WITHIN_S, until
from tests.running import running as keeping_running


class Client:
    """A client without a network: what it says is there at once."""

    def __init__(self, live: Live) -> None:
        self.frames: list[dict[str, Any]] = []  # what was heard
        self._incoming: asyncio.Queue[Any] = asyncio.Queue()
        self._has_heard = asyncio.Event()
        socket = Socket({"type": "websocket", "headers": []}, self._incoming.get, self._hear)
        self._incoming.put_nowait({"type": "websocket.connect"})
        self.serving = asyncio.create_task(self._serve(socket, live))

    def say(self, **frame: Any) -> None:
        self._incoming.put_nowait({"type": "websocket.receive", "text": json.dumps(frame)})

    def has(self, kind: str) -> bool:
        return any(frame["type"] == kind for frame in self.frames)

    async def hear(self) -> None:
        """Wait for a frame."""
        self._has_heard.clear()
        async with asyncio.timeout(WITHIN_S):
            await self._has_heard.wait()

    async def heard(self, kind: str) -> None:
        while not self.has(kind):
            await self.hear()

    def hang_up(self) -> None:
        self._incoming.put_nowait({"type": "websocket.disconnect", "code": 1006})

    async def leave(self) -> None:
        self.hang_up()
        await self.serving

    async def _serve(self, socket: Socket, live: Live) -> None:
        await socket.accept()
        await Connection(socket, live.gateway, None).serve()

    async def _hear(self, message: Any) -> None:
        if message["type"] == "websocket.send":
            self.frames.append(json.loads(message["text"]))
        elif message["type"] == "websocket.close":
            self.frames.append({"type": "close", "code": message["code"]})
        self._has_heard.set()


async def test_a_client_may_leave_at_the_moment_its_entries_are_taken_over(live: Live) -> None:
    await live.create_group("orders", "billing")
    [entry_id] = await live.append("orders", "a")
    client = Client(live)
    client.say(type="subscribe", sub="1", stream="orders", group="billing", consumer="first")
    await client.heard("entries")

    client.hang_up()
    await asyncio.sleep(0)  # it is noticed; the conversation ends with the next turn of the loop
    ms, seq = map(int, entry_id.split("-"))
    claim = Claim(b"orders", b"billing", b"second", [EntryId(ms, seq)], 0)
    await live.gateway.backend.perform(claim)
    await client.serving

    gc.collect()  # a coroutine that never began would be warned of, which is an error
    pending = await live.http.get("/v1/streams/orders/groups/billing/pending")
    assert [entry["consumer"] for entry in pending.json()["pending"]] == ["second"]


@pytest.mark.parametrize(
    ("source", "frame", "answer"),
    [
        ({}, {"type": "credit", "sub": "1", "entries": 5}, None),
        ({}, {"type": "unsubscribe", "rid": "r", "sub": "1"}, "unsubscribed"),
        ({"group": "billing"}, {"type": "ack", "rid": "r", "sub": "1", "ids": ["1-0"]}, "problem"),
    ],
)
async def test_a_subscription_may_end_while_a_frame_about_it_waits_for_an_append(
    live: Live, source: dict[str, str], frame: dict[str, Any], answer: str | None
) -> None:
    await live.create_group("orders", "billing")
    client = Client(live)
    client.say(type="subscribe", sub="1", stream="orders", **source)
    await client.heard("subscribed")
    await live.until_waiting(1)

    client.say(type="append", stream="others", entries=[{"fields": {"v": "1"}}])
    client.say(**frame)
    await live.gateway.backend.perform(DeleteStream(b"orders"))
    client.say(type="ping", rid="still here")

    while not client.has("pong"):
        await client.hear()
    answers = [frame["type"] for frame in client.frames if frame.get("rid") == "r"]
    assert answers == ([] if answer is None else [answer])
    assert client.has("appended")
    await client.leave()


async def test_what_was_answered_last_is_sent_before_the_end(live: Live) -> None:
    client = Client(live)
    for number in range(1001):
        client.say(type="nonsense", rid=str(number))

    await client.serving

    refused = [frame["rid"] for frame in client.frames if "rid" in frame]
    assert refused == [str(number) for number in range(1001)]


COUNT = 200
HANDSHAKE = (
    b"GET /v1/streams/orders/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
RESET = struct.pack("ii", 1, 0)


async def test_many_who_go_before_it_is_over_are_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async with running(Settings()) as live:
        await live.append("orders", "1")
        place = urlsplit(live.url)
        caplog.clear()
        peers = [socket.create_connection((place.hostname, place.port)) for _ in range(COUNT)]
        await until(lambda: live.gateway.sockets.count() >= COUNT)
        for peer in peers:
            peer.sendall(HANDSHAKE)
        await asyncio.sleep(0)  # the handshakes are read, and nobody is answered yet
        for peer in peers:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            peer.close()
        await until(lambda: live.gateway.sockets.count() <= 1)
    assert complaints(caplog, logging.ERROR) == []


PLACE = b"orders", b"billing"


async def test_takeovers_while_the_engine_was_away_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headgate.app.live.held_entries.PENDING_PAGE", 2)
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
            await engine.perform(Claim(*PLACE, b"ben", entry_ids[1:4], 0))
            await engine.perform(Claim(*PLACE, b"cem", entry_ids[8:9], 0))
            await engine.perform(Ack(*PLACE, entry_ids[5:6]))
            await serving.enter_async_context(served_at(sock, engine))
            reported: dict[str, list[str]] = {}
            async with asyncio.timeout(WITHIN_S):
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


VALUE = "a\u0085b\u2028c\u2029d"
EVENTS, NDJSON = {"Accept": "text/event-stream"}, {"Accept": "application/x-ndjson"}


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("/v1/streams/orders/entries", NDJSON),
        ("/v1/streams/orders/entries?after=0", NDJSON),
        ("/v1/streams/orders/events?after=0", EVENTS),
        ("/v1/events?match=ord*&after=0", EVENTS),
        ("/v1/streams/orders/groups/billing/events", EVENTS),
        ("/v1/stream/chat?offset=-1&live=sse", EVENTS),
    ],
)
async def test_no_character_but_a_line_end_ends_a_line(
    live: Live, url: str, headers: dict[str, str]
) -> None:
    await live.create_group("orders", "billing")
    await live.append("orders", VALUE)
    sent = json.dumps({"v": VALUE}, ensure_ascii=False).encode()
    json_type = {"Content-Type": "application/json"}
    await live.http.put("/v1/stream/chat", content=b"[%b]" % sent, headers=json_type)

    async with (
        httpx.AsyncClient(base_url=live.url, timeout=10) as http,
        http.stream("GET", url, headers=headers) as answer,
    ):
        async for line in answer.aiter_lines():
            if '"v"' in line:
                break
    item = json.loads(line.removeprefix("data:"))
    assert (item[0] if isinstance(item, list) else item["fields"])["v"] == VALUE
