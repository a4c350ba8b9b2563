"""Tables beside a key-value bucket of NATS and hashes of Redis: put, get, walk and watch.

The peers are asked in their own protocols, by clients as plain as that of HTTP. Every write is
synced before it is answered, but for the rows that are walked over.
"""

import asyncio
import json
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from deploy.local_cluster.server import free_ports
from tests.bench.figures import Figure
from tests.bench.load import post, read_body
from tests.bench.nats import Publisher, nats
from tests.bench.servers import running, serving

ROUNDS = 3
SECONDS = 2.0
CONNECTIONS = 32
KEYS = 10_000
ROWS = 1_000_000
BATCH = 1_000
FOLLOWERS = 100
CHANGES = 1_000

_READ_BYTES = 2**20
_PULLED = 10_000
"""Messages of NATS that are asked for together."""

_open: list[asyncio.StreamWriter] = []
"""Connections of followers, which end with the servers."""

_VALUE = json.dumps({"fields": {"count": "12", "place": "shelf 7"}}).encode()
_STOCK = "/v1/streams/stock"
_STREAM = {
    "name": "KV_stock",
    "subjects": ["$KV.stock.>"],
    "storage": "file",
    "max_msgs_per_subject": 1,
    "allow_direct": True,
    "allow_rollup_hdrs": True,
    "discard": "new",
}
_SUBJECT = "$KV.stock."

Ask = Callable[[int], Awaitable[None]]
"""Asks once, about a key."""


async def measure() -> list[Figure]:
    """Return puts, gets, rows walked over and changes told in a second, in turns with the peers."""
    figures = await _puts_and_gets()
    return [*figures, await _walks(), await _watches()]


async def _puts_and_gets() -> list[Figure]:
    rates: dict[tuple[str, str], list[float]] = {}
    with serving("headgate", "always") as port, nats("sync_interval: always") as nats_port:
        await _make_table(port)
        await _make_bucket(nats_port)
        with synced_redis() as redis_port:
            peers = {
                "headgate": (_Http, port),
                "NATS": (_Bucket, nats_port),
                "Redis": (_Hashes, redis_port),
            }
            for number in range(ROUNDS):
                for name, (kind, at) in peers.items():
                    print(f"table: {name}, round {number + 1} of {ROUNDS}", flush=True)
                    async with _clients(kind, at) as clients:
                        for work in ("put", "get"):
                            asks = [getattr(client, work) for client in clients]
                            rates.setdefault((work, name), []).append(await _per_second(asks))
    figures = []
    for work, least in (("put", 0.5), ("get", 1.0)):
        here, text = rates[work, "headgate"], f"{work} of a row, {CONNECTIONS} connections"
        there = rates[work, "NATS"]
        figures.append(
            Figure.of_rounds(text, here, "rows/s", "NATS KV", there, ratio_at_least=least)
        )
        figures.append(Figure.of_rounds(text, here, "rows/s", "Redis hash", rates[work, "Redis"]))
    return figures


async def _per_second(asks: list[Ask]) -> float:
    count, started = 0, time.perf_counter()

    async def ask_again(ask: Ask, keys: random.Random) -> None:
        nonlocal count
        while time.perf_counter() < started + SECONDS:
            await ask(keys.randrange(KEYS))
            count += 1

    await asyncio.gather(*(ask_again(ask, random.Random(at)) for at, ask in enumerate(asks)))
    return count / (time.perf_counter() - started)


