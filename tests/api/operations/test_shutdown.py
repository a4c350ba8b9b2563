"""A gateway that is told to stop answers who waits, and is gone soon."""

import asyncio
import json
import threading
from pathlib import Path

import httpx_sse
from websockets.asyncio.client import connect

from headgate.app.settings import Settings
from tests.api.conftest import running
from tests.arrow_bodies import ARROW, HEADERS, body_of
from tests.servers.chosen import URL


async def test_whoever_waits_is_told_and_nobody_holds_up_the_end() -> None:
    async with running(Settings()) as live:
        await live.create_group("orders", "billing")
        poll = asyncio.create_task(
            live.http.post(
                "/v1/streams/orders/groups/billing/read?consumer=c", json={"wait_ms": 60_000}
            )
        )
        url = "/v1/streams/orders/events"
        socket = await connect(f"{live.ws_url}/v1/streams/orders/ws")
        async with httpx_sse.aconnect_sse(live.http, "GET", url) as source:
            events = source.aiter_sse()
            assert [(await anext(events)).event for _ in range(2)] == ["ready", "caught_up"]
            await live.until_waiting(3)

            live.gateway.draining.set()
            live.gateway.backend.drain()
            last_event = await anext(events)

        assert last_event.event == "draining"
        assert 1000 <= last_event.json()["reconnect_after_ms"] <= 3000
        answer = await poll
        assert (answer.status_code, answer.json()["code"]) == (503, "draining")
        assert answer.headers["retry-after"] == "1"
        frames = [json.loads(await socket.recv()) for _ in range(4)]
        kinds = [frame["type"] for frame in frames]
        assert kinds == ["welcome", "subscribed", "state", "draining"]
        assert 1000 <= frames[-1]["reconnect_after_ms"] <= 3000
        await socket.wait_closed()
        assert socket.close_code == 1012
        assert (await live.http.get("/readyz")).json()["code"] == "draining"
        assert (await live.http.get("/healthz")).status_code == 200


async def test_a_gateway_that_has_stopped_leaves_no_thread_behind(tmp_path: Path) -> None:
    """But for those of asyncio, which are the event loop's, and those that all gateways share."""
    before = set(threading.enumerate())
    async with running(Settings(data_dir=tmp_path)) as live:
        url = "/v1/streams/orders/entries"
        chunk = "/v1/bulk/writers/w/batches/1/partitions/0/attempts/a/chunks/0?stream=orders"
        await live.http.post(f"{url}/batch", content=body_of("a"), headers=HEADERS)
        await live.http.put(chunk, content=body_of("b"), headers=HEADERS)
        answer = await live.http.get(url, headers={"Accept": ARROW})
        meanwhile = names_of(set(threading.enumerate()) - before)

    assert answer.status_code == 200
    assert {"arrow", "loop delay", "staging"} | ({"disk"} if URL is None else set()) <= meanwhile
    assert names_of(set(threading.enumerate()) - before) <= {"asyncio", "guards"}


def names_of(threads: set[threading.Thread]) -> set[str]:
    return {thread.name.partition("_")[0] for thread in threads}
