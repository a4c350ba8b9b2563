"""A consumer of NATS JetStream, and the server that has it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig

from tests.oracles.queue import VISIBLE_S, Received
from tests.servers.programs import nats_server

START_S_MAX = 20.0
ANSWER_S_MAX = 30.0


@asynccontextmanager
async def nats_running(folder: Path) -> AsyncIterator[Client]:
    """Run a server that keeps its streams in a folder, and a client, while the context lasts."""
    words = ["--addr", "127.0.0.1", "--port", "-1", "--jetstream", "--store_dir", str(folder)]
    server = await asyncio.create_subprocess_exec(
        nats_server(), *words, stderr=asyncio.subprocess.PIPE
    )
    assert server.stderr is not None
    try:
        async with asyncio.timeout(START_S_MAX):
            log = (await server.stderr.readuntil(b"Server is ready")).decode()
        drained = asyncio.create_task(server.stderr.read())
        listening = re.search(r"Listening for client connections on (\S+)", log)
        assert listening, log
        client = await nats.connect(f"nats://{listening[1]}")
        try:
            yield client
        finally:
            await client.close()
    finally:
        server.terminate()
        await server.wait()
    await drained


def time_text(unix_ms: int) -> str:
    """Return a time as the server reads it."""
    return datetime.fromtimestamp(unix_ms / 1000, UTC).isoformat().replace("+00:00", "Z")


class JetStreamConsumer:
    """A pull consumer of a stream, with acknowledgements one by one."""

    def __init__(self, client: Client, name: str, pending_max: int | None = None) -> None:
        """Describe it.

        Args:
            client: is connected.
            name: of the stream; no other consumer has it.
            pending_max: so many messages may be received and not settled.
        """
        self._client = client
        self._api = client.jetstream()
        self._name = name
        self._pending_max = pending_max
        self._held: dict[str, Msg] = {}
        self._given_back: set[str] = set()  # to come again at once
        self._is_paused = False
        self._last_sequence = 0

    async def create(self) -> None:
        """Create the stream and the consumer."""
        await self._api.add_stream(StreamConfig(self._name, subjects=[f"{self._name}.>"]))
        consumer = ConsumerConfig(
            durable_name="billing",
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=VISIBLE_S,
            max_ack_pending=self._pending_max,
            filter_subject=f"{self._name}.in",
        )
        await self._api.add_consumer(self._name, consumer)

    async def pause(self, until_ms: int | None) -> None:
        """Pause the consumer, or let it go on."""
        self._is_paused = until_ms is not None
        until = time_text(until_ms or 0)
        await self._api.pause_consumer(self._name, "billing", until)

    async def send(self, key: str, text: str) -> None:
        sent = await self._api.publish(f"{self._name}.in", f"{key}:{text}".encode())
        self._last_sequence = sent.seq

    async def receive(self) -> Received | None:
        async with asyncio.timeout(ANSWER_S_MAX):
            while True:
                if self._pending_max is not None and not self._given_back:
                    info = await self._api.consumer_info(self._name, "billing")
                    if info.num_ack_pending == self._pending_max:
                        return None  # a request would wait, in spite of `no_wait`
                received = await self._next({"no_wait": True})
                if received is not None or not await self._has_more():
                    return received

    async def _has_more(self) -> bool:
        """Tell whether a message comes in a moment: the server tells the consumer by and by."""
        if self._is_paused:
            return False
        info = await self._api.consumer_info(self._name, "billing")
        is_full = self._pending_max is not None and info.num_ack_pending == self._pending_max
        assert info.delivered is not None
        is_behind = info.delivered.stream_seq < self._last_sequence  # `num_pending` knows it later
        return bool(self._given_back) or (is_behind and not is_full)

    async def wait(self) -> Received:
        """Return the next message, once there is one."""
        received = await self._next({"expires": int(ANSWER_S_MAX * 1e9)})
        assert received is not None
        return received

    async def _next(self, how: Mapping[str, object]) -> Received | None:
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._name}.billing"
        request = json.dumps({"batch": 1, **how}).encode()
        # A message keeps its own subject, by which an answer is not known.
        message = await self._client.request(subject, request, timeout=ANSWER_S_MAX, old_style=True)
        if message.headers and "Status" in message.headers:
            assert message.headers["Status"] in ("404", "408"), message.headers
            return None
        key, _, text = message.data.decode().partition(":")
        self._held[text] = message
        self._given_back.discard(text)
        return Received(key, text, message.metadata.num_delivered)

    async def delete(self, text: str) -> None:
        self._given_back.discard(text)
        await self._answer(text, b"+ACK")

    async def hold_on(self, text: str) -> None:
        await self._answer(text, b"+WPI")

    async def retry(self, text: str, delay_s: int) -> None:
        self._given_back.discard(text)
        if not delay_s:
            self._given_back.add(text)
        delay = json.dumps({"delay": delay_s * 10**9}) if delay_s else ""
        await self._answer(text, f"-NAK {delay}".strip().encode())

    async def _answer(self, text: str, answer: bytes) -> None:
        """Send the answer to a message, and return once the server knows it."""
        await self._client.request(self._held[text].reply, answer, timeout=ANSWER_S_MAX)

    async def dead_letters(self) -> list[tuple[str, str]]:
        return []  # without `max_deliver` there are none
