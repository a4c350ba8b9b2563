"""WebSockets: one socket that carries many subscriptions, and appends."""

import json
import zlib
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.api.live.frames import Frames, frames_of
from tests.conditions import until

WS = "/v1/ws"
STREAM = "/v1/streams/orders/ws"
GROUP = "/v1/streams/orders/groups/billing/ws"


@pytest.fixture
async def orders(live: Live) -> Live:
    """A gateway with a stream `orders` and its groups `billing` and `shipping`."""
    await live.create_group("orders", "billing")
    await live.create_group("orders", "shipping")
    return live


async def heard(frames: Frames, count: int) -> dict[str, list[str]]:
    """Return the ids of the next entries, by subscription."""
    frames_of_type: dict[str, list[str]] = {}
    while sum(map(len, frames_of_type.values())) < count:
        frame = await frames.next("entries")
        frames_of_type.setdefault(frame["sub"], []).extend(
            entry["id"] for entry in frame["entries"]
        )
    return frames_of_type


async def test_the_first_frame_tells_what_a_connection_may_ask_for() -> None:
    async with (
        running(Settings(subscriptions_max=7, frame_bytes_max=2048)) as live,
        connect(live.ws_url + WS) as socket,
    ):
        welcome = await Frames(socket).next("welcome")

    limits = welcome["limits"]
    assert (limits["subscriptions_max"], limits["frame_bytes_max"]) == (7, 2048)
    assert welcome["heartbeat_ms"] == 20_000
    assert len(welcome["connection"]) == 16


async def test_a_stream_and_two_groups_are_read_over_one_socket(orders: Live) -> None:
    async with frames_of(orders, WS) as frames:
        assert "consumer" not in await frames.subscribe("all", after="0")
        for group in ("billing", "shipping"):
            subscribed = await frames.subscribe(group, group=group, consumer="me")
            assert (subscribed["consumer"], subscribed["pending"]) == ("me", 0)
        await orders.until_waiting(3)
        ids = await orders.append("orders", "1", "2")
        assert await heard(frames, 6) == {"all": ids, "billing": ids, "shipping": ids}

        await frames.send(type="ack", rid="a", sub="billing", ids=ids)
        assert (await frames.next("acked"))["sub"] == "billing"
        pending = [
            (await orders.group("orders", name))["pending"] for name in ("billing", "shipping")
        ]
    assert pending == [0, 2]


async def test_each_of_those_who_follow_side_by_side_is_sent_its_own_frame(orders: Live) -> None:
    asked = [("a", 5), ("a", 5), ("a", 9), ("b", 9)]
    async with AsyncExitStack() as stack:
        sockets = [await stack.enter_async_context(frames_of(orders, WS)) for _ in asked]
        for frames, (sub, credit) in zip(sockets, asked, strict=True):
            await frames.subscribe(sub, credit=credit, after="$")
        await until(lambda: orders.gateway.fan_out.waiter_count == len(asked) - 1)
        for count in (1, 2):
            [new] = await orders.append("orders", str(count))
            for frames, (sub, credit) in zip(sockets, asked, strict=True):
                frame = await frames.next("entries")
                assert (frame["sub"], frame["credit_left"]) == (sub, credit - count)
                assert frame["entries"] == [{"id": new, "fields": {"v": str(count)}}]


