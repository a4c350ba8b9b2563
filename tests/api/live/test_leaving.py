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
from tests.api.live.frames import Frames, frames_of
from tests.conditions import until

KINDS = (BoundedHttp, BoundedWebSocket, Connection, PatientResponse, Request, Subscription, Waiter)
STREAM = "/v1/streams/orders"
GROUP = "/v1/streams/orders/groups/billing"

Conversation = Callable[[Live, str], Awaitable[None]]


async def _delete_stream(live: Live) -> None:
    assert (await live.http.delete(STREAM)).is_success


async def _cut_off(live: Live) -> None:
    [connection] = (await live.http.get("/v1/admin/connections")).json()["connections"]
    await live.ask(f"DELETE /v1/admin/connections/{connection['id']}")


def _socket(end: Callable[[Live, Frames], Awaitable[object]], before: str = "") -> Conversation:
    """Return a conversation over a socket for one subscription that ends in some way."""

    async def conversation(live: Live, what: str) -> None:
        async with frames_of(live, f"{what}/ws") as frames:
            if not before:
                await frames.next("subscribed")
                await frames.states("caught_up")
            await end(live, frames)

    return conversation


def _events(end: Callable[[Live], Awaitable[None]] | None) -> Conversation:
    async def conversation(live: Live, what: str) -> None:
        async with events_of(live, f"{what}/events") as events:
            await events.next("ready", "caught_up")
            if end is not None:
                await end(live)
                await events.next("problem")

    return conversation


async def _close(live: Live, frames: Frames) -> None:
    await frames.socket.close()


async def _abort(live: Live, frames: Frames) -> None:
    frames.socket.transport.abort()


async def _lose_the_stream(live: Live, frames: Frames) -> None:
    await _delete_stream(live)
    assert await frames.closed() == 4404


async def _be_cut_off(live: Live, frames: Frames) -> None:
    await _cut_off(live)
    assert await frames.closed() == 4503


async def _talk_nonsense(live: Live, frames: Frames) -> None:
    await frames.socket.send(b"nonsense")
    assert await frames.closed() == 4400


async def a_subscription_that_ends(live: Live, what: str) -> None:
    group = {"group": "billing"} if what == GROUP else {}
    async with frames_of(live, "/v1/ws") as frames:
        for is_deleted in (False, True):
            await frames.subscribe("a", **group)
            await frames.states("caught_up")
            if is_deleted:
                await _delete_stream(live)
                await frames.problem()
            else:
                await frames.send(type="unsubscribe", sub="a")
            await frames.next("unsubscribed")
        await frames.send(type="subscribe", sub="a", stream="none", **group)
        await frames.problem()


async def a_short_form_that_is_refused(live: Live, what: str) -> None:
    async with frames_of(live, f"{what.replace('orders', 'none')}/ws") as frames:
        await frames.problem()
        await frames.closed()


async def a_long_poll_that_is_left(live: Live, what: str) -> None:
    left = httpx.Timeout(60, read=0.2)
    with suppress(httpx.ReadTimeout):
        if what == GROUP:
            await live.http.post(f"{what}/read?consumer=me", json={"wait_ms": 60_000}, timeout=left)
        else:
            await live.http.get(f"{what}/entries?after=$&wait_ms=60000", timeout=left)


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
            await until(lambda: _left().keys() <= others.keys())
        assert [thing for key, thing in _left().items() if key not in others] == []
    finally:
        gc.enable()


CONVERSATIONS: dict[str, Conversation] = {
    "a socket that is closed": _socket(_close),
    "a socket that is gone": _socket(_abort),
    "a socket that is gone before it is served": _socket(_abort, before="it is served"),
    "a socket whose stream is deleted": _socket(_lose_the_stream),
    "a socket that is cut off": _socket(_be_cut_off),
    "a socket that talks nonsense": _socket(_talk_nonsense),
    "a subscription that ends": a_subscription_that_ends,
    "a short form that is refused": a_short_form_that_is_refused,
    "events that are left": _events(None),
    "events that are cut off": _events(_cut_off),
    "events whose stream is deleted": _events(_delete_stream),
    "a long poll that is left": a_long_poll_that_is_left,
    "a long poll whose stream is deleted": a_long_poll_whose_stream_is_deleted,
    "a handshake that is refused": a_handshake_that_is_refused,
    "commands that fail": commands_that_fail,
    "samples that are cut off": samples_that_are_cut_off,
}


@pytest.mark.parametrize("what", [STREAM, GROUP])
@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_reference_counts_free_it(live: Live, name: str, what: str) -> None:
    await live.create_group("orders", "billing")
    await _until_nothing_is_left(live, lambda: CONVERSATIONS[name](live, what))


async def until_both_are_drained(live: Live, what: str) -> None:
    async with frames_of(live, f"{what}/ws") as frames, events_of(live, f"{what}/events") as events:
        await frames.next("subscribed")
        await events.next("ready", "caught_up")
        await frames.next("draining")
        await events.next("draining")


@pytest.mark.parametrize("what", [STREAM, GROUP])
async def test_reference_counts_free_what_has_lasted_long_enough(what: str) -> None:
    async with running(Settings(connection_ms_max=1000)) as live:
        await live.create_group("orders", "billing")
        await _until_nothing_is_left(live, lambda: until_both_are_drained(live, what))
