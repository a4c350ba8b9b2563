"""A live gateway for every test: real uvicorn, on a free port, in the test's own loop."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import uvicorn
from blockbuster import BlockBuster, blockbuster_ctx

from app.dependencies import Gateway
from app.main import create_app
from app.server import server_config
from app.settings import Settings


@dataclass
class Live:
    """A running gateway, and a client that speaks to it."""

    url: str
    http: httpx.AsyncClient
    gateway: Gateway

    @property
    def ws_url(self) -> str:
        return self.url.replace("http://", "ws://")

    @property
    def waiter_count(self) -> int:
        return self.gateway.backend.waiter_count

    async def append(self, stream: str, *values: str) -> list[str]:
        """Append entries with one field `v` each; returns their ids."""
        entries = [{"fields": {"v": value}} for value in values]
        answer = await self.http.post(f"/v1/streams/{stream}/entries/batch", json=entries)
        assert answer.status_code == 201, answer.text
        ids: list[str] = answer.json()["ids"]
        return ids

    async def create_group(self, stream: str, group: str, start: str = "0") -> None:
        body = {"start": start, "create_stream": True}
        answer = await self.http.put(f"/v1/streams/{stream}/groups/{group}", json=body)
        assert answer.status_code in (200, 201), answer.text

    async def read_group(
        self, stream: str, group: str, consumer: str, **body: Any
    ) -> dict[str, Any]:
        url = f"/v1/streams/{stream}/groups/{group}/read?consumer={consumer}"
        answer = await self.http.post(url, json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def group(self, stream: str, group: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self.http.get(f"/v1/streams/{stream}/groups/{group}")).json()
        return found

    async def until_waiting(self, count: int) -> None:
        """Return as soon as exactly `count` reads are blocked."""
        await until(lambda: self.waiter_count == count)


async def until(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    """Return as soon as the condition holds: the loop runs on, nothing is slept away."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.001)


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Live]:
    """Run a gateway with these settings while the context lasts."""
    app = await asyncio.to_thread(create_app, settings)
    listening = socket.create_server(("127.0.0.1", 0), backlog=4096)
    server = uvicorn.Server(server_config(app, settings))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=30, limits=limits) as http:
        try:
            yield Live(url, http, app.state.gateway)
        finally:
            server.should_exit = True
            await serving
            listening.close()


@pytest.fixture
def settings() -> Settings:
    """What a test's gateway is set to; override it in a file to choose other values."""
    return Settings(heartbeat_ms=200)


@pytest.fixture
async def live(settings: Settings) -> AsyncIterator[Live]:
    async with running(settings) as gateway:
        yield gateway


@pytest.fixture(autouse=True)
def no_blocking_calls() -> Iterator[BlockBuster]:
    """A call that blocks the event loop fails the test."""
    with blockbuster_ctx(["app", "engine"]) as guard:
        yield guard
