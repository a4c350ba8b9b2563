"""Followers with a filter or a pattern, and of streams that are closed or made anew."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from headgate.app.settings import Settings
from headgate.engine.entry import MAX_ID
from tests.api.conftest import Live, refusal_of, running
from tests.api.live.event_source import Events, events_of, lines_of, until_line
from tests.api.live.frames import Frames, frames_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"
EVENTS = f"{ORDERS}/events"
SALES = json.dumps({"prefix": {"v": "sale"}})


async def test_the_event_id_moves_past_what_does_not_match(shared: Live) -> None:
    ids = await shared.append("orders", "sale", "gift", "gift")

    async with lines_of(shared, f"{EVENTS}?after=0&filter={SALES}") as lines:
        assert f"id: {ids[0]}" in await until_line(lines, f"id: {ids[2]}")
        await until_line(lines, "event: caught_up")
        assert json.loads((await anext(lines)).removeprefix("data: ")) == {"at": ids[2]}

        [gift] = await shared.append("orders", "gift")
        assert "event: entry" not in await until_line(lines, f"id: {gift}")
        [sale] = await shared.append("orders", "sale")
        await until_line(lines, f"id: {sale}")


async def test_a_stream_in_which_nothing_matches_is_caught_up(shared: Live) -> None:
    batch = [{"fields": {"v": "gift"}}] * 5_000
    answer = await shared.http.post("/v1/streams/orders/entries/batch", json=batch)
    last_id = answer.json()["ids"][-1]

    async with events_of(shared, f"{EVENTS}?after=0&filter={SALES}") as events:
        assert (await events.next("ready", "position"))["at"] != last_id
        assert await events.next("position") == {"at": last_id}
        assert await events.next("caught_up") == {"at": last_id}


async def test_a_gap_is_told_though_nothing_matches(shared: Live) -> None:
    ids = await shared.append("orders", "gift", "gift", "gift")
    await shared.http.post("/v1/streams/orders/trim", json={"max_length": 1})

    async with events_of(shared, f"{EVENTS}?after={ids[0]}&filter={SALES}") as events:
        assert (await events.next("ready"))["gap"] == {"from": ids[0], "to": ids[1]}
        assert await events.next("position") == {"at": ids[2]}
        assert await events.next("caught_up") == {"at": ids[2]}


async def test_a_subscription_is_sent_what_matches_and_pays_for_that_alone(shared: Live) -> None:
    ids = await shared.append("orders", *["gift"] * 20, "sale", "gift")

    async with frames_of(shared, "/v1/ws") as frames:
        await frames.subscribe("s", after="0", filter=[json.loads(SALES)], credit=2)
        frame = await frames.next("entries")
        assert [entry["id"] for entry in frame["entries"]] == [ids[20]]
        assert (frame["position"], frame["credit_left"]) == (ids[21], 1)
        await frames.states("caught_up")

        [gift] = await shared.append("orders", "gift")
        moved = await frames.next("entries")
        assert (moved["entries"], moved["position"], moved["credit_left"]) == ([], gift, 1)
        [sale] = await shared.append("orders", "sale")
        last = await frames.next("entries")
        assert [entry["id"] for entry in last["entries"]], last["credit_left"] == ([sale], 0)
        assert "position" not in last


async def test_followers_with_different_filters_are_sent_their_own(shared: Live) -> None:
    await shared.append("orders", "gift")
    async with frames_of(shared, "/v1/ws") as frames:
        for sub in ("a", "b", "c"):
            await frames.subscribe(sub, after="$", filter={"prefix": {"v": sub}})
        await frames.subscribe("all", after="$")
        ids = await shared.append("orders", "a", "b", "c", "b")
        heard: dict[str, list[str]] = {}
        while sum(map(len, heard.values())) < 8:
            frame = await frames.next("entries")
            heard.setdefault(frame["sub"], []).extend(e["id"] for e in frame["entries"])
    assert heard == {"a": ids[:1], "b": [ids[1], ids[3]], "c": ids[2:3], "all": ids}


async def test_the_short_form_has_a_filter_and_that_of_a_group_has_none(shared: Live) -> None:
    ids = await shared.append("orders", "gift", "sale")
    await shared.create_group("orders", "billing")
    async with frames_of(shared, f"{ORDERS}/ws?after=0&filter={quote(SALES)}") as frames:
        await frames.next("subscribed")
        assert await frames.ids(1) == ids[1:]
    async with frames_of(shared, f"{ORDERS}/groups/billing/ws?filter=[]") as frames:
        problem = (await frames.next("problem"))["problem"]
    assert problem["status"] == 422
    assert "`filters` in its policy" in problem["detail"]


async def test_a_bad_filter_is_refused(shared: Live) -> None:
    await shared.create_group("orders", "billing")
    answer = await shared.http.get(EVENTS, params={"filter": "{"})
    assert refusal_of(answer) == (422, "invalid_request", "/query/filter")
    async with frames_of(shared, "/v1/ws") as frames:
        for wrong, place in (
            ({"filter": {"exact": {"a": 1}}}, "/body/filter/exact/a"),
            ({"filter": {"present": "v"}, "group": "billing"}, "/body/filter"),
        ):
            await frames.send(type="subscribe", rid="r", sub="s", stream="orders", **wrong)
            problem = (await frames.next("problem"))["problem"]
            assert (problem["status"], problem["errors"][0]["pointer"]) == (422, place)
            assert ("`filters` in its policy" in problem["detail"]) == ("group" in wrong)


GAP = {"from": "100-0", "to": "5-0"}


async def made_anew(live: Live) -> None:
    """Make a stream with ids up to 5-0 in the place of one with ids up to 100-0."""
    for ids in (range(90, 101), range(1, 6)):
        await live.http.delete(ORDERS)
        for number in ids:
            await live.http.post(
                f"{ORDERS}/entries", json={"id": f"{number}-0", "fields": {"v": "sale"}}
            )


async def append(live: Live) -> None:
    await live.http.post(f"{ORDERS}/entries", json={"id": "6-0", "fields": {"v": "sale"}})


@pytest.mark.parametrize("query", ["", f"?filter={SALES}"])
async def test_events_tell_it_and_go_on_at_the_end(shared: Live, query: str) -> None:
    await made_anew(shared)
    async with events_of(shared, f"{ORDERS}/events{query}", **{"Last-Event-ID": "100-0"}) as events:
        assert (await events.next("ready"))["gap"] == GAP
        assert await events.next("caught_up") == {"at": "5-0"}
        await append(shared)
        assert await events.entries(1) == ["6-0"]


async def test_a_subscription_tells_it_and_goes_on_at_the_end(shared: Live) -> None:
    await made_anew(shared)
    async with frames_of(shared, "/v1/ws") as frames:
        assert (await frames.subscribe("a", after="100-0"))["gap"] == GAP
        await append(shared)
        while not (frame := await frames.next("entries"))["entries"]:
            assert frame["gap"] == GAP
        assert [entry["id"] for entry in frame["entries"]] == ["6-0"]


@pytest.mark.parametrize("live_read", ["", "&live=long-poll", "&live=sse"])
async def test_a_reader_of_a_durable_stream_is_told_to_begin_again(
    shared: Live, live_read: str
) -> None:
    await shared.http.put(
        "/v1/stream/chat", content=b"text", headers={"Content-Type": "text/plain"}
    )
    offset = f"{MAX_ID.ms:020d}_{0:020d}"
    answer = await shared.http.get(f"/v1/stream/chat?offset={offset}{live_read}")
    assert refusal_of(answer)[::2] == (410, "/query/offset")


GROUP = f"{ORDERS}/groups/billing"
LAST = {"fields": {"v": "last"}}


async def close(live: Live, entry: object = None) -> tuple[list[str], int]:
    end = await live.ask(f"POST {ORDERS}/close", entry)
    return end["ids"], end["closed_at_ms"]


# Events


async def test_events_of_a_stream_end_behind_the_last_entry(shared: Live) -> None:
    [first] = await shared.append("orders", "1")
    async with events_of(shared, f"{ORDERS}/events?after=0") as events:
        await events.next("ready")
        assert await events.entries(1) == [first]
        await events.next("caught_up")
        [last], closed_at_ms = await close(shared, LAST)
        assert await events.entries(1) == [last]
        assert await events.next("closed") == {"at": last, "closed_at_ms": closed_at_ms}
        await events.ended()


async def test_a_browser_that_has_read_it_all_is_told_not_to_come_back(shared: Live) -> None:
    ids = await shared.append("orders", "1", "2")
    await close(shared)
    url = f"{ORDERS}/events"
    async with events_of(shared, url, **{"Last-Event-ID": ids[0]}) as events:
        assert (await events.next("ready"))["resumed"]
        assert await events.entries(1) == ids[1:]
        await events.next("closed")
    text = (await shared.http.get(url)).text
    *_, last_id = (line[4:] for line in text.splitlines() if line.startswith("id: "))
    for seen in (ids[1], last_id):
        at_end = await shared.http.get(url, headers={"Last-Event-ID": seen})
        assert (at_end.status_code, at_end.content) == (204, b"")


async def test_who_acknowledges_by_coming_back_is_sent_away_to_do_so() -> None:
    url = f"{GROUP}/events?consumer=ana&ack=on_reconnect"
    async with running(Settings(heartbeat_ms=100)) as live:
        await live.create_group("orders", "billing")
        [first] = await live.append("orders", "1")
        async with events_of(live, url, Accept="text/event-stream") as events:
            await events.next("ready")
            assert await events.entries(1) == [first]
            await events.next("caught_up")
            await close(live)
            await events.ended()
        headers = {"Last-Event-ID": first, "Accept": "text/event-stream"}
        assert (await live.http.get(url, headers=headers)).status_code == 204


# Sockets


async def over(frames: Frames, at: str, closed_at_ms: int, sub: str = "s") -> None:
    """Assert that a subscription ends as that of a closed stream."""
    closed = {"type": "closed", "sub": sub, "at": at, "closed_at_ms": closed_at_ms}
    assert await frames.next("closed") == closed
    assert (await frames.next("unsubscribed"))["reason"] == "closed"


async def test_a_subscription_to_a_stream_ends_and_the_others_go_on(shared: Live) -> None:
    await shared.append("orders", "1")
    await shared.append("bills", "1")
    async with frames_of(shared, "/v1/ws") as frames:
        await frames.subscribe("s", after="$")
        await frames.send(type="subscribe", sub="t", stream="bills", after="$")
        await frames.next("subscribed")
        [last], closed_at_ms = await close(shared, LAST)
        assert await frames.ids(1) == [last]
        await over(frames, last, closed_at_ms)
        [bill] = await shared.append("bills", "2")
        assert await frames.ids(1) == [bill]

        await frames.send(type="append", rid="a", stream="orders", entries=[LAST])
        assert await frames.problem() == ("a", "stream_closed")
        await frames.subscribe("s", after="0")  # the name is free again
        await frames.ids(2)
        await over(frames, last, closed_at_ms)


@pytest.mark.parametrize("place", [f"{ORDERS}/ws?after=0", f"{GROUP}/ws?ack=none"])
async def test_a_socket_for_one_subscription_is_closed_with_it(shared: Live, place: str) -> None:
    await shared.create_group("orders", "billing")
    [last], closed_at_ms = await close(shared, LAST)
    async with frames_of(shared, place) as frames:
        await frames.next("subscribed")
        assert await frames.ids(1) == [last]
        await over(frames, last, closed_at_ms, sub="0")
        assert await frames.closed() == 1000


async def test_without_credit_the_end_comes_behind_the_credit(shared: Live) -> None:
    ids = await shared.append("orders", "1", "2")
    _, closed_at_ms = await close(shared)
    async with frames_of(shared, "/v1/ws") as frames:
        await frames.subscribe("s", after="0", credit=1)
        assert await frames.ids(1) == ids[:1]
        await frames.send(type="credit", sub="s", entries=1)
        assert await frames.ids(1) == ids[1:]
        await over(frames, ids[1], closed_at_ms)


PATTERN = "/v1/events?match=orders.*"


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
    async with events_of(shared, PATTERN) as events:
        assert (await events.next("ready"))["resumed"] is False
        await events.next("caught_up")
        await shared.append("orders.a", "1")
        await shared.append("bills", "2")
        await shared.append("orders.new", "3")
        assert await came(events, 2) == [("orders.a", "1"), ("orders.new", "3")]


async def test_events_go_on_behind_the_last_id(shared: Live) -> None:
    async with events_of(shared, PATTERN) as events:
        await events.next("ready")
        last_id = events.last_id
        await shared.append("orders.a", "1")
        assert await came(events, 1) == [("orders.a", "1")]
    for seen, missed in ((events.last_id, []), (last_id, [("orders.a", "1")])):
        headers = {"Last-Event-ID": seen}
        async with events_of(shared, PATTERN, **headers) as events:
            assert (await events.next("ready"))["resumed"] is True
            await shared.append("orders.b", "2")
            expected = [*missed, ("orders.b", "2")]
            assert await came(events, len(expected)) == expected
        assert (await shared.http.delete("/v1/streams/orders.b")).status_code == 204


async def test_events_begin_behind_an_id_and_pass_a_filter(shared: Live) -> None:
    await shared.append("orders.a", "gift", "sale 1")
    await shared.append("orders.b", "sale 2")
    sales = json.dumps({"prefix": {"v": "sale"}})
    async with events_of(shared, f"{PATTERN}&after=0&filter={sales}") as events:
        await events.next("ready")
        assert await came(events, 2) == [("orders.a", "sale 1"), ("orders.b", "sale 2")]


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
        ({"match": "a*", "consumer": "c"}, "/body/consumer"),
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
        assert (await frames.next("problem"))["problem"]["errors"][0]["pointer"] == pointer
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
