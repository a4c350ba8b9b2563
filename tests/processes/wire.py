"""Wire: one HTTP connection that can be dropped at any moment, in the middle of anything."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from tests.processes.credentials import CREDENTIALS

AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER: the other side gets a reset, and nothing of what was still to be sent."""


async def connected(url: str, receive_bytes: int | None = None) -> socket.socket:
    """Return a socket that is connected to the gateway."""
    place = urlsplit(url)
    end = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    end.setblocking(False)
    if receive_bytes is not None:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    try:
        await asyncio.get_running_loop().sock_connect(end, (place.hostname, place.port))
    except BaseException:
        end.close()
        raise
    return end


class Wire:
    """One connection; requests go one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, url: str, *, receive_bytes: int | None = None) -> Wire:
        """Connect.

        Args:
            url: of the gateway.
            receive_bytes: what the system may hold for a reader that is slow.
        """
        end = await connected(url, receive_bytes)
        return cls(*await asyncio.open_connection(sock=end, limit=2**16))

    async def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """Return the body of a success, JSON or text. A gateway that stops is as good as gone."""
        await self.send(method, path, body, headers)
        return await self.answer()

    async def send(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> None:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
        if "/events" in path:
            lines.append("Accept: text/event-stream")
        lines += [
            f"{name}: {value}" for name, value in {**CREDENTIALS.headers, **(headers or {})}.items()
        ]
        content = b"" if body is None else json.dumps(body).encode()
        if content:
            lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + content)
        await self._writer.drain()

    async def answer(self) -> Any:
        status, head = await self._head()
        content = await self._reader.readexactly(int(head["content-length"]))
        if status == 503:
            raise ConnectionError(content)
        assert 200 <= status < 300, content
        is_json = head["content-type"] == "application/json"
        return json.loads(content) if is_json else content.decode()

    async def events(self) -> AsyncIterator[list[tuple[str, Any]]]:
        """Yield the events of an answer, as many at a time as were sent in one part."""
        status, head = await self._head()
        if status == 503:
            raise ConnectionError(status)
        assert status == 200, status
        assert head["transfer-encoding"] == "chunked"
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            part = (await self._reader.readexactly(size + 2)).decode()
            yield [event for text in part.split("\n\n") if (event := _event(text)) is not None]

    def close(self) -> None:
        self._writer.close()

    def drop(self) -> None:
        """Vanish as a process that is killed: what is sent from now on meets a reset."""
        transport = self._writer.transport
        end = transport.get_extra_info("socket")
        if end is not None and end.fileno() >= 0:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        transport.abort()

    async def _head(self) -> tuple[int, dict[str, str]]:
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.partition(": ") for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name.lower(): value for name, _, value in pairs}


def _event(text: str) -> tuple[str, Any] | None:
    pairs = (line.partition(": ") for line in text.strip().split("\n"))
    values = {name: value for name, _, value in pairs if name}
    return (values["event"], json.loads(values["data"])) if "data" in values else None
