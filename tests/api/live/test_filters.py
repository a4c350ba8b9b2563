"""Streams that are followed with a filter: only matches come, and the position moves on."""

import json
from urllib.parse import quote

import pytest

from tests.api.conftest import Live, refusal_of
from tests.api.live.event_source import events_of, lines_of, until_line
from tests.api.live.frames import frames_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"
EVENTS = f"{ORDERS}/events"
SALES = json.dumps({"prefix": {"v": "sale"}})


async def test_the_event_id_moves_past_what_does_not_match(shared: Live) -> None:
    ids = await shared.append("orders", "sale", "gift", "gift")

    async with lines_of(shared, f"{EVENTS}?after=0&filter={SALES}") as lines:
        before = await until_line(lines, f"id: {ids[2]}")
        assert f"id: {ids[0]}" in before
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
        await events.next("ready")
        assert (await events.next("position"))["at"] != last_id
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
        assert ([entry["id"] for entry in last["entries"]], last["credit_left"]) == ([sale], 0)
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
