"""One group over a pattern, followed by events and by a socket."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.api.conftest import Live, refusal_of
from tests.api.live.event_source import events_of
from tests.api.live.frames import Frames, frames_of
from tests.conditions import WITHIN_S

pytestmark = pytest.mark.asyncio(loop_scope="session")

CREATE = {"start": "0"}
EVENTS = f"/v1/groups/billing/events?match=orders.*&create={quote(json.dumps(CREATE))}"
SSE = {"accept": "text/event-stream"}


async def subscribed(frames: Frames, **more: Any) -> dict[str, Any]:
    await frames.send(
        type="subscribe",
        **{
            "rid": "1",
            "sub": "g",
            "match": "orders.*",
            "group": "billing",
            "create": CREATE,
            **more,
        },
    )
    return await frames.next("subscribed")


def sent(entries: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(entry["stream"], entry["fields"]["v"]) for entry in entries]


async def pending(live: Live, stream: str) -> int:
    return int((await live.group(stream, "billing"))["pending"])


async def until_released(live: Live, stream: str, count: int) -> None:
    """Return once so many entries of the group have no owner."""
    async with asyncio.timeout(WITHIN_S):
        while (await live.group(stream, "billing"))["released"] != count:
            await asyncio.sleep(0)


async def test_a_socket_reads_streams_in_turns_and_settles_by_stream(shared: Live) -> None:
    for name in ("a", "b"):
        await shared.append(f"orders.{name}", f"{name}0", f"{name}1")
    async with frames_of(shared, "/v1/ws") as frames:
        assert (await subscribed(frames, consumer="me", credit=2))["consumer"] == "me"
        first = await frames.entries(2)
        assert sent(first) == [("orders.a", "a0"), ("orders.b", "b0")]
        await frames.send(type="ack", rid="2", sub="g", stream="orders.b", ids=[first[1]["id"]])
        acked = await frames.next("acked")
        assert acked["stream"] == "orders.b"
        assert acked["results"] == [{"id": first[1]["id"], "outcome": "acked"}]
        await frames.send(type="credit", sub="g", entries=10)
        assert sent(await frames.entries(2)) == [("orders.a", "a1"), ("orders.b", "b1")]
        await shared.append("orders.new", "c0")
        assert sent(await frames.entries(1)) == [("orders.new", "c0")]
    for stream, count in (("orders.a", 2), ("orders.b", 1), ("orders.new", 1)):
        await until_released(shared, stream, count)


async def test_frames_about_entries_name_their_stream(shared: Live) -> None:
    [entry_id] = await shared.append("orders.a", "1")
    async with frames_of(shared, "/v1/ws") as frames:
        await subscribed(frames)
        await frames.entries(1)
        for frame in (
            {"type": "ack", "ids": [entry_id]},
            {"type": "nack", "ids": [entry_id], "stream": "orders.none"},
            {"type": "extend", "ids": [entry_id], "stream": "a/b"},
            {"type": "ack", "up_to": entry_id, "stream": "orders.a"},
        ):
            await frames.send(rid="2", sub="g", **frame)
            problem = (await frames.next("problem"))["problem"]
            pointer = "/body/up_to" if "up_to" in frame else "/body/stream"
            assert problem["errors"][0]["pointer"] == pointer
        await frames.send(
            type="nack", rid="3", sub="g", stream="orders.a", ids=[entry_id], mode="silent"
        )
        assert (await frames.next("ok"))["results"][0]["outcome"] == "released"
        assert sent(await frames.entries(1)) == [("orders.a", "1")]


@pytest.mark.parametrize(
    ("frame", "pointer"),
    [
        ({"group": None}, "/body/create"),
        ({"match": None, "stream": "orders.a"}, "/body/create"),
        ({"weights": {"orders.a": 101}}, "/body/weights/orders.a"),
        ({"after": "0"}, "/body/after"),
        ({"filter": {"exact": {"v": "1"}}}, "/body/filter"),
    ],
)
async def test_a_subscription_that_makes_no_sense_is_refused(
    shared: Live, frame: dict[str, Any], pointer: str
) -> None:
    base = {"rid": "1", "sub": "g", "match": "orders.*", "group": "billing", "create": CREATE}
    wanted = {key: value for key, value in {**base, **frame}.items() if value is not None}
    async with frames_of(shared, "/v1/ws") as frames:
        await frames.send(type="subscribe", **wanted)
        problem = (await frames.next("problem"))["problem"]
    assert problem["errors"][0]["pointer"] == pointer


async def test_events_say_their_stream_and_credit_counts_over_all(shared: Live) -> None:
    for name in ("a", "b"):
        await shared.append(f"orders.{name}", f"{name}0", f"{name}1")
    async with events_of(shared, f"{EVENTS}&consumer=me&credit=3", **SSE) as events:
        assert await events.next("ready") == {"consumer": "me"}
        came = [(await events.any())[1] for _ in range(3)]
        assert sent(came) == [("orders.a", "a0"), ("orders.a", "a1"), ("orders.b", "b0")]
        own = [{"stream": came[0]["stream"], "ids": [came[0]["id"]]}]
        await shared.ask("POST /v1/groups/billing/ack?consumer=me", {"entries": own})
        assert sent([(await events.any())[1]]) == [("orders.b", "b1")]
    await until_released(shared, "orders.b", 2)


async def test_what_a_consumer_keeps_comes_again_first(shared: Live) -> None:
    for name in ("a", "b"):
        await shared.append(f"orders.{name}", f"{name}0")
    url = f"{EVENTS}&consumer=me&on_disconnect=keep"
    for _ in range(2):
        async with events_of(shared, url, **SSE) as events:
            await events.next("ready")
            came = [(await events.any())[1] for _ in range(2)]
            assert sent(came) == [("orders.a", "a0"), ("orders.b", "b0")]
            await events.next("caught_up")
    assert [await pending(shared, f"orders.{name}") for name in ("a", "b")] == [1, 1]


async def test_bad_event_requests_are_refused(shared: Live) -> None:
    for query, pointer in (
        ("", "/query/match"),
        ("match=orders.*&create=x", "/query/create"),
        ("match=orders.*&credit=0", "/query/credit"),
    ):
        answer = await shared.http.get(f"/v1/groups/billing/events?{query}", headers=SSE)
        assert refusal_of(answer) == (422, "invalid_request", pointer)
    answer = await shared.http.get("/v1/groups/billing/events?match=orders.*")
    assert answer.status_code == 406
