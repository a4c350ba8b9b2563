"""Operators see the connections and their subscriptions, and cut off those they name."""

from contextlib import AsyncExitStack
from typing import Any

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live, refusal_of, running
from tests.api.live.event_source import events_of
from tests.api.live.frames import frames_of
from tests.api.resp.talk import Talk
from tests.conditions import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

PATH = "/v1/admin/connections"
EXHAUSTED = "credit_exhausted"
GROUP = "/v1/streams/orders/groups/billing"


async def connections(live: Live, **params: Any) -> list[dict[str, Any]]:
    page = (await live.http.get(PATH, params=params)).json()
    listed: list[dict[str, Any]] = page["connections"]
    return listed


async def cut_off(live: Live, connection_id: str) -> None:
    answer = await live.http.delete(f"{PATH}/{connection_id}")
    assert answer.status_code == 204, answer.text


async def counts_of_next_delivery(live: Live) -> list[int]:
    """Return the delivery counts of the next reader's entries."""
    taken = await live.read_group("orders", "billing", "ben", wait_ms=5_000)
    return [entry["deliveries"] for entry in taken["entries"]]


async def test_a_socket_is_listed_with_what_it_follows(shared: Live) -> None:
    await shared.create_group("orders", "billing")
    await shared.append("orders", "a", "b", "c")
    async with frames_of(shared, "/v1/ws") as frames:
        await frames.subscribe("s", after="0", credit=5)
        await frames.entries(3)
        await frames.states("caught_up")
        await frames.subscribe("g", group="billing", consumer="ann", credit=2)
        await frames.entries(2)
        await until(lambda: shared.waiter_count == 1)
        [listed] = await connections(shared)

    assert listed.pop("since_ms") > 1_700_000_000_000
    assert listed.pop("id")
    following: list[dict[str, Any]] = [
        {"group": None, "consumer": None, "state": "caught_up", "credit": 2, "held": None},
        {
            "group": "billing",
            "consumer": "ann",
            "state": "credit_exhausted",
            "credit": 0,
            "held": 2,
        },
    ]
    assert listed == {
        "transport": "websocket",
        "client": "127.0.0.1",
        "principal": "anonymous",
        "subscriptions": [{"stream": "orders", **each} for each in following],
        "subscription_count": 2,
        "sent_entries": 5,
        "outbox_bytes": 0,
    }


async def test_a_socket_that_is_cut_off_is_told_and_gives_back_what_it_holds(shared: Live) -> None:
    await shared.create_group("orders", "billing")
    await shared.append("orders", "a", "b")
    async with frames_of(shared, f"{GROUP}/ws?consumer=ann") as frames:
        await frames.next("subscribed")
        await frames.entries(2)
        [listed] = await connections(shared)
        await cut_off(shared, listed["id"])
        assert (await frames.problem())[1] == "cut_off"
        assert await frames.closed() == 4503

    assert await counts_of_next_delivery(shared) == [1, 1]
    assert await connections(shared) == []


async def test_events_that_are_cut_off_end_with_a_problem(shared: Live) -> None:
    await shared.create_group("orders", "billing")
    await shared.append("orders", "a", "b", "c")
    url = f"{GROUP}/events?consumer=ann&credit=2"
    async with events_of(shared, url, Accept="text/event-stream") as events:
        await events.next("ready")
        await events.entries(2)
        await until(lambda: shared.waiter_count == 1)
        [listed] = await connections(shared)
        await cut_off(shared, listed["id"])
        problem = await events.next("problem")
        await events.ended()

    assert listed["transport"] == "events"
    assert listed["sent_entries"] == 2
    [subscription] = listed["subscriptions"]
    assert (subscription["state"], subscription["held"]) == ("max_pending", 2)
    assert (problem["code"], problem["retryable"]) == ("cut_off", True)
    assert await counts_of_next_delivery(shared) == [1, 1, 1]


async def test_who_follows_the_history_is_listed_and_cut_off(shared: Live) -> None:
    async with events_of(shared, "/v1/admin/history/events") as events:
        await events.next("sample")
        [listed] = await connections(shared)
        await cut_off(shared, listed["id"])
        problem = await events.next("problem")
        await events.ended()

    assert (listed["transport"], listed["subscriptions"]) == ("events", [])
    assert problem["code"] == "cut_off"
    assert await connections(shared) == []


async def test_a_redis_client_is_listed_and_cut_off() -> None:
    async with running(Settings(redis_port=0)) as live:
        client = await Talk.open(live.redis_port)
        client.send(b"CLIENT ID\r\n")
        number = (await client.line()).removeprefix(b":").decode()
        [listed] = await connections(live)
        await cut_off(live, number)
        await client.hear_end()
        await until(lambda: not live.gateway.connections._by_id)

    assert (listed["id"], listed["transport"]) == (number, "redis")
    assert (listed["sent_entries"], listed["subscriptions"]) == (None, [])


async def test_connections_come_in_pages_by_id(shared: Live) -> None:
    await shared.append("orders", "a")
    async with AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(frames_of(shared, "/v1/ws"))
        first = (await shared.http.get(PATH, params={"limit": 2})).json()
        cursor = first["next_cursor"]
        second = (await shared.http.get(PATH, params={"limit": 2, "cursor": cursor})).json()

    ids = [each["id"] for each in first["connections"] + second["connections"]]
    assert len(ids) == 3
    assert ids == sorted(ids)
    assert refusal_of(await shared.http.delete(f"{PATH}/nobody"))[:2] == (404, "not_found")
    assert second["next_cursor"] is None
