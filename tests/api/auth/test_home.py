"""Home: a gateway without credentials, to which the first key is given while it runs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from headgate.app.auth.grants import Grant, Verb
from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.api.live.event_source import events_of
from tests.api.live.frames import frames_of
from tests.conditions import until
from tests.key_files import Keys

READ_NEWS = Grant(streams=["news"], do=[Verb.READ])


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Live]:
    async with running(Settings(heartbeat_ms=200, data_dir=tmp_path)) as gateway:
        yield gateway


async def _first_key(live: Live, folder: Path) -> str:
    key = await asyncio.to_thread(Keys(folder / "keys.json").add, READ_NEWS)
    await until(lambda: not live.gateway.auth.is_open)
    return key


async def test_from_the_first_key_on_everybody_needs_one(live: Live, tmp_path: Path) -> None:
    await live.append("news", "a")
    blocked = asyncio.create_task(live.http.get("/v1/streams/news/entries?after=$&wait_ms=30000"))
    await live.until_waiting(1)
    async with (
        frames_of(live, "/v1/ws") as socket,
        events_of(live, "/v1/streams/news/events") as events,
    ):
        await events.next("ready")
        await events.next("caught_up")
        key = await _first_key(live, tmp_path)

        assert (await socket.next("problem"))["problem"]["code"] == "unauthenticated"
        assert await socket.closed() == 4401
        assert (await events.next("problem"))["code"] == "unauthenticated"
        await events.ended()
        assert (await blocked).status_code == 401
    assert (await live.http.get("/v1/streams/news")).status_code == 401
    live.http.headers["Authorization"] = f"Bearer {key}"
    assert (await live.http.get("/v1/streams/news")).status_code == 200
    assert (await live.http.delete("/v1/streams/news")).status_code == 403


async def test_a_long_answer_breaks_off_with_its_credential(live: Live, tmp_path: Path) -> None:
    key, value = "", "x" * 100_000
    for _ in range(4):
        await live.append("news", *[value] * 100)
    for media_type in ("application/x-ndjson", "application/vnd.apache.arrow.stream"):
        headers = {"Accept": media_type}
        async with live.http.stream(
            "GET", "/v1/streams/news/entries?limit=400", headers=headers
        ) as answer:
            assert answer.status_code == 200
            parts = answer.aiter_bytes()
            received_bytes = len(await anext(parts))
            if live.gateway.auth.is_open:
                key = await _first_key(live, tmp_path)
            else:
                live.gateway.auth.verify(key).end("The key was revoked.")
            last = b""
            try:
                async for part in parts:
                    received_bytes += len(part)
                    last = (last + part)[-400:]
            except httpx.RemoteProtocolError:
                assert "arrow" in media_type
            else:
                assert b'"code":"unauthenticated"' in last
        assert received_bytes < 400 * len(value)
        live.http.headers["Authorization"] = f"Bearer {key}"


async def test_a_ticket_from_before_the_first_key_is_no_good_after_it(
    live: Live, tmp_path: Path
) -> None:
    await live.append("news", "a")
    made = await live.http.post("/v1/tickets", json={"stream": "news", "do": ["read"]})
    url = f"/v1/streams/news/events?ticket={made.json()['ticket']}"
    async with events_of(live, url) as events:
        await events.next("ready")

    await _first_key(live, tmp_path)
    refused = await live.http.get(url)
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
