"""Channels and presence over servers: all gateways that use them are one."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from websockets.asyncio.client import connect

from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.api.live.frames import Frames, frames_of
from tests.conditions import until
from tests.processes.gateway import Gateway

TTL_MS = 900


@pytest.fixture(params=["redis_7", "valkey_cluster"])
def url(request: pytest.FixtureRequest) -> str:
    """Return where servers are."""
    found: str = request.getfixturevalue(request.param).url
    return found


@pytest.fixture
def settings(url: str) -> dict[str, Any]:
    return {"backend": url, "redis_prefix": "channels:", "presence_ttl_ms": TTL_MS}


@pytest.fixture
async def here(settings: dict[str, Any]) -> AsyncIterator[Live]:
    """Run a gateway in this process."""
    chosen = {**settings, "backend": SecretStr(settings["backend"])}
    async with running(Settings(redis_port=0, **chosen)) as live:
        yield live


async def enter(frames: Frames, key: str) -> None:
    presence = {"key": key}
    await frames.send(type="subscribe", rid="s", sub="c", channel="room", presence=presence)
    await frames.next("subscribed")


async def keys_there(frames: Frames, wanted: set[str]) -> None:
    """Follow who is there until it is those with these keys."""
    there: dict[str, Any] = {}
    while True:
        frame = await frames.any()
        if frame["type"] == "members":
            there = {member["id"]: member["connections"] for member in frame["members"]}
        elif frame["type"] == "presence":
            there[frame["member"]["id"]] = frame["member"]["connections"]
        if {each["key"] for connections in there.values() for each in connections} == wanted:
            return


async def test_gateways_share_messages_and_know_who_is_at_each_other(
    here: Live, settings: dict[str, Any], tmp_path: Path
) -> None:
    other = await Gateway.start(tmp_path, settings)
    async with frames_of(here, "/v1/ws") as anna:
        await enter(anna, "anna")
        async with connect(f"ws{other.url.removeprefix('http')}/v1/ws") as socket:
            ben = Frames(socket)
            await ben.next("welcome")
            await enter(ben, "ben")
            async with asyncio.timeout(30):
                await keys_there(anna, {"anna", "ben"})
                await keys_there(ben, {"anna", "ben"})
            assert await here.ask("POST /v1/channels/room/messages", {"data": 1})
            for frames in (anna, ben):
                async with asyncio.timeout(30):
                    while (await frames.any())["type"] != "message":
                        pass
            await other.kill()
            async with asyncio.timeout(30):
                await keys_there_after_loss(anna)


async def keys_there_after_loss(frames: Frames) -> None:
    """Wait until the connection of the gateway that was killed has left."""
    while True:
        frame = await frames.any()
        if frame["type"] == "presence" and frame["event"] == "left":
            assert frame["member"]["id"] == "connection:ben"
            return


async def test_other_clients_of_the_servers_take_part(here: Live, request: Any, url: str) -> None:
    if "cluster" in url:
        return
    server = request.getfixturevalue("redis_7")
    async with frames_of(here, "/v1/ws") as anna:
        await anna.send(type="subscribe", rid="s", sub="c", channel="room")
        await anna.next("subscribed")
        await asyncio.to_thread(server.run, "PUBLISH", "room", json.dumps({"n": 1}))
        assert (await anna.next("message"))["data"] == {"n": 1}
    await until(lambda: b"room" not in here.gateway.channels.names_here)
