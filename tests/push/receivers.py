"""Receivers that fail in every way, and remember what they acknowledged."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

Fail = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def _slow(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(0.3)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


async def _hang(_: asyncio.StreamWriter) -> None:
    await asyncio.sleep(10)


async def _failed(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno")


async def _limited(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 429 Slow\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n")


async def _redirect(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 302 There\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n")


async def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _endless_body(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 503 No\r\nContent-Length: 1000000000\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


async def _endless_head(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-More: more\r\n" * 100)
        await writer.drain()


async def _no_http(writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example ESMTP\r\n\r\n")


WAYS: dict[str, Fail] = {
    "slow": _slow,
    "hang": _hang,
    "500": _failed,
    "429": _limited,
    "302": _redirect,
    "reset": _reset,
    "endless body": _endless_body,
    "endless head": _endless_head,
    "no http": _no_http,
}


class FailingReceiver:
    """Fails in one way for a part of its requests, and acknowledges the others.

    Entries with the field `bad` it never acknowledges.
    """

    def __init__(self, way: str, share: float, seed: int) -> None:
        self.url = ""
        self.acknowledged: Counter[str] = Counter()  # by the number of the entry
        self.by_key: dict[str, list[int]] = defaultdict(list)  # those, as they came, once each
        self.request_count = 0
        self._fail, self._share = WAYS[way], share
        self._is_slow = way == "slow"
        self._random = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._serving = set[asyncio.Task[Any]]()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            while await self._answer(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._serving.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        self.request_count += 1
        entries = body.get("entries", [body])
        if any("bad" in entry["fields"] for entry in entries):
            await _failed(writer)
            return True
        fails = self._random.random() < self._share
        if not fails or self._is_slow:
            self._acknowledge(entries)
        if fails:
            await self._fail(writer)
            return self._is_slow
        writer.write(b"HTTP/1.1 204 Done\r\n\r\n")
        await writer.drain()
        return True

    def _acknowledge(self, entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            number, key = entry["fields"]["n"], entry["fields"]["k"]
            self.acknowledged[number] += 1
            if self.acknowledged[number] == 1:
                self.by_key[key].append(int(number))
