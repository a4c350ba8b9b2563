"""Endings: connections end with their credential, and their entries go to the next reader."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from headgate.app.auth.grants import Grant, Verb
from headgate.engine.clock import SystemClock
from tests.api.auth.secured import Secured, secured
from tests.api.live.event_source import events_of
from tests.api.live.frames import Frames
from tests.conditions import until

READ = Grant(streams=["orders"], do=[Verb.READ])
WORK = Grant(streams=["orders"], groups=["billing"], do=[Verb.CONSUME])
EVENTS = "/v1/streams/orders/events"
GROUP_EVENTS = "/v1/streams/orders/groups/billing/events?consumer=me"
CONNECTION_COUNT = 100


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Secured]:
    async with secured(tmp_path) as running:
        await running.live.create_group("orders", "billing")
        yield running


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def ticket(gateway: Secured, key: str, **wanted: Any) -> str:
    async with gateway.client(key) as http:
        made = await http.post("/v1/tickets", json={"stream": "orders", **wanted})
        assert made.status_code == 201, made.text
        text: str = made.json()["ticket"]
        return text


async def refused(gateway: Secured, url: str) -> int:
    async with gateway.client(None) as http:
        return (await http.get(url)).status_code


async def test_all_connections_of_a_revoked_key_are_gone_soon(gateway: Secured) -> None:
    key = await gateway.key(READ)
    async with AsyncExitStack() as stack:
        sockets, streams = [], []
        for _ in range(CONNECTION_COUNT):
            url = f"{gateway.live.ws_url}/v1/streams/orders/ws"
            socket = await stack.enter_async_context(connect(url, additional_headers=bearer(key)))
            sockets.append(Frames(socket))
            streams.append(
                await stack.enter_async_context(events_of(gateway.live, EVENTS, **bearer(key)))
            )
        for events in streams:
            await events.next("ready")
            await events.next("caught_up")
        started_s = time.perf_counter()
        await gateway.revoke(key)
        codes = await asyncio.gather(*(frames.closed() for frames in sockets))
        for events in streams:
            assert (await events.next("problem"))["code"] == "unauthenticated"
            await events.ended()
        elapsed_s = time.perf_counter() - started_s
    assert codes == [4401] * CONNECTION_COUNT
    assert elapsed_s < 5  # 0.3 s on a machine with 2 cores that had other work as well


async def test_what_an_event_stream_held_goes_to_the_next_reader(gateway: Secured) -> None:
    key = await gateway.key(WORK)
    ids = await gateway.live.append("orders", "1", "2")
    async with events_of(gateway.live, GROUP_EVENTS, **bearer(key)) as events:
        await events.next("ready")
        assert await events.entries(2) == ids
        await gateway.revoke(key)
        await until(lambda: gateway.live.gateway.metrics.connection_count == 0)
    read = await gateway.live.read_group("orders", "billing", "other")
    assert [entry["id"] for entry in read["entries"]] == ids


async def test_a_blocked_read_ends_with_its_key_and_takes_nothing_with_it(
    gateway: Secured,
) -> None:
    for steps in range(12):  # the entry comes at about the moment at which the key ends
        key = await gateway.key(WORK, READ)
        async with gateway.client(key) as http:
            url = "/v1/streams/orders/groups/billing/read?consumer=me"
            reading = asyncio.create_task(http.post(url, json={"wait_ms": 30_000}))
            await gateway.live.until_waiting(1)
            principal = gateway.live.gateway.auth.verify(key)
            appending = asyncio.create_task(gateway.live.append("orders", str(steps)))
            while not appending.done() and gateway.live.waiter_count:
                await asyncio.sleep(0)
            for _ in range(steps):
                await asyncio.sleep(0)
            principal.end("The API key was revoked.")
            ids, answer = await appending, await reading
            if answer.status_code == 200:
                received = [entry["id"] for entry in answer.json()["entries"]]
            else:
                assert answer.json()["code"] == "unauthenticated"
                read = await gateway.live.read_group("orders", "billing", "other")
                received = [entry["id"] for entry in read["entries"]]
            assert received == ids
            assert await gateway.live.outcomes("ack", "orders", "billing", ids) == ["acked"]


@pytest.mark.parametrize("command", [["XREAD", "BLOCK", "0", "STREAMS", "orders", "$"]])
async def test_a_blocked_command_ends_with_its_key(gateway: Secured, command: list[str]) -> None:
    key = await gateway.key(READ)
    async with gateway.client(key) as http:
        alone = asyncio.create_task(http.post("/v1/commands", json=command))
        several = asyncio.create_task(http.post("/v1/commands/pipeline", json=[command, ["PING"]]))
        await gateway.live.until_waiting(2)
        await gateway.revoke(key)
        for answer in await asyncio.gather(alone, several):
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    await gateway.live.until_waiting(0)


async def test_a_ticket_is_for_its_stream_and_for_what_it_says(gateway: Secured) -> None:
    await gateway.live.append("news", "1")
    await gateway.live.create_group("orders", "shipping")
    key = await gateway.key(Grant(streams=["*"], do=[Verb.READ, Verb.CONSUME, Verb.APPEND]))
    reading = await ticket(gateway, key, do=["read"])
    async with events_of(gateway.live, f"{EVENTS}?ticket={reading}") as events:
        await events.next("ready")
    working = await ticket(gateway, key, do=["consume"], group="billing", consumer="me")
    async with events_of(
        gateway.live, f"{GROUP_EVENTS}&ticket={working}", Accept="text/event-stream"
    ) as events:
        await events.next("ready")

    accept = {"Accept": "text/event-stream"}
    groups = "/v1/streams/orders/groups"
    async with gateway.client(None) as http:
        for url in (
            f"/v1/streams/news/events?ticket={reading}",
            f"/v1/streams/nowhere/events?ticket={reading}",
            f"{GROUP_EVENTS}&ticket={reading}",
            f"{EVENTS}?ticket={working}",
            f"{groups}/billing/events?consumer=you&ticket={working}",
            f"{groups}/billing/events?ticket={working}",
            f"{groups}/shipping/events?consumer=me&ticket={working}",
        ):
            answer = await http.get(url, headers=accept)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), url
    entry = {"type": "append", "rid": "a", "stream": "orders", "entries": [{"fields": {"v": "1"}}]}
    async with connect(f"{gateway.live.ws_url}/v1/ws?ticket={reading}") as socket:
        frames = Frames(socket)
        await frames.next("welcome")
        await socket.send(json.dumps(entry))
        assert await frames.problem() == ("a", "forbidden")
        await frames.send(type="auth", rid="b", token=reading)
        assert await frames.problem() == ("b", "unauthenticated")


async def test_nobody_gets_a_ticket_for_more_than_its_own_rights(gateway: Secured) -> None:
    only_me = Grant(streams=["orders"], groups=["billing"], consumer="me", do=[Verb.CONSUME])
    key = await gateway.key(READ, only_me)
    async with gateway.client(key) as http:
        for wanted in (
            {"stream": "news", "do": ["read"]},
            {"stream": "orders", "do": ["read", "append"]},
            {"stream": "orders", "do": ["consume"], "group": "billing"},
            {"stream": "orders", "do": ["consume"], "group": "billing", "consumer": "you"},
            {"stream": "orders", "do": ["consume"], "group": "other", "consumer": "me"},
        ):
            answer = await http.post("/v1/tickets", json=wanted)
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), wanted


async def test_a_ticket_ends_in_time_and_the_event_stream_with_it(gateway: Secured) -> None:
    key = await gateway.key(READ)
    short = await ticket(gateway, key, do=["read"], ttl_ms=1000)
    async with events_of(gateway.live, f"{EVENTS}?ticket={short}") as events:
        await events.next("ready")
        await events.next("caught_up")
        assert (await events.next("problem"))["code"] == "unauthenticated"
        await events.ended()
    assert await refused(gateway, f"{EVENTS}?ticket={short}") == 401


async def test_a_ticket_ends_with_the_key_that_made_it(gateway: Secured) -> None:
    now_ms = SystemClock().wall_ms()
    revoked, expiring = (
        await gateway.key(READ),
        await gateway.key(READ, expires_at_ms=now_ms + 2500),
    )
    for key, ends in ((revoked, gateway.revoke), (expiring, None)):
        url = f"{EVENTS}?ticket={await ticket(gateway, key, do=['read'], ttl_ms=3_600_000)}"
        async with events_of(gateway.live, url) as events:
            await events.next("ready")
            await events.next("caught_up")
            if ends is not None:
                await ends(key)
            assert (await events.next("problem"))["code"] == "unauthenticated"
        assert await refused(gateway, url) == 401


async def test_a_key_by_cookie_ends_its_event_stream_as_by_header(gateway: Secured) -> None:
    key = await gateway.key(READ)
    cookie = {"Cookie": f"headgate_token={key}"}
    async with events_of(gateway.live, EVENTS, **cookie) as events:
        await events.next("ready")
        await events.next("caught_up")
        await gateway.revoke(key)
        assert (await events.next("problem"))["code"] == "unauthenticated"
        await events.ended()


async def test_a_keys_file_that_cannot_be_read_leaves_the_last_good_keys(gateway: Secured) -> None:
    key = await gateway.key(READ)
    good = await asyncio.to_thread(gateway.keys.path.read_bytes)
    path = gateway.keys.path
    warnings = gateway.live.gateway.credentials.warnings
    async with (
        gateway.client(key) as http,
        events_of(gateway.live, EVENTS, **bearer(key)) as events,
    ):
        await events.next("ready")
        await events.next("caught_up")
        for bad in (b"", b'{"version": 1, "keys": [', b"[" * 100_000, b"\xff", good + good):
            await asyncio.to_thread(path.write_bytes, bad)
            await until(lambda: any(warnings()))
            ready = await http.get("/readyz")
            assert ready.status_code == 200
            assert "keys file" in ready.json()["warnings"][0]
            assert str(path) not in ready.text
            assert (await http.get("/v1/streams/orders/entries")).status_code == 200
            await asyncio.to_thread(path.write_bytes, good)
            await until(lambda: not any(warnings()))
        await asyncio.to_thread(path.unlink)
        await until(lambda: any(warnings()))
        assert (await http.get("/v1/streams/orders/entries")).status_code == 200
        assert await refused(gateway, "/v1/streams") == 401  # no keys are not taken for no rules
        await asyncio.to_thread(path.write_bytes, b'{"version": 1, "keys": []}')
        assert (await events.next("problem"))["code"] == "unauthenticated"
        assert (await http.get("/v1/streams/orders/entries")).status_code == 401
