"""Durable publishing beside NATS JetStream, which keeps its stream in files as well.

NATS is asked in its own protocol, by a client as plain as that of HTTP: what the client costs takes
nothing from the servers, which have a core to themselves.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.local_cluster.server import free_ports
from tests.bench.gateway import BODY, SINGLE, batches
from tests.bench.load import Load
from tests.bench.servers import running, serving
from tests.bench.table import Figure

ROUNDS = 3
SECONDS = 2.0
BATCH = 100
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
        with serving("headgate", fsync) as port, _nats(setting) as nats_port:
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
    return figures


@contextmanager
def _nats(setting: str) -> Iterator[int]:
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "nats.conf"
        settings.write_text(
            f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{folder}/data"\n{setting} }}\n'
        )
        with running([str(Path(sys.executable).parent / "nats-server"), "-c", str(settings)], port):
            yield port


class _Publisher:
    """A connection to NATS that publishes, and waits for the acknowledgements."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        self._reader, self._writer = reader, writer
        self._inbox = b"_INBOX.%d" % number
        writer.write(b'CONNECT {"verbose":false}\r\nSUB %b 1\r\n' % self._inbox)

    async def ask(self, subject: str, body: bytes, times: int = 1) -> bytes:
        """Publish so many times at once; returns the last answer."""
        message = b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), self._inbox, len(body), body)
        self._writer.write(message * times)
        answer = b""
        for _ in range(times):
            line = await self._reader.readline()
            while not line.startswith(b"MSG "):  # it may ask whether this is still there
                assert line == b"PING\r\n", line
                self._writer.write(b"PONG\r\n")
                line = await self._reader.readline()
            answer = await self._reader.readexactly(int(line.split()[-1]) + 2)
        return answer

    @classmethod
    async def open(cls, port: int, number: int) -> "_Publisher":
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await reader.readline()  # what the server says of itself
        return cls(reader, writer, number)

    def close(self) -> None:
        self._writer.close()


async def _make_stream(port: int) -> None:
    publisher = await _Publisher.open(port, 0)
    stream = {"name": "bench", "subjects": ["bench"], "storage": "file"}
    answer = await publisher.ask("$JS.API.STREAM.CREATE.bench", json.dumps(stream).encode())
    assert b'"error"' not in answer, answer
    publisher.close()


async def _published_per_second(port: int, batch: int, connections: int) -> float:
    counts = [0] * connections
    started = time.perf_counter()

    async def publish(number: int) -> None:
        publisher = await _Publisher.open(port, number + 1)
        while time.perf_counter() < started + SECONDS:
            answer = await publisher.ask("bench", BODY, batch)
            assert b'"seq"' in answer, answer
            counts[number] += batch
        publisher.close()

    await asyncio.gather(*map(publish, range(connections)))
    return sum(counts) / (time.perf_counter() - started)
