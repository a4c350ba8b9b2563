"""The end of a closed stream, as followers and groups are told of it."""

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.api.live.event_source import events_of
from tests.api.live.frames import Frames, frames_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"
GROUP = f"{ORDERS}/groups/billing"
LAST = {"fields": {"v": "last"}}


async def close(live: Live, entry: object = None) -> tuple[list[str], int]:
    answer = await live.http.post(f"{ORDERS}/close", json=entry)
    assert answer.status_code == 200, answer.text
    return answer.json()["ids"], answer.json()["closed_at_ms"]


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


async def test_events_of_a_group_end_once_all_is_settled(shared: Live) -> None:
    await shared.create_group("orders", "billing")
    [first] = await shared.append("orders", "1")
    async with events_of(shared, f"{GROUP}/events?consumer=ana", Accept="text/event-stream") as ana:
        await ana.next("ready")
        assert await ana.entries(1) == [first]
        await ana.next("caught_up")
        _, closed_at_ms = await close(shared)
        ack = await shared.http.post(f"{GROUP}/ack?consumer=ana", json={"ids": [first]})
        assert ack.status_code == 200
        assert await ana.next("closed") == {"at": first, "closed_at_ms": closed_at_ms}
        await ana.ended()
    headers = {"Last-Event-ID": first, "Accept": "text/event-stream"}
    answer = await shared.http.get(f"{GROUP}/events?consumer=ana", headers=headers)
    assert answer.status_code == 204


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
