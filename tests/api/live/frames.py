"""Frames: a client of the WebSocket that says and hears them one at a time."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.api.conftest import Live
from tests.api.documents.documented import check_frame
from tests.conditions import WITHIN_S


class Frames:
    """A socket that speaks frames."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def send(self, **frame: Any) -> None:
        await self.socket.send(json.dumps(frame))

    async def next(self, *kinds: str) -> dict[str, Any]:
        """Take the next frames, which must be of these types; `state` may come at any time."""
        frame: dict[str, Any] = {}
        for kind in kinds:
            async with asyncio.timeout(WITHIN_S):
                frame = await self.any()
                while frame["type"] == "state" != kind:
                    frame = await self.any()
            assert frame["type"] == kind, frame
        return frame

    async def any(self) -> dict[str, Any]:
        frame: dict[str, Any] = json.loads(await self.socket.recv())
        check_frame(frame)
        return frame

    async def subscribe(self, sub: str, **frame: Any) -> dict[str, Any]:
        await self.send(type="subscribe", rid=sub, sub=sub, stream="orders", **frame)
        return await self.next("subscribed")

    async def states(self, *expected: str) -> None:
        for state in expected:
            assert (await self.next("state"))["state"] == state

    async def problem(self) -> tuple[str | None, str]:
        """Return rid and code of the problem that must come next."""
        frame = await self.next("problem")
        return frame.get("rid"), frame["problem"]["code"]

    async def entries(self, count: int) -> list[dict[str, Any]]:
        """Return the next entries, however many frames they come in."""
        received: list[dict[str, Any]] = []
        while len(received) < count:
            received += (await self.next("entries"))["entries"]
        assert len(received) == count
        return received

    async def ids(self, count: int) -> list[str]:
        return [entry["id"] for entry in await self.entries(count)]

    async def closed(self) -> int | None:
        """Wait until the gateway closes the socket; returns the code."""
        async with asyncio.timeout(WITHIN_S):
            await self.socket.wait_closed()
        return self.socket.close_code


@asynccontextmanager
async def frames_of(live: Live, url: str, **options: Any) -> AsyncIterator[Frames]:
    async with connect(live.ws_url + url, **options) as socket:
        frames = Frames(socket)
        await frames.next("welcome")
        yield frames
