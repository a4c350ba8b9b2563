"""Readers whose cursor is above a stream that was made anew are told, and do not wait for ever."""

import json

import pytest

from headgate.engine.entry import MAX_ID
from tests.api.conftest import Live, refusal_of
from tests.api.live.event_source import events_of
from tests.api.live.frames import frames_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"
SALES = json.dumps({"prefix": {"v": "sale"}})
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