async def test_whatever_carries_a_rid_is_answered_once_with_it(orders: Live) -> None:
    entry_id, other_id = await orders.append("orders", "1", "2")
    requests: list[tuple[dict[str, Any], str]] = [
        ({"type": "ping"}, "pong"),
        ({"type": "subscribe", "sub": "x", "stream": "orders"}, "subscribed"),
        ({"type": "subscribe", "sub": "x", "stream": "orders"}, "problem"),
        ({"type": "subscribe", "sub": "y", "stream": "nope"}, "problem"),
        ({"type": "subscribe", "sub": "y", "stream": "orders", "group": "nope"}, "problem"),
        ({"type": "extend", "sub": "g", "ids": [entry_id]}, "ok"),
        ({"type": "nack", "sub": "g", "ids": [other_id], "delay_ms": 60_000}, "ok"),
        ({"type": "ack", "sub": "g", "ids": [entry_id]}, "acked"),
        ({"type": "ack", "sub": "g", "ids": [entry_id]}, "acked"),
        ({"type": "ack", "sub": "g", "up_to": "0-1"}, "acked"),
        ({"type": "ack", "sub": "x", "ids": [entry_id]}, "problem"),
        ({"type": "append", "stream": "other", "entries": [{"fields": {"k": "v"}}]}, "appended"),
        ({"type": "append", "stream": "other", "entries": []}, "problem"),
        (
            {"type": "append", "stream": "other", "entries": [{"id": "1-0", "fields": {"k": "v"}}]},
            "problem",
        ),
        ({"type": "unsubscribe", "sub": "x"}, "unsubscribed"),
        ({"type": "unsubscribe", "sub": "x"}, "problem"),
        ({"type": "dance"}, "problem"),
    ]
    async with frames_of(orders, WS) as frames:
        await frames.subscribe("g", group="billing", consumer="me")
        await frames.entries(2)
        for number, (request, _) in enumerate(requests):
            await frames.send(rid=str(number), **request)
        await frames.send(type="ping", rid="last")
        answers: list[tuple[str, str]] = []
        while not answers or answers[-1][0] != "last":
            frame = await frames.any()
            if "rid" in frame:
                answers.append((frame["rid"], frame["type"]))
    expected = [(str(number), kind) for number, (_, kind) in enumerate(requests)]
    assert answers == [*expected, ("last", "pong")]


async def test_what_an_ended_subscription_held_goes_to_another_consumer(orders: Live) -> None:
    ids = await orders.append("orders", "1", "2")
    async with frames_of(orders, WS) as first, frames_of(orders, WS) as second:
        await first.subscribe("g", group="billing", consumer="one")
        assert await first.ids(2) == ids
        await second.subscribe("g", group="billing", consumer="two")
        await orders.until_waiting(2)
        await first.send(type="unsubscribe", rid="u", sub="g")
        assert await first.next("unsubscribed") == {
            "type": "unsubscribed",
            "rid": "u",
            "sub": "g",
            "reason": "requested",
        }
        entries = await second.entries(2)
        assert [(entry["id"], entry["deliveries"]) for entry in entries] == [
            (entry_id, 1) for entry_id in ids
        ]
        await orders.until_waiting(1)
        await first.subscribe("g", group="billing", consumer="one")  # the name is free again
        await orders.until_waiting(2)


async def test_answers_come_in_the_order_of_the_frames(tmp_path: Path) -> None:
    async with running(Settings(data_dir=tmp_path)) as live, frames_of(live, WS) as frames:
        for number in range(400):
            entries = [{"fields": {"v": str(number), "pad": "x" * (10 if number % 97 else 5000)}}]
            wrong = [] if number % 83 == 0 else entries
            frame = {"type": "append", "stream": "orders", "entries": wrong}
            await frames.send(rid=str(number), **(frame if number % 71 else {"type": "ping"}))
        answers = [await frames.any() for _ in range(400)]
        read = (await live.http.get("/v1/streams/orders/entries?limit=400")).json()["entries"]
    assert [answer["rid"] for answer in answers] == [str(number) for number in range(400)]
    appended = [answer for answer in answers if answer["type"] == "appended"]
    assert len(appended) == 390
    assert [(answer["ids"][0], answer["rid"]) for answer in appended] == [
        (entry["id"], entry["fields"]["v"]) for entry in read
    ]


async def test_who_held_an_entry_is_told_that_another_consumer_has_it(orders: Live) -> None:
    lost, kept = await orders.append("orders", "1", "2")
    async with frames_of(orders, WS) as frames:
        await frames.subscribe("g", group="billing", consumer="me")
        await frames.entries(2)
        await orders.read_group("orders", "billing", "thief", claim_idle_ms=0, limit=1)
        claimed = {"type": "claimed", "sub": "g", "ids": [lost], "by": "thief"}
        assert await frames.next("claimed") == claimed
        await frames.send(type="ack", rid="a", sub="g", up_to=kept)
        assert [result["id"] for result in (await frames.next("acked"))["results"]] == [kept]
        await orders.http.delete("/v1/streams/orders/groups/billing")
        assert (await frames.next("problem"))["problem"]["code"] == "group_not_found"
        assert (await frames.next("unsubscribed"))["reason"] == "gone"


