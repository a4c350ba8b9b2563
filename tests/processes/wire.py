"""Wire: one HTTP connection that can be dropped at any moment, in the middle of anything."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple
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


class Response(NamedTuple):
    """An answer."""

    status: int
    headers: Mapping[str, str]
    content: bytes = b""

    @property
    def value(self) -> Any:
        """Return its body, JSON or text."""
        is_json = self.headers["content-type"].startswith(
            ("application/json", "application/problem")
        )
        return json.loads(self.content) if is_json else self.content.decode()


class Wire:
    """One connection; requests go one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.token: str | None = None  # in place of the credentials of all

    @classmethod
    async def open(cls, url: str, *, receive_bytes: int | None = None) -> Wire:
        """Connect.

        Args:
            url: of the gateway.
            receive_bytes: what the system may hold for a reader that is slow.
        """
        end = await connected(url, receive_bytes)
        return cls(*await asyncio.open_connection(sock=end, limit=2**16))

    @property
    def port(self) -> int:
        """Return the port of this end."""
        return int(self.writer.get_extra_info("sockname")[1])

    async def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Return the answer to a request, whatever it is.

        Raises:
            OSError, EOFError: the connection has ended.
        """
        await self.send(method, path, body, headers)
        return await self.response()

    async def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """Return the body of a success. A gateway that stops is as good as gone."""
        await self.send(method, path, body, headers)
        return await self.answer()

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        media_type: str = "application/json",
    ) -> None:
        """Send a request; its body is JSON, unless it is bytes already."""
        sent = {"Host": "localhost", **CREDENTIALS.headers, **(headers or {})}
        if self.token is not None:
            sent["Authorization"] = f"Bearer {self.token}"
        if "/events" in path:
            sent["Accept"] = "text/event-stream"
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        if body is None:
            content = b""
        else:
            sent |= {"Content-Type": media_type, "Content-Length": str(len(content))}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in sent.items())]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + content)
        await self.writer.drain()

    async def response(self) -> Response:
        """Return the answer to what was sent."""
        head = await self.head()
        size_bytes = int(head.headers.get("content-length", "0"))
        return head._replace(content=await self.reader.readexactly(size_bytes))

    async def answer(self) -> Any:
        """Return the body of a success that was asked for."""
        response = await self.response()
        if response.status == 503:
            raise ConnectionError(response.content)
        assert 200 <= response.status < 300, response.content
        return response.value

    async def events(self) -> AsyncIterator[list[tuple[str, Any]]]:
        """Yield the events of an answer, as many at a time as were sent in one part."""
        head = await self.head()
        if head.status == 503:
            raise ConnectionError(head.status)
        assert head.status == 200, head.status
        assert head.headers["transfer-encoding"] == "chunked"
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            part = (await self.reader.readexactly(size + 2)).decode()
            yield [event for text in part.split("\n\n") if (event := _event(text)) is not None]

    async def event(self, kind: str) -> Any:
        """Return the data of the next event of a kind; the head was read."""
        name = f"event: {kind}\n".encode()
        while await self.reader.readuntil(b"\n") != name:
            pass
        while not (line := await self.reader.readuntil(b"\n")).startswith(b"data: "):
            pass
        return json.loads(line.removeprefix(b"data: "))

    def close(self) -> None:
        self.writer.close()

    def drop(self) -> None:
        """Vanish as a process that is killed: what is sent from now on meets a reset."""
        transport = self.writer.transport
        end = transport.get_extra_info("socket")
        if end is not None and end.fileno() >= 0:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        transport.abort()

    async def head(self) -> Response:
        """Return the answer without its body, which is still to be read."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.partition(": ") for line in lines[1:] if line)
        headers = {name.lower(): value for name, _, value in pairs}
        return Response(int(lines[0].split()[1]), headers)


def _event(text: str) -> tuple[str, Any] | None:
    pairs = (line.partition(": ") for line in text.strip().split("\n"))
    values = {name: value for name, _, value in pairs if name}
    return (values["event"], json.loads(values["data"])) if "data" in values else None
