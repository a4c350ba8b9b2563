"""Event source: a client that reads an event stream one event at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx_sse

from tests.api.conftest import Live
from tests.conditions import WITHIN_S


class Events:
    """An event stream that is read one event at a time."""

    def __init__(self, source: httpx_sse.EventSource) -> None:
        self.headers = source.response.headers
        self.last_id = ""
        # `EventSource` shows no event without data: a comment, an id or `retry` alone.
        self._source = (event async for event in source.aiter_sse() if event.data)

    async def any(self) -> tuple[str, Any]:
        """Return the name of the next event, and its data."""
        async with asyncio.timeout(WITHIN_S):
            event = await anext(self._source)
        self.last_id = event.id
        return event.event, event.json()

    async def next(self, *names: str) -> Any:
        """Take the next events, which must be of these names; returns the data of the last."""
        data: Any = None
        for name in names:
            got, data = await self.any()
            assert got == name, (got, data)
            assert name != "entry" or self.last_id == data["id"]
        return data

    async def ended(self) -> None:
        """Wait for the end, before which nothing more may come."""
        async with asyncio.timeout(WITHIN_S):
            assert [event async for event in self._source] == []

    async def entries(self, count: int) -> list[str]:
        return [(await self.next("entry"))["id"] for _ in range(count)]


@asynccontextmanager
async def events_of(live: Live, url: str, **headers: str) -> AsyncIterator[Events]:
    async with (
        httpx.AsyncClient(base_url=live.url, timeout=30, verify=False) as http,
        httpx_sse.aconnect_sse(http, "GET", url, headers=headers) as source,
    ):
        assert source.response.status_code == 200, await source.response.aread()
        yield Events(source)


@asynccontextmanager
async def lines_of(live: Live, url: str, **headers: str) -> AsyncIterator[AsyncIterator[str]]:
    """Follow a stream as lines of events."""
    async with (
        httpx.AsyncClient(base_url=live.url, timeout=30) as http,
        http.stream("GET", url, headers=headers) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        yield answer.aiter_lines()


async def until_line(lines: AsyncIterator[str], wanted: str) -> list[str]:
    """Read lines up to one; returns those before it."""
    before: list[str] = []
    async with asyncio.timeout(WITHIN_S):
        while (line := await anext(lines)) != wanted:
            before.append(line)
    return before
