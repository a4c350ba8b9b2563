"""A conversation over the WebSocket whose frames are the examples of the AsyncAPI document."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect

Frame = dict[str, Any]

_ANOTHER_EACH_TIME = re.compile(r'"request_id":"[^"]+"')
_REQUEST_ID = '"request_id":"01900000-0000-7000-8000-000000000000"'


class Speaker:
    """A client that keeps the first frame of each message that it sends or gets."""

    def __init__(self, connection: ClientConnection, frames: dict[str, Frame]) -> None:
        self._connection, self.frames = connection, frames

    async def say(self, kind: str, answer: str | None, **parts: Any) -> Frame:
        """Send a frame, and return the first one of the kind that answers it."""
        frame = {"type": kind, **parts}
        self.frames.setdefault(f"receive_{kind}", frame)
        await self._connection.send(json.dumps(frame))
        return {} if answer is None else await self.hear(answer)

    async def hear(self, kind: str, name: str | None = None) -> Frame:
        """Return the next frame of a kind; `name` is that of its message, if it differs."""
        async for text in self._connection:
            frame: Frame = json.loads(_ANOTHER_EACH_TIME.sub(_REQUEST_ID, str(text)))
            if frame["type"] == kind:
                self.frames.setdefault(f"send_{name or kind}", frame)
                return frame
        raise AssertionError(f"no {kind} came")


async def spoken(http: httpx.AsyncClient) -> dict[str, Frame]:
    """Speak with an empty gateway; returns a frame of each message, by its name."""
    frames: dict[str, Frame] = {}
    url = str(http.base_url).replace("http", "ws")
    await http.put("/v1/streams/stock", json={"key_field": "sku"})
    for sku in ("42", "43", "44"):
        await http.post("/v1/streams/orders/entries", json={"fields": {"sku": sku}})
        await http.post("/v1/streams/stock/entries", json={"fields": {"sku": sku, "count": "7"}})
    await http.put("/v1/streams/orders/groups/billing", json={"start": "0"})
    await http.post("/v1/streams/report/close", json={"fields": {"status": "done"}})
    async with _connected(url, frames) as one, _connected(url, {}) as two:
        for chapter in (_follows, _works, _writes, _meets):
            await chapter(one, two)
    return frames


@asynccontextmanager
async def _connected(url: str, frames: dict[str, Frame]) -> AsyncIterator[Speaker]:
    async with connect(f"{url}/v1/ws", compression=None) as connection:
        speaker = Speaker(connection, frames)
        await speaker.hear("welcome")
        yield speaker


async def _follows(one: Speaker, _: Speaker) -> None:
    await one.say("ping", "pong", rid="1")
    await one.say("auth", "authenticated", token="hg_7f3a_secret", rid="2")
    await one.say("subscribe", "subscribed", sub="a", stream="orders", after="0")
    await one.hear("entries")
    await one.hear("state")
    await one.say("credit", None, sub="a", entries=64)
    await one.say("unsubscribe", "unsubscribed", sub="a", rid="3")
    await one.say("subscribe", "rows", sub="b", stream="stock", view="table")
    await one.say("unsubscribe", "unsubscribed", sub="b")
    await one.say("subscribe", "closed", sub="f", stream="report", after="0")
    await one.say("subscribe", "problem", sub="c", stream="orders", group="shipping")


async def _works(one: Speaker, two: Speaker) -> None:
    billing = {"stream": "orders", "group": "billing"}
    await one.say("subscribe", "subscribed", sub="d", consumer="anna", **billing)
    ids = [each["id"] for each in (await one.hear("entries"))["entries"]]
    await one.say("extend", "ok", sub="d", ids=ids, rid="4")
    await one.say("ack", "acked", sub="d", ids=ids[:1], rid="5")
    steps = [{"ack": {**billing, "ids": ids[1:2]}}]
    await one.say("commit", "committed", consumer="anna", steps=steps, rid="6")
    await one.say("commit", None, consumer="anna", steps=steps, rid="7")
    await one.hear("problem", "commit_problem")
    await two.say("subscribe", "entries", sub="d", consumer="ben", claim_idle_ms=0, **billing)
    await one.hear("claimed")
    await two.say("nack", "ok", sub="d", ids=ids[2:], rid="8")
    one.frames["receive_nack"] = two.frames["receive_nack"]
    await one.say("unsubscribe", "unsubscribed", sub="d")


async def _writes(one: Speaker, _: Speaker) -> None:
    entry = {"fields": {"sku": "45"}}
    await one.say("append", "appended", stream="orders", entries=[entry], rid="9")


async def _meets(one: Speaker, two: Speaker) -> None:
    room = {"channel": "room-1", "presence": {"data": {"name": "Anna"}}}
    await one.say("subscribe", "members", sub="e", **room)
    await two.say("subscribe", "members", sub="e", **room)
    await one.hear("presence")
    await one.say("presence", "noted", sub="e", data={"name": "Anna", "typing": True}, rid="10")
    await two.say("publish", "published", channel="room-1", data={"text": "hello"}, rid="11")
    await one.hear("message")
    for name in ("receive_publish", "send_published"):
        one.frames[name] = two.frames[name]
