"""Patterns over events and sockets: streams that match come, and a cursor goes on behind them."""

import json
from typing import Any

import pytest

from tests.api.conftest import Live
from tests.api.live.event_source import Events, events_of
from tests.api.live.frames import Frames, frames_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVENTS = "/v1/events?match=orders.*"


async def came(events: Events, count: int) -> list[tuple[str, str]]:
    """Return the next entries, whatever is told between them, up to where their id stands."""
    entries: list[tuple[str, str]] = []
    kind = ""
    while len(entries) < count or kind != "position":
        kind, data = await events.any()
        if kind == "entry":
            entries.append((data["stream"], data["fields"]["v"]))
    return entries


async def test_events_are_of_all_streams_that_match(shared: Live) -> None:
    await shared.append("orders.a", "before")
    async with events_of(shared, EVENTS) as events:
        assert (await events.next("ready"))["resumed"] is False
        await events.next("caught_up")
        await shared.append("orders.a", "1")
        await shared.append("bills", "2")
        await shared.append("orders.new", "3")
        assert await came(events, 2) == [("orders.a", "1"), ("orders.new", "3")]


async def test_events_go_on_behind_the_last_id(shared: Live) -> None:
    async with events_of(shared, EVENTS) as events:
        await events.next("ready")
        last_id = events.last_id
        await shared.append("orders.a", "1")
        assert await came(events, 1) == [("orders.a", "1")]
    for seen, missed in ((events.last_id, []), (last_id, [("orders.a", "1")])):
        headers = {"Last-Event-ID": seen}
        async with events_of(shared, EVENTS, **headers) as events:
            assert (await events.next("ready"))["resumed"] is True
            await shared.append("orders.b", "2")
            expected = [*missed, ("orders.b", "2")]
            assert await came(events, len(expected)) == expected
        assert (await shared.http.delete("/v1/streams/orders.b")).status_code == 204


async def test_events_begin_behind_an_id_and_pass_a_filter(shared: Live) -> None:
    await shared.append("orders.a", "gift", "sale 1")
    await shared.append("orders.b", "sale 2")
    sales = json.dumps({"prefix": {"v": "sale"}})
    async with events_of(shared, f"{EVENTS}&after=0&filter={sales}") as events:
        await events.next("ready")
        expected = [("orders.a", "sale 1"), ("orders.b", "sale 2")]
        assert await came(events, 2) == expected


async def test_a_socket_follows_a_pattern(shared: Live) -> None:
    async with frames_of(shared, "/v1/ws") as frames:
        stood = await subscribed(frames, "p", match="orders.*")
        await shared.append("orders.a", "1", "2")
        first = await frames.next("entries")
        assert [(each["stream"], each["fields"]["v"]) for each in first["entries"]] == [
            ("orders.a", "1"),
            ("orders.a", "2"),
        ]
        await shared.append("orders.b", "3")
        await frames.next("entries")
        await subscribed(frames, "q", match="orders.*", after=first["position"])
        [entry] = (await frames.next("entries"))["entries"]
        assert (entry["stream"], entry["fields"]) == ("orders.b", {"v": "3"})
        await subscribed(frames, "r", match="orders.*", after=stood["position"])
        assert len(await frames.entries(3)) == 3


async def test_a_socket_gets_no_more_than_its_credit(shared: Live) -> None:
    await shared.append("orders.a", *map(str, range(5)))
    await shared.append("orders.b", *map(str, range(5)))
    async with frames_of(shared, "/v1/ws") as frames:
        await subscribed(frames, "p", match="orders.*", after="0", credit=7)
        assert len(await frames.entries(7)) == 7
        await frames.states("credit_exhausted")
        await frames.send(type="credit", sub="p", entries=3)
        assert len(await frames.entries(3)) == 3


@pytest.mark.parametrize(
    ("frame", "pointer"),
    [
        ({"match": "a*", "stream": "a"}, "/body/stream"),
        ({"match": "a*", "group": "g"}, "/body/match"),
        ({"match": "a" * 257}, "/body/match"),
        ({"match": "a*", "after": "+"}, "/body/after"),
        ({"match": "a*", "after": "no cursor"}, "/body/after"),
    ],
)
async def test_a_frame_that_makes_no_sense_is_refused(
    shared: Live, frame: dict[str, str], pointer: str
) -> None:
    async with frames_of(shared, "/v1/ws") as frames:
        await frames.send(type="subscribe", rid="1", sub="p", **frame)
        problem = (await frames.next("problem"))["problem"]
        assert problem["errors"][0]["pointer"] == pointer
    refused = [
        await shared.http.get(f"/v1/events?match={query}")
        for query in ("a*&after=x-y", "a*&after=%2B", "", "a" * 257)
    ]
    assert {answer.is_client_error for answer in refused} == {True}


async def test_a_connection_follows_so_many_patterns(shared: Live) -> None:
    limits = (await shared.http.get("/v1/limits")).json()
    async with frames_of(shared, "/v1/ws") as frames:
        for number in range(limits["patterns_max"]):
            await subscribed(frames, str(number), match="a*")
        await frames.send(type="subscribe", rid="x", sub="x", match="a*")
        assert await frames.problem() == ("x", "invalid_request")
        await frames.send(type="unsubscribe", sub="0")
        await frames.next("unsubscribed")
        await subscribed(frames, "x", match="a*")


async def subscribed(frames: Frames, sub: str, **frame: Any) -> dict[str, Any]:
    await frames.send(type="subscribe", rid=sub, sub=sub, **frame)
    answer = await frames.next("subscribed")
    assert answer["sub"] == sub
    return answer