class _Http:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int, _: int) -> "_Http":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def put(self, key: int) -> None:
        head = f"PUT {_STOCK}/table/{key} HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(_VALUE)}\r\n\r\n"
        await self.ask(head.encode() + _VALUE)

    async def get(self, key: int) -> None:
        await self.ask(f"GET {_STOCK}/table/{key} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    async def ask(self, request: bytes) -> None:
        self.writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith((b"HTTP/1.1 2", b"HTTP/1.1 404")), head
        await read_body(self._reader, head.lower())


class _Bucket:
    def __init__(self, publisher: Publisher) -> None:
        self._publisher, self.writer = publisher, publisher

    @classmethod
    async def open(cls, port: int, number: int) -> "_Bucket":
        return cls(await Publisher.open(port, number))

    async def put(self, key: int) -> None:
        answer = await self._publisher.ask(f"{_SUBJECT}{key}", _VALUE)
        assert b'"seq"' in answer, answer

    async def get(self, key: int) -> None:
        await self._publisher.ask(f"$JS.API.DIRECT.GET.KV_stock.{_SUBJECT}{key}", b"")


class _Hashes:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int, _: int) -> "_Hashes":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def put(self, key: int) -> None:
        self.writer.write(_command(b"HSET", b"stock", b"%d" % key, _VALUE))
        assert (await self._reader.readline()).startswith(b":")

    async def get(self, key: int) -> None:
        self.writer.write(_command(b"HGET", b"stock", b"%d" % key))
        length = int((await self._reader.readline())[1:])
        if length >= 0:
            await self._reader.readexactly(length + 2)


def _command(*words: bytes) -> bytes:
    parts = b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
    return b"*%d\r\n" % len(words) + parts


@asynccontextmanager
async def _clients(kind: type[_Http | _Bucket | _Hashes], port: int) -> AsyncIterator[list[Any]]:
    clients = [await kind.open(port, at + 1) for at in range(CONNECTIONS)]
    yield clients
    for client in clients:
        client.writer.close()


async def _make_table(port: int) -> None:
    client = await _Http.open(port, 0)
    request = post(_STOCK, b'{"key_field":"sku"}')
    await client.ask(request.replace(b"POST", b"PUT", 1))
    client.writer.close()


async def _make_bucket(port: int) -> None:
    publisher = await Publisher.open(port, 0)
    answer = await publisher.ask("$JS.API.STREAM.CREATE.KV_stock", json.dumps(_STREAM).encode())
    assert b'"error"' not in answer, answer
    publisher.close()


@contextmanager
def synced_redis() -> Iterator[int]:
    [port] = free_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        words = ["redis-server", "--port", str(port), "--dir", folder, "--save", ""]
        words += ["--appendonly", "yes", "--appendfsync", "always"]
        with running(words, port):
            yield port


# Walks: all rows of a table of a million, and all keys of a bucket, read once.


async def _walks() -> Figure:
    here, there = [], []
    with serving("headgate", "everysec") as port, nats("") as nats_port:
        await _make_table(port)
        await _make_bucket(nats_port)
        print(f"table: {ROWS} rows are written to both", flush=True)
        for start in range(0, ROWS, BATCH):
            rows = [
                {"fields": {"sku": str(at), "count": "12", "place": "shelf 7"}}
                for at in range(start, start + BATCH)
            ]
            body = json.dumps(rows).encode()
            client = await _Http.open(port, 0)
            await client.ask(post(f"{_STOCK}/entries/batch", body))
            client.writer.close()
        publisher = await Publisher.open(nats_port, 0)
        for start in range(0, ROWS, BATCH):
            subjects = [f"{_SUBJECT}{at}" for at in range(start, start + BATCH)]
            await publisher.ask_all(subjects, _VALUE)
        for number in range(ROUNDS):
            print(f"table: walk, round {number + 1} of {ROUNDS}", flush=True)
            here.append(ROWS / await _walk(port))
            there.append(ROWS / await _walk_of_bucket(nats_port, publisher, number))
        publisher.close()
    work = "walk over 1 M rows"
    return Figure.of_rounds(work, here, "rows/s", "NATS KV", there, ratio_at_least=1.0)


async def _walk(port: int) -> float:
    started = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_READ_BYTES)
    head = f"GET {_STOCK}/table?limit={ROWS} HTTP/1.1\r\nHost: localhost\r\n"
    writer.write(f"{head}Accept: application/x-ndjson\r\n\r\n".encode())
    await _count(reader, b'"key":', ROWS)
    writer.close()
    return time.perf_counter() - started


