"""Clients of a gateway with workers: each knows which worker has its connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from tests.processes.gateway import Gateway
from tests.system_sockets import system_sockets

TRIES_MAX = 200
PAUSE_S = 0.05
"""Between tries: a worker that was started anew takes connections a few seconds later."""

WITHIN_S = 20.0
TWO: Mapping[str, object] = {"workers": 2, "open_metrics": True}
WORKERS = ("worker 1", "worker 2")


class Response(NamedTuple):
    """An answer."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def value(self) -> Any:
        return json.loads(self.content)


class Client:
    """One connection; requests go one after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.token: str | None = None

    @classmethod
    async def open(cls, url: str) -> Self:
        place = urlsplit(url)
        return cls(*await asyncio.open_connection(place.hostname, place.port))

    @property
    def port(self) -> int:
        """Return the port of this end."""
        return int(self.writer.get_extra_info("sockname")[1])

    async def request(self, method: str, path: str, body: Any = None) -> Response:
        """Return the answer to a request.

        Raises:
            OSError, EOFError: the connection has ended.
        """
        await self.send(method, path, body)
        return await self.response()

    async def send(
        self, method: str, path: str, body: Any = None, media_type: str = "application/json"
    ) -> None:
        """Send a request; its body is JSON, unless it is bytes already."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
        if body is None:
            content = b""
        else:
            lines += [f"Content-Type: {media_type}", f"Content-Length: {len(content)}"]
        if "/events" in path:
            lines.append("Accept: text/event-stream")
        if self.token is not None:
            lines.append(f"Authorization: Bearer {self.token}")
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + content)
        await self.writer.drain()

    async def response(self) -> Response:
        head = await self.head()
        size_bytes = int(head.headers.get("content-length", "0"))
        return head._replace(content=await self.reader.readexactly(size_bytes))

    async def head(self) -> Response:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.partition(": ") for line in lines[1:] if line)
        headers = {name.lower(): value for name, _, value in pairs}
        return Response(int(lines[0].split()[1]), headers, b"")

    async def event(self, kind: str) -> Any:
        """Return the data of the next event of a kind; its head was read."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                line = (await self.reader.readuntil(b"\n")).decode().rstrip()
                if line == f"event: {kind}":
                    while not (data := (await self.reader.readuntil(b"\n")).decode()).startswith(
                        "data: "
                    ):
                        pass
                    return json.loads(data.removeprefix("data: "))

    def close(self) -> None:
        self.writer.close()


@asynccontextmanager
async def client_of(gateway: Gateway, worker: str | None = None) -> AsyncIterator[Client]:
    """Yield a connection, with one worker if it is named."""
    others: list[Client] = []  # kept meanwhile, so that their worker is not tried for ever
    client = await Client.open(gateway.url)
    try:
        while worker is not None and await worker_of(gateway, client) != worker:
            others.append(client)
            assert len(others) < TRIES_MAX, f"{worker} takes no connection"
            await asyncio.sleep(PAUSE_S)
            client = await Client.open(gateway.url)
        for other in others:
            other.close()
        others.clear()
        yield client
    finally:
        for each in (client, *others):
            each.close()


async def worker_of(gateway: Gateway, client: Client) -> str:
    """Return the name of the worker that has a connection."""
    server_port = urlsplit(gateway.url).port
    async with asyncio.timeout(WITHIN_S):
        while True:  # until it is accepted
            inode = _inode(server_port or 0, client.port)
            for name, process_id in gateway.process_ids().items():
                if inode is not None and f"socket:[{inode}]" in _descriptors(process_id):
                    return name
            await asyncio.sleep(0.01)


def _inode(*ports: int) -> int | None:
    return next((each.inode for each in system_sockets() if each[:2] == ports), None)


def _descriptors(process_id: int) -> set[str]:
    links = set()
    folder = Path(f"/proc/{process_id}/fd")
    with suppress(OSError):
        for each in folder.iterdir():
            with suppress(OSError):
                links.add(str(each.readlink()))
    return links


async def until_waiting(gateway: Gateway) -> None:
    """Return once a read is blocked."""
    async with client_of(gateway) as client, asyncio.timeout(WITHIN_S):
        while b"headgate_waiters 1.0" not in (await client.request("GET", "/metrics")).content:
            await asyncio.sleep(0.02)
