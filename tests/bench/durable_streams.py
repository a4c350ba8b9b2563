"""Durable Streams beside the reference server of npm: appends, followers, reads that are known."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from tests.bench.load import Load, get, post, read_body
from tests.bench.servers import free_port, running, serving
from tests.bench.table import Figure
from tests.durable_streams.test_conformance import NPM
from tests.sdk.workshop import node_modules

ROUNDS = 3
SECONDS = 3.0
WRITERS = 32
FOLLOWERS = 100
AHEAD_MAX = 500
"""Messages published that the slowest follower has not got yet: more are held back."""

PEER = "npm server"
_JSON = "application/json"
_BYTES = "application/octet-stream"
_MESSAGE = b'{"temp":"21.37","hum":"64","seq":"%09d"}'
_MARKER = b'"seq":"'
_CHUNK = b"x" * 1000
_CHUNKS = 900  # in one answer, here and there

_names = count()


def measure() -> list[Figure]:
    """Return appends, deliveries and reads a second, here and at the reference server."""
    with serving("headgate") as port, npm_server() as npm_port:
        places = {"headgate": port} | ({PEER: npm_port} if npm_port is not None else {})
        figures: dict[str, dict[str, list[float]]] = {}
        for number in range(ROUNDS):
            print(f"durable streams: round {number + 1} of {ROUNDS}", flush=True)
            for name, place in places.items():
                for work, figure in asyncio.run(_round(place)).items():
                    figures.setdefault(work, {}).setdefault(name, []).append(figure)
    table = []
    for work, each in figures.items():
        is_share = work == KNOWN
        table.append(
            Figure.of_rounds(
                work,
                each["headgate"],
                "of a read" if is_share else "/s",
                PEER,
                each.get(PEER, []),
                **({"at_most": 1 / 3} if is_share else {"ratio_at_least": 1.0}),
            )
        )
    return table


KNOWN = "an answer 304 for a read of 900 KB"


async def _round(port: int) -> dict[str, float]:
    read, known = await reads_per_second(port)
    return {
        f"appends of {WRITERS} writers": await appends_per_second(port),
        f"the same by {WRITERS} producers": await produced_per_second(port),
        f"deliveries to {FOLLOWERS} followers": await deliveries_per_second(port),
        "reads of 900 KB": read,
        KNOWN: read / known,
    }


@contextmanager
def npm_server() -> Iterator[int | None]:
    """Run the reference server on files, if there is a Node."""
    node = shutil.which("node")
    if node is None:
        yield None
        return
    modules = node_modules(NPM)
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        variables = {"PORT": str(port), "DATA_DIR": folder, "NODE_PATH": str(modules)}
        with running([node, str(NPM / "server.mjs")], port, variables):
            yield port


def made(port: int, media_type: str = _JSON) -> str:
    """Make a stream; returns its path."""
    path = f"/v1/stream/bench-{next(_names)}-{os.getpid()}"
    place = f"http://127.0.0.1:{port}{path}"
    request = urllib.request.Request(place, method="PUT", headers={"Content-Type": media_type})
    urllib.request.urlopen(request).close()
    return path


async def appends_per_second(port: int) -> float:
    """Return appends a second of writers that each wait for the answer."""
    request = post(made(port), _MESSAGE % 0)
    return await Load("127.0.0.1", port, request, connections=WRITERS).per_second(SECONDS)


async def produced_per_second(port: int) -> float:
    """Return the same of producers, whose appends count once."""
    path = made(port)
    end = time.perf_counter() + SECONDS
    done = await asyncio.gather(*(_produce(port, path, number, end) for number in range(WRITERS)))
    return sum(done) / SECONDS


async def _produce(port: int, path: str, number: int, end: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for seq in count():
        if time.perf_counter() > end:
            writer.close()
            return seq
        headers = f"Producer-Id: p{number}\r\nProducer-Epoch: 0\r\nProducer-Seq: {seq}\r\n"
        request = post(path, _MESSAGE % seq)
        line, _, others = request.partition(b"\r\n")
        writer.write(line + b"\r\n" + headers.encode() + others)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await read_body(reader, head.lower())
    return 0


class Follower(asyncio.Protocol):
    """Counts the messages of an answer of events."""

    def __init__(self, request: bytes) -> None:
        self.count = 0
        self._request, self._tail = request, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        data = self._tail + data
        self.count += data.count(_MARKER)
        self._tail = data[-(len(_MARKER) - 1) :]


async def deliveries_per_second(port: int) -> float:
    """Return how many messages a second reach all followers together."""
    path, loop = made(port), asyncio.get_running_loop()
    request = get(f"{path}?offset=-1&live=sse")
    followers = [Follower(request) for _ in range(FOLLOWERS)]
    transports = [
        (await loop.create_connection(lambda each=each: each, "127.0.0.1", port))[0]  # type: ignore[misc]
        for each in followers
    ]
    published = 0

    async def publish() -> None:
        nonlocal published
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            while published - min(each.count for each in followers) > AHEAD_MAX:
                await asyncio.sleep(0.002)
            writer.write(post(path, _MESSAGE % published))
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 2"), head
            published += 1
        writer.close()

    began = time.perf_counter()
    end = began + SECONDS
    await asyncio.gather(*(publish() for _ in range(8)))
    delivered = sum(each.count for each in followers)
    took = time.perf_counter() - began
    for transport in transports:
        transport.close()
    return delivered / took


async def reads_per_second(port: int) -> tuple[float, float]:
    """Return reads a second of a stream, and of clients that have the answer already."""
    path, tag = await asyncio.to_thread(_filled, port)
    read = Load("127.0.0.1", port, get(path), connections=8)
    known = get(path).replace(b"\r\n\r\n", f"\r\nIf-None-Match: {tag}\r\n\r\n".encode())
    again = Load("127.0.0.1", port, known, connections=8, status=b"304")
    return await read.per_second(SECONDS), await again.per_second(SECONDS)


def _filled(port: int) -> tuple[str, str]:
    """Make a stream that is read in one answer; returns its path and the tag of the answer."""
    path = made(port, _BYTES)
    place = f"http://127.0.0.1:{port}{path}"
    for _ in range(_CHUNKS):
        request = urllib.request.Request(place, _CHUNK, {"Content-Type": _BYTES}, method="POST")
        urllib.request.urlopen(request).close()
    with urllib.request.urlopen(place) as answer:
        assert len(answer.read()) == len(_CHUNK) * _CHUNKS
        return path, answer.headers["etag"]
