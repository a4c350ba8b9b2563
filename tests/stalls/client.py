"""Client: one request on a connection of its own, whose answer may be of any size."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

JSON = "application/json"
_KEPT = 2000


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    size_bytes: int
    begin: bytes  # of the body

    @property
    def text(self) -> str:
        """Return the beginning of the body, if it is about a refusal."""
        return "" if self.status < 400 else self.begin.decode(errors="replace")


class Client:
    """Speaks to a gateway."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self.url = url
        self.host = place.hostname or ""
        self.port = place.port or 0

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        media_type: str = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request, and read its answer to the end."""
        reader, writer = await self.open()
        try:
            with suppress(ConnectionError):  # it may be refused before it is here
                writer.write(head(method, path, len(body), media_type, headers) + body)
                await writer.drain()
            return await _answer(reader)
        finally:
            writer.close()

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.host, self.port)

    async def command(self, *words: str | int) -> Answer:
        """Run a command."""
        return await self.ask("POST", "/v1/commands", json.dumps(words).encode())

    async def commands(self, commands: Sequence[Sequence[str | int]], at: str = "pipeline") -> Any:
        """Run commands, and return what came back."""
        return await self.ask("POST", f"/v1/commands/{at}", json.dumps(commands).encode())


def head(
    method: str,
    path: str,
    size_bytes: int = 0,
    media_type: str = JSON,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Return the head of a request; its connection ends with it."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if size_bytes:
        lines += [f"Content-Type: {media_type}", f"Content-Length: {size_bytes}"]
    return "\r\n".join([*lines, "", ""]).encode()


async def _answer(reader: asyncio.StreamReader) -> Answer:
    began = await reader.readuntil(b"\r\n\r\n")
    size_bytes, begin = 0, b""
    while part := await reader.read(2**20):
        size_bytes += len(part)
        begin = begin or part[:_KEPT]
    return Answer(int(began.split()[1]), size_bytes, begin)