async def _walk_of_bucket(port: int, publisher: Publisher, number: int) -> float:
    settings = {
        "name": f"walk{number}",
        "deliver_policy": "last_per_subject",
        "filter_subject": f"{_SUBJECT}>",
        "ack_policy": "none",
        "mem_storage": True,
    }
    started = time.perf_counter()
    asked = json.dumps({"stream_name": "KV_stock", "config": settings}).encode()
    subject = f"$JS.API.CONSUMER.CREATE.KV_stock.walk{number}"
    answer = await publisher.ask(subject, asked)
    assert b'"error"' not in answer, answer
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_READ_BYTES)
    writer.write(b'CONNECT {"verbose":false,"headers":true}\r\nSUB walk 1\r\n')
    pull = b"$JS.API.CONSUMER.MSG.NEXT.KV_stock.walk%d" % number
    for _ in range(0, ROWS, _PULLED):  # two are under way, so that the server never waits
        body = b'{"batch":%d}' % _PULLED
        writer.write(b"PUB %b walk %d\r\n%b\r\n" % (pull, len(body), body))
    await _count(reader, b"MSG $KV.stock.", ROWS)
    writer.close()
    return time.perf_counter() - started


# Watches: all followers are told every change.


async def _watches() -> Figure:
    here, there = [], []
    with serving("headgate", "always") as port, nats("sync_interval: always") as nats_port:
        await _make_table(port)
        await _make_bucket(nats_port)
        for number in range(ROUNDS):
            print(f"table: watch, round {number + 1} of {ROUNDS}", flush=True)
            clients = [await _Http.open(port, 0) for _ in range(4)]
            here.append(await _told_per_second(clients, _events, port, b"event: row\n"))
            buckets = [await _Bucket.open(nats_port, at) for at in range(4)]
            there.append(await _told_per_second(buckets, _watch, nats_port, b"MSG $KV.stock."))
    work = f"changes told, {FOLLOWERS} followers, 4 connections put"
    return Figure.of_rounds(work, here, "changes/s", "NATS KV", there)


async def _told_per_second(
    writers: Sequence[_Http | _Bucket],
    follow: Callable[[int, int], Awaitable[asyncio.StreamReader]],
    port: int,
    mark: bytes,
) -> float:
    readers = [await follow(port, at) for at in range(FOLLOWERS)]
    followers = [asyncio.create_task(_count(reader, mark, CHANGES)) for reader in readers]
    started, keys = time.perf_counter(), iter(range(CHANGES))

    async def put(writer: _Http | _Bucket) -> None:
        for key in keys:
            await writer.put(key)

    await asyncio.gather(*map(put, writers))
    await asyncio.gather(*followers)
    return FOLLOWERS * CHANGES / (time.perf_counter() - started)


async def _events(port: int, _: int) -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    _open.append(writer)
    writer.write(f"GET {_STOCK}/events?view=table HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    while b"caught_up" not in await reader.readline():
        pass
    return reader


async def _watch(port: int, at: int) -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    _open.append(writer)
    inbox = f"watch.{at}.{time.monotonic_ns()}"
    publisher = await Publisher.open(port, at + 1_000)
    settings = {"deliver_subject": inbox, "deliver_policy": "new", "ack_policy": "none"}
    writer.write(
        f'CONNECT {{"verbose":false,"headers":true}}\r\nSUB {inbox} 1\r\nPING\r\n'.encode()
    )
    while (await reader.readline()) != b"PONG\r\n":
        pass
    asked = json.dumps({"stream_name": "KV_stock", "config": settings}).encode()
    answer = await publisher.ask("$JS.API.CONSUMER.CREATE.KV_stock", asked)
    assert b'"error"' not in answer, answer
    publisher.close()
    return reader


async def _count(reader: asyncio.StreamReader, mark: bytes, wanted: int) -> None:
    """Read until a mark has come so often; it may be cut by the end of a piece."""
    count, tail = 0, b""
    while count < wanted:
        piece = tail + await reader.read(_READ_BYTES)
        assert len(piece) > len(tail), "the connection has ended"
        count += piece.count(mark)
        tail = piece[-(len(mark) - 1) :]
