"""Nothing of a connection that has ended waits for the garbage collector, however it ended.

The collector looks at new objects only, so a connection that was open for longer would stay.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from contextlib import suppress

import httpx
import pytest
from fastapi import Request

from headgate.app.http.streaming import PatientResponse
from headgate.app.live.connection import Connection
from headgate.app.live.subscription import Subscription
from headgate.app.settings import Settings
from headgate.app.transport.intake import BoundedWebSocket
from headgate.app.transport.requests import BoundedHttp
from headgate.engine.loop.wait_queue import Waiter
from tests.api.conftest import Live, running
from tests.api.live.event_source import events_of
from tests.api.live.frames import frames_of
from tests.conditions import until

KINDS = (
    BoundedHttp,
    BoundedWebSocket,
    Connection,
    PatientResponse,
    Request,
    Subscription,
    Waiter,
)
STREAM = "/v1/streams/orders"
GROUP = "/v1/streams/orders/groups/billing"

Conversation = Callable[[Live, str], Awaitable[None]]


async def _delete_stream(live: Live) -> None:
    assert (await live.http.delete(STREAM)).is_success


async def _cut_off(live: Live) -> None:
    [connection] = (await live.http.get("/v1/admin/connections")).json()["connections"]
    answer = await live.http.delete(f"/v1/admin/connections/{connection['id']}")
    assert answer.is_success


async def a_socket_that_is_closed(live: Live, what: str) -> None:
    async with frames_of(live, f"{what}/ws") as frames:
        await frames.next("subscribed")
        await frames.states("caught_up")


async def a_socket_that_is_gone(live: Live, what: str) -> None:
    async with frames_of(live, f"{what}/ws") as frames:
        await frames.next("subscribed")
        await frames.states("caught_up")
        frames.socket.transport.abort()


async def a_socket_that_is_gone_before_it_is_served(live: Live, what: str) -> None:
    async with frames_of(live, f"{what}/ws") as frames:
        frames.socket.transport.abort()


async def a_socket_whose_stream_is_deleted(live: Live, what: str) -> None:
    async with frames_of(live, f"{what}/ws") as frames:
        await frames.next("subscribed")
        await frames.states("caught_up")
        await _delete_stream(live)
        assert await frames.closed() == 4404


async def a_socket_that_is_cut_off(live: Live, what: str) -> None:
    async with frames_of(live, f"{what}/ws") as frames:
        await frames.next("subscribed")
        await frames.states("caught_up")
        await _cut_off(live)
        assert await frames.closed() == 4503


async def a_socket_that_talks_nonsense(live: Live, what: str) -> None:
    async with frames_of(live, f"{what}/ws") as frames:
        await frames.next("subscribed")
        await frames.states("caught_up")
        await frames.socket.send(b"nonsense")
        assert await frames.closed() == 4400


async def a_subscription_that_is_unsubscribed(live: Live, what: str) -> None:
    group = {"group": "billing"} if what == GROUP else {}
    async with frames_of(live, "/v1/ws") as frames:
        await frames.subscribe("a", **group)
        await frames.states("caught_up")
        await frames.send(type="unsubscribe", sub="a")
        await frames.next("unsubscribed")


async def a_subscription_whose_stream_is_deleted(live: Live, what: str) -> None:
    group = {"group": "billing"} if what == GROUP else {}
    async with frames_of(live, "/v1/ws") as frames:
        await frames.subscribe("a", **group)
        await frames.states("caught_up")
        await _delete_stream(live)
        await frames.problem()
        await frames.next("unsubscribed")


async def a_subscription_that_is_refused(live: Live, what: str) -> None:
    group = {"group": "none"} if what == GROUP else {}
    async with frames_of(live, "/v1/ws") as frames:
        await frames.send(type="subscribe", sub="a", stream="none", **group)
        await frames.problem()


async def a_short_form_that_is_refused(live: Live, what: str) -> None:
    async with frames_of(live, f"{what.replace('orders', 'none')}/ws") as frames:
        await frames.problem()
        await frames.closed()


async def events_that_are_left(live: Live, what: str) -> None:
    async with events_of(live, f"{what}/events") as events:
        await events.next("ready")
        await events.next("caught_up")


async def events_that_are_cut_off(live: Live, what: str) -> None:
    async with events_of(live, f"{what}/events") as events:
        await events.next("ready")
        await events.next("caught_up")
        await _cut_off(live)
        await events.next("problem")


async def events_whose_stream_is_deleted(live: Live, what: str) -> None:
    async with events_of(live, f"{what}/events") as events:
        await events.next("ready")
        await events.next("caught_up")
        await _delete_stream(live)
        await events.next("problem")


async def a_long_poll_that_is_left(live: Live, what: str) -> None:
    with suppress(httpx.ReadTimeout):
        if what == GROUP:
            body = {"wait_ms": 60_000}
            await live.http.post(f"{what}/read?consumer=me", json=body, timeout=0.2)
        else:
            await live.http.get(f"{what}/entries?after=$&wait_ms=60000", timeout=0.2)


async def a_long_poll_whose_stream_is_deleted(live: Live, what: str) -> None:
    if what == GROUP:
        poll = live.http.post(f"{what}/read?consumer=me", json={"wait_ms": 60_000})
    else:
        poll = live.http.get(f"{what}/entries?after=$&wait_ms=60000")
    polling = asyncio.create_task(poll)
    await live.until_waiting(1)
    await _delete_stream(live)
    assert (await polling).status_code == 404


async def a_handshake_that_is_refused(live: Live, what: str) -> None:
    key = {"Sec-WebSocket-Key": "none", "Sec-WebSocket-Version": "13"}
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", **key}
    assert (await live.http.get(f"{what}/ws", headers=upgrade)).status_code == 400


async def commands_that_fail(live: Live, what: str) -> None:
    commands = [["NOPE"], ["XADD", "orders", "0-0", "a", "b"], ["XREAD", "STREAMS", what]]
    for path in ("pipeline", "multi-exec"):
        await live.http.post(f"/v1/commands/{path}", json=commands)


async def samples_that_are_cut_off(live: Live, what: str) -> None:
    async with events_of(live, "/v1/admin/history/events") as events:
        await events.next("sample")
        await _cut_off(live)
        await events.next("problem")


def _left() -> dict[int, object]:
    return {id(thing): thing for thing in gc.get_objects() if issubclass(type(thing), KINDS)}


async def _until_nothing_is_left(live: Live, conversation: Callable[[], Awaitable[None]]) -> None:
    """Converse while nothing is collected, and return once nothing but counting has freed it."""
    gc.collect()
    others = _left()  # of tests before this one
    gc.disable()
    try:
        await conversation()
        await live.http.aclose()
        with suppress(TimeoutError):
            await until(lambda: _left().keys() <= others.keys(), within_s=5)
        assert [thing for key, thing in _left().items() if key not in others] == []
    finally:
        gc.enable()


@pytest.mark.parametrize("what", [STREAM, GROUP])
@pytest.mark.parametrize(
    "conversation",
    [
        a_socket_that_is_closed,
        a_socket_that_is_gone,
        a_socket_that_is_gone_before_it_is_served,
        a_socket_whose_stream_is_deleted,
        a_socket_that_is_cut_off,
        a_socket_that_talks_nonsense,
        a_subscription_that_is_unsubscribed,
        a_subscription_whose_stream_is_deleted,
        a_subscription_that_is_refused,
        a_short_form_that_is_refused,
        events_that_are_left,
        events_that_are_cut_off,
        events_whose_stream_is_deleted,
        a_long_poll_that_is_left,
        a_long_poll_whose_stream_is_deleted,
        a_handshake_that_is_refused,
        commands_that_fail,
        samples_that_are_cut_off,
    ],
)
async def test_reference_counts_free_it(live: Live, conversation: Conversation, what: str) -> None:
    await live.create_group("orders", "billing")
    await _until_nothing_is_left(live, lambda: conversation(live, what))


async def until_both_are_drained(live: Live, what: str) -> None:
    async with frames_of(live, f"{what}/ws") as frames, events_of(live, f"{what}/events") as events:
        await frames.next("subscribed")
        await events.next("ready")
        await events.next("caught_up")
        await frames.next("draining")
        await events.next("draining")


@pytest.mark.parametrize("what", [STREAM, GROUP])
async def test_reference_counts_free_what_has_lasted_long_enough(what: str) -> None:
    async with running(Settings(connection_ms_max=1000)) as live:
        await live.create_group("orders", "billing")
        await _until_nothing_is_left(live, lambda: until_both_are_drained(live, what))