async def test_there_are_no_more_connections_than_there_may_be() -> None:
    async with running(Settings(connections_max=1)) as live:
        await live.create_group("orders", "billing")
        async with frames_of(live, WS) as frames:
            async with connect(live.ws_url + WS) as second:
                refused = Frames(second)
                assert await refused.problem() == (None, "too_many_connections")
                assert await refused.closed() == 1013
            for path in ("events", "groups/billing/events"):
                answer = await live.http.get(f"/v1/streams/orders/{path}")
                assert (answer.status_code, answer.json()["code"]) == (429, "too_many_connections")
            await frames.send(type="ping", rid="still here")
            await frames.next("pong")
        await until(lambda: live.gateway.metrics.connection_count == 0)
        async with frames_of(live, WS) as frames:
            await frames.subscribe("all")


async def test_a_connection_that_lasted_long_enough_is_told_to_come_back() -> None:
    async with running(Settings(connection_ms_max=1000)) as live:
        await live.create_group("orders", "billing")
        ids = await live.append("orders", "1")
        async with frames_of(live, f"{GROUP}?consumer=me") as frames:
            await frames.next("subscribed")
            assert await frames.ids(1) == ids
            assert 1000 <= (await frames.next("draining"))["reconnect_after_ms"] <= 3000
            assert await frames.closed() == 1012
        got = await live.read_group("orders", "billing", "next", wait_ms=5000)
        assert [entry["id"] for entry in got["entries"]] == ids


async def test_a_small_frame_that_inflates_to_a_big_one_closes_the_socket() -> None:
    bomb = json.dumps({"type": "ping", "rid": "x" * 10_000_000})
    assert len(zlib.compress(bomb.encode())) < 16_384
    async with running(Settings(frame_bytes_max=16_384)) as live:
        async with frames_of(live, WS) as frames:
            assert frames.socket.protocol.extensions, "compression was not agreed on"
            await frames.socket.send(bomb)
            assert await frames.closed() == 1009
        assert (await live.http.get("/healthz")).status_code == 200


@pytest.mark.parametrize(
    ("policy", "chosen", "is_kept"),
    [
        (None, None, False),
        (None, "keep", True),
        ("keep", None, True),
        ("keep", "release", False),
        ("release", None, False),
    ],
)
async def test_what_is_not_settled_in_the_end_is_kept_or_goes_back_as_was_said(
    live: Live, policy: str | None, chosen: str | None, is_kept: bool
) -> None:
    body = {"start": "0", "create_stream": True}
    rules = {} if policy is None else {"policy": {"on_disconnect": policy}}
    await live.http.put("/v1/streams/orders/groups/billing", json={**body, **rules})
    await live.append("orders", "1")
    async with frames_of(live, WS) as frames:
        more = {} if chosen is None else {"on_disconnect": chosen}
        await frames.subscribe("g", group="billing", consumer="me", **more)
        await frames.entries(1)
    await until(lambda: live.gateway.metrics.connection_count == 0)

    got = await live.read_group("orders", "billing", "other")

    assert len(got["entries"]) == (0 if is_kept else 1)


async def test_a_connection_that_ends_while_it_unsubscribes_strands_nothing(orders: Live) -> None:
    for round_number in range(50):
        [entry_id] = await orders.append("orders", str(round_number))
        socket = await connect(orders.ws_url + WS).__aenter__()
        frames = Frames(socket)
        await frames.next("welcome")
        await frames.subscribe("g", group="billing")
        assert await frames.ids(1) == [entry_id]
        await frames.send(type="unsubscribe", sub="g")
        socket.transport.abort()
        await until(lambda: orders.gateway.metrics.connection_count == 0)
        group = await orders.group("orders", "billing")
        assert group["consumers"] == 0 or group["consumers"] == 1, group
        got = await orders.read_group("orders", "billing", "next", ack=[])
        assert [entry["id"] for entry in got["entries"]] == [entry_id]
        await orders.outcomes("ack", "orders", "billing", [entry_id])
    assert (await orders.group("orders", "billing"))["consumers"] == 1


async def test_who_has_read_all_has_caught_up_though_the_last_is_deleted(live: Live) -> None:
    kept, deleted = await live.append("orders", "1", "2")
    await live.http.delete(f"/v1/streams/orders/entries/{deleted}")

    async with frames_of(live, f"{STREAM}?after=0") as frames:
        await frames.next("subscribed")
        assert await frames.ids(1) == [kept]
        await frames.states("caught_up")
