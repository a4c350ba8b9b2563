"""Endings: connections end with their credential, and their entries go to the next reader."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect

from headgate.app.auth.grants import Grant, Verb
from headgate.engine.clock import SystemClock
from tests.api.auth.secured import Secured, secured
from tests.api.live.event_source import events_of
from tests.api.live.frames import Frames
from tests.conditions import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

READ = Grant(streams=["orders"], do=[Verb.READ])
WORK = Grant(streams=["orders"], groups=["billing", "shipping"], do=[Verb.CONSUME])
EVENTS = "/v1/streams/orders/events"
GROUP_EVENTS = "/v1/streams/orders/groups/billing/events?consumer=me"
GROUP_SOCKET = "/v1/streams/orders/groups/shipping/ws?consumer=me&credit=8"
BLOCKED = ["XREAD", "BLOCK", "0", "STREAMS", "orders", "$"]


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def groups(gateway: Secured) -> None:
    for group in ("billing", "shipping"):
        await gateway.live.create_group("orders", group)


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
        return (await http.get(url, headers={"Accept": "text/event-stream, */*"})).status_code


async def test_all_that_a_key_opened_ends_and_the_next_gets_what_it_held(gateway: Secured) -> None:
    live, key = gateway.live, await gateway.key(READ, WORK)
    ids = await live.append("orders", "1", "2", "3")
    by_ticket = f"{EVENTS}?ticket={await ticket(gateway, key, do=['read'], ttl_ms=3_600_000)}"
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(gateway.client(key))
        following = []
        for url, headers in (
            (EVENTS, bearer(key)),
            (EVENTS, {"Cookie": f"headgate_token={key}"}),
            (by_ticket, {}),
        ):
            events = await stack.enter_async_context(events_of(live, url, **headers))
            await events.next("ready", "caught_up")
            following.append(events)
        events = await stack.enter_async_context(events_of(live, GROUP_EVENTS, **bearer(key)))
        await events.next("ready")
        assert await events.entries(3) == ids
        await events.next("caught_up")
        following.append(events)
        sockets = []
        for url in ("/v1/ws", GROUP_SOCKET):
            opened = connect(live.ws_url + url, additional_headers=bearer(key))
            sockets.append(Frames(await stack.enter_async_context(opened)))
            await sockets[-1].next("welcome")
        await sockets[1].next("subscribed")
        assert await sockets[1].ids(3) == ids
        await sockets[1].send(type="ack", rid="a", ids=ids[:1])
        await sockets[1].next("acked")
        blocked = [
            asyncio.create_task(http.post("/v1/commands", json=BLOCKED)),
            asyncio.create_task(http.post("/v1/commands/pipeline", json=[BLOCKED, ["PING"]])),
        ]
        await live.until_waiting(len(following) + 1 + len(blocked))

        await gateway.revoke(key)

        for events in following:
            assert (await events.next("problem"))["code"] == "unauthenticated"
            await events.ended()
        for frames in sockets:
            assert (await frames.problem())[1] == "unauthenticated"
            assert await frames.closed() == 4401
        for answer in await asyncio.gather(*blocked):
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    await live.until_waiting(0)
    assert await refused(gateway, by_ticket) == 401
    for group, held in (("billing", ids), ("shipping", ids[1:])):
        read = await live.read_group("orders", group, "other")
        got = [(entry["id"], entry["deliveries"]) for entry in read["entries"]]
        assert got == [(entry_id, 1) for entry_id in held]


async def test_what_a_key_and_a_ticket_opened_ends_with_them(gateway: Secured) -> None:
    ending_ms = SystemClock().wall_ms() + 3000
    expiring = await gateway.key(READ, expires_at_ms=ending_ms)
    short = await ticket(gateway, await gateway.key(READ), do=["read"], ttl_ms=3000)
    longer = await ticket(gateway, expiring, do=["read"], ttl_ms=3_600_000)
    async with AsyncExitStack() as stack:
        following = []
        for query, headers in (
            ("", bearer(expiring)),
            (f"?ticket={short}", {}),
            (f"?ticket={longer}", {}),
        ):
            opened = events_of(gateway.live, EVENTS + query, **headers)
            following.append(await stack.enter_async_context(opened))
        for events in following:
            for kind in ("ready", "caught_up"):
                await events.next(kind)
            assert (await events.next("problem"))["code"] == "unauthenticated"
            await events.ended()
    for text in (short, longer):
        assert await refused(gateway, f"{EVENTS}?ticket={text}") == 401


async def test_a_blocked_read_ends_with_its_key_and_takes_nothing_with_it(gateway: Secured) -> None:
    for steps in range(8):  # the entry comes at about the moment at which the key ends
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


async def test_a_ticket_is_for_what_it_says_and_for_no_more_than_its_owner_may(
    gateway: Secured,
) -> None:
    await gateway.live.append("news", "1")
    key = await gateway.key(Grant(streams=["*"], do=[Verb.READ, Verb.CONSUME, Verb.APPEND]))
    reading = await ticket(gateway, key, do=["read"])
    working = await ticket(gateway, key, do=["consume"], group="billing", consumer="me")
    for url in (f"{EVENTS}?ticket={reading}", f"{GROUP_EVENTS}&ticket={working}"):
        async with events_of(gateway.live, url, Accept="text/event-stream") as events:
            await events.next("ready")
    groups = "/v1/streams/orders/groups"
    for url in (
        f"/v1/streams/news/events?ticket={reading}",
        f"/v1/streams/nowhere/events?ticket={reading}",
        f"{GROUP_EVENTS}&ticket={reading}",
        f"{EVENTS}?ticket={working}",
        f"{groups}/billing/events?consumer=you&ticket={working}",
        f"{groups}/billing/events?ticket={working}",
        f"{groups}/shipping/events?consumer=me&ticket={working}",
    ):
        assert await refused(gateway, url) == 403, url
    entry = {"type": "append", "rid": "a", "stream": "orders", "entries": [{"fields": {"v": "1"}}]}
    async with connect(f"{gateway.live.ws_url}/v1/ws?ticket={reading}") as socket:
        frames = Frames(socket)
        await frames.next("welcome")
        await frames.send(**entry)
        assert await frames.problem() == ("a", "forbidden")
        await frames.send(type="auth", rid="b", token=await ticket(gateway, key, do=["append"]))
        assert (await frames.next("authenticated"))["rid"] == "b"
        await frames.send(**entry)
        assert (await frames.next("appended"))["rid"] == "a"
    async with gateway.client(reading) as http:
        assert (await http.get("/v1/streams/orders/entries")).status_code == 200
        for refusal in (
            http.post("/v1/streams/orders/entries", json={"fields": {"v": "1"}}),
            http.get("/v1/streams/news/entries"),
            http.delete("/v1/streams/orders"),
            http.post("/v1/tickets", json={"stream": "news", "do": ["read"]}),
        ):
            assert (await refusal).status_code == 403
    async with gateway.client(await gateway.key(READ)) as http:
        answer = await http.post("/v1/tickets", json={"stream": "orders", "do": ["read", "append"]})
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_a_ticket_makes_no_ticket_that_outlives_it(gateway: Secured) -> None:
    wanted = {"stream": "orders", "do": ["read"], "ttl_ms": 60_000}
    async with gateway.client(await gateway.key(READ)) as http:
        first = (await http.post("/v1/tickets", json=wanted)).json()
    async with gateway.client(first["ticket"]) as http:
        second = (await http.post("/v1/tickets", json={**wanted, "ttl_ms": 3_600_000})).json()
    assert second["expires_at_ms"] == first["expires_at_ms"]


async def test_a_keys_file_that_cannot_be_read_leaves_the_last_good_keys(tmp_path: Path) -> None:
    async with secured(tmp_path) as gateway:
        await gateway.live.append("orders", "1")
        key, path = await gateway.key(READ), gateway.keys.path
        good = await asyncio.to_thread(path.read_bytes)
        warnings = gateway.live.gateway.credentials.warnings
        async with (
            gateway.client(key) as http,
            events_of(gateway.live, EVENTS, **bearer(key)) as events,
        ):
            await events.next("ready", "caught_up")
            await asyncio.to_thread(path.write_bytes, b'{"version": 1, "keys": [')
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
            assert await refused(gateway, "/v1/streams") == 401  # not taken for no rules
            await asyncio.to_thread(path.write_bytes, b'{"version": 1, "keys": []}')
            assert (await events.next("problem"))["code"] == "unauthenticated"
            assert (await http.get("/v1/streams/orders/entries")).status_code == 401
