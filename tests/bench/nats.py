"""Durable publishing beside NATS JetStream, which keeps its stream in files as well.

NATS is asked in its own protocol, by a client as plain as that of HTTP: what the client costs takes
nothing from the servers, which have a core to themselves.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deploy.local_cluster.server import free_ports
from tests.bench.consume import GROUPS, prepare, read_and_acknowledge
from tests.bench.figures import Figure
from tests.bench.gateway import BODY, SINGLE, batches
from tests.bench.load import Load
from tests.bench.servers import running, serving

ROUNDS = 3
SECONDS = 2.0
BATCH = 100
ENTRIES = 200_000
AHEAD = 1_000
"""Entries that a consumer has not acknowledged, at most."""

_LINES = batches(BATCH)

_POLICIES = {
    "every write synced": ("always", "sync_interval: always"),
    "as they come": ("everysec", ""),
}
"""Our `fsync`, and the setting of NATS."""


async def measure() -> list[Figure]:
    """Return entries that are acknowledged in a second, in rounds in which both take turns."""
    figures = []
    for policy, (fsync, setting) in _POLICIES.items():
        with serving("headgate", fsync) as port, nats(setting) as nats_port:
            await _make_stream(nats_port)
            for batch, connections in ((1, 32), (BATCH, 4)):
                here, there = [], []
                for number in range(ROUNDS):
                    print(f"nats: {policy}, {batch} at once, round {number + 1}", flush=True)
                    request = SINGLE if batch == 1 else _LINES
                    load = Load("127.0.0.1", port, request, connections=connections)
                    here.append(await load.per_second(SECONDS) * batch)
                    there.append(await _published_per_second(nats_port, batch, connections))
                work = f"appends, {batch} at once, {connections} connections, {policy}"
                figures.append(Figure.of_rounds(work, here, "entries/s", "NATS", there))
    return [*figures, await _deliveries()]


async def _deliveries() -> Figure:
    """Return deliveries that are acknowledged in a second; each acknowledgement is answered."""
    here, there = [], []
    with serving("headgate", "everysec") as port, nats("") as nats_port:
        await asyncio.to_thread(prepare, port, ENTRIES)
        await _make_stream(nats_port)
        publisher = await Publisher.open(nats_port, 0)
        for _ in range(0, ENTRIES, BATCH):
            await publisher.ask("bench", BODY, BATCH)
        for group in GROUPS:
            print(f"nats: deliveries, {group}", flush=True)
            here.append(await asyncio.to_thread(read_and_acknowledge, port, group, ENTRIES))
            there.append(await _consumed_per_second(publisher, group))
        publisher.close()
    work = "read and acknowledge, one connection, as they come"
    return Figure.of_rounds(work, here, "entries/s", "NATS, pull", there)


@contextmanager
def nats(setting: str) -> Iterator[int]:
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "nats.conf"
        settings.write_text(
            f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{folder}/data"\n{setting} }}\n'
        )
        with running([str(Path(sys.executable).parent / "nats-server"), "-c", str(settings)], port):
            yield port


class Publisher:
    """A connection to NATS that publishes, and waits for the acknowledgements."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        self._reader, self._writer = reader, writer
        self._inbox = b"_INBOX.%d" % number
        hello = b'CONNECT {"verbose":false,"headers":true}'
        writer.write(hello + b"\r\nSUB %b 1\r\n" % self._inbox)

    async def ask(self, subject: str, body: bytes, times: int = 1) -> bytes:
        """Publish so many times at once; returns the last answer."""
        return await self.ask_all([subject] * times, body)

    async def ask_all(self, subjects: Sequence[str], body: bytes) -> bytes:
        """Publish to all of these at once; returns the last answer."""
        for subject in subjects:
            head = b"PUB %b %b %d\r\n" % (subject.encode(), self._inbox, len(body))
            self._writer.write(head + body + b"\r\n")
        answer = b""
        for _ in subjects:
            line = await self._reader.readline()
            while not line.startswith(
                (b"MSG ", b"HMSG ")
            ):  # it may ask whether this is still there
                assert line == b"PING\r\n", line
                self._writer.write(b"PONG\r\n")
                line = await self._reader.readline()
            answer = await self._reader.readexactly(int(line.split()[-1]) + 2)
        return answer

    async def consume(self, consumer: str, seconds: float) -> int:
        """Pull entries and acknowledge each; returns how many acknowledgements were answered."""
        pull = b"PUB $JS.API.CONSUMER.MSG.NEXT.bench.%b %b 13\r\n" % (
            consumer.encode(),
            self._inbox,
        )
        pull += b'{"batch":100}\r\n'
        self._writer.write(pull * (AHEAD // 100))
        seen = acked = 0
        end_s = time.perf_counter() + seconds
        while acked < ENTRIES and time.perf_counter() < end_s:
            words = (await self._reader.readline()).split()
            if words[0] == b"PING":
                self._writer.write(b"PONG\r\n")
                continue
            await self._reader.readexactly(int(words[-1]) + 2)
            if words[1] == self._inbox:
                acked += 1
                continue
            seen += 1
            self._writer.write(b"PUB %b %b 4\r\n+ACK\r\n" % (words[3], self._inbox))
            if seen % 100 == 0 and seen + AHEAD <= ENTRIES:
                self._writer.write(pull)
        return acked

    @classmethod
    async def open(cls, port: int, number: int) -> "Publisher":
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await reader.readline()  # what the server says of itself
        return cls(reader, writer, number)

    def close(self) -> None:
        self._writer.close()


async def _make_stream(port: int) -> None:
    publisher = await Publisher.open(port, 0)
    stream = {"name": "bench", "subjects": ["bench"], "storage": "file"}
    answer = await publisher.ask("$JS.API.STREAM.CREATE.bench", json.dumps(stream).encode())
    assert b'"error"' not in answer, answer
    publisher.close()


async def _published_per_second(port: int, batch: int, connections: int) -> float:
    counts = [0] * connections
    started = time.perf_counter()

    async def publish(number: int) -> None:
        publisher = await Publisher.open(port, number + 1)
        while time.perf_counter() < started + SECONDS:
            answer = await publisher.ask("bench", BODY, batch)
            assert b'"seq"' in answer, answer
            counts[number] += batch
        publisher.close()

    await asyncio.gather(*map(publish, range(connections)))
    return sum(counts) / (time.perf_counter() - started)


async def _consumed_per_second(publisher: Publisher, name: str) -> float:
    settings = {"durable_name": name, "ack_policy": "explicit", "max_ack_pending": AHEAD}
    asked = json.dumps({"stream_name": "bench", "config": settings}).encode()
    answer = await publisher.ask(f"$JS.API.CONSUMER.DURABLE.CREATE.bench.{name}", asked)
    assert b'"error"' not in answer, answer
    started = time.perf_counter()
    count = await publisher.consume(name, SECONDS)
    return count / (time.perf_counter() - started)
