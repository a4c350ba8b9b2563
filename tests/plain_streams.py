"""Streams of a Redis server that no gateway uses, and all that XINFO says of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis.connection import Connection

from deploy.local_cluster.server import HOST, Server
from headgate.app.gateway.backends import open_backend
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.settings import Settings

Raw = Any
"""A reply in RESP2, as it came."""

ORDERS, EMPTY, EXPIRING = b"plain:orders", b"plain:empty", b"plain:expiring"
NAMES = [EMPTY, EXPIRING, ORDERS]
HOUR_MS = 3_600_000
LONG_AGO_MS = 1_700_000_000_000

_TIMES = {b"seen-time", b"active-time", b"seen-at", b"radix-tree-keys", b"radix-tree-nodes"}
"""Facts that differ in a copy: times of consumers, and the server's form of the stream."""

_NEWER = {b"nacked-count", b"pids-tracked", b"iids-tracked", b"iids-added", b"iids-duplicates"}
_NEWER |= {b"idmp-duration", b"idmp-maxsize"}
"""What Redis 7.0 does not say."""

CLOCKS_MS = 50
"""Tolerance of a delivery time: a server tells an age, and later its time."""


@contextmanager
def connected(server: Server) -> Iterator[Connection]:
    """Open a connection whose replies nobody changes."""
    connection = Connection(host=HOST, port=server.port, protocol=2)  # type: ignore[no-untyped-call]
    connection.connect()  # type: ignore[no-untyped-call]
    yield connection
    connection.disconnect()  # type: ignore[no-untyped-call]


def replies(server: Server, commands: Sequence[Sequence[bytes | str | int]]) -> list[Raw]:
    """Send commands, and return the replies; none may fail."""
    with connected(server) as connection:
        for words in commands:
            connection.send_command(*words)  # type: ignore[no-untyped-call]
        return [connection.read_response() for _ in commands]


def of_directory(place: Path, commands: Sequence[Sequence[bytes | str | int]]) -> list[Raw]:
    """Return the replies of a gateway with this data directory to Redis commands."""

    async def run() -> list[Raw]:
        backend = open_backend(Settings(data_dir=place))
        running = asyncio.create_task(backend.run())
        runner = CommandRunner(backend)
        replies = [await runner.run([*map(encoded, words)]) for words in commands]
        await backend.close()
        await running
        return replies

    return asyncio.run(run())


def encoded(word: bytes | str | int) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode()


def make(server: Server) -> None:
    """Make streams as they are when they have been used for a while."""
    remove(server)
    read = "XREADGROUP", "GROUP", "billing"
    replies(
        server,
        [
            *(("XADD", ORDERS, f"{1000 + n}-{n % 3}", "n", n, b"\xff\r\n", b"", "n", "twice")
              for n in range(60)),
            ("XGROUP", "CREATE", ORDERS, "billing", "0"),
            ("XGROUP", "CREATECONSUMER", ORDERS, "billing", "idle"),
            (*read, "ana", "COUNT", 20, "STREAMS", ORDERS, ">"),
            (*read, "ben", "COUNT", 5, "STREAMS", ORDERS, ">"),
            ("XCLAIM", ORDERS, "billing", "ben", 0, "1003-0", "TIME", LONG_AGO_MS, "RETRYCOUNT", 7),
            ("XACK", ORDERS, "billing", "1006-0"),
            ("XGROUP", "CREATE", ORDERS, "late", "1030-0", "ENTRIESREAD", 31),
            ("XGROUP", "CREATE", ORDERS, b"\x00new", "$"),
            ("XDEL", ORDERS, "1004-1", "1010-1", "1040-1"),
            ("XTRIM", ORDERS, "MINID", "1003"),
            ("XADD", EMPTY, "5-5", "a", "b"),
            ("XDEL", EMPTY, "5-5"),
            ("XSETID", EMPTY, "9-9", "ENTRIESADDED", 7, "MAXDELETEDID", "8-8"),
            ("XADD", EXPIRING, "1-1", "a", "b"),
            ("PEXPIRE", EXPIRING, HOUR_MS),
            ("SET", "plain:text", "is no stream"),
        ],
    )  # fmt: skip


def remove(server: Server) -> None:
    replies(server, [("DEL", "plain:text", *NAMES)])


FULL = [("XINFO", "STREAM", name, "FULL", "COUNT", 0) for name in NAMES]


def assert_same(one_side: Raw, other: Raw) -> None:
    """Compare replies, but for what a copy has differently."""
    if isinstance(one_side, list) and one_side[:1] in ([b"length"], [b"name"]):
        mine, theirs = _facts(one_side), _facts(other)
        assert mine.keys() == theirs.keys()
        for name, value in mine.items():
            assert_same(value, theirs[name])
    elif isinstance(one_side, list):
        assert len(one_side) == len(other)
        for mine, theirs in zip(one_side, other, strict=True):
            assert_same(mine, theirs)
    elif isinstance(one_side, int) and one_side > 10**9:
        assert abs(one_side - other) <= CLOCKS_MS
    else:
        assert one_side == other


def _facts(reply: Raw) -> dict[bytes, Raw]:
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return {name: value for name, value in pairs if name not in _TIMES | _NEWER}
