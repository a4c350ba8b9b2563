"""Sockets: who is there is said first, may be renewed, and ends."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect

from headgate.app.auth.grants import Grant, Verb
from tests.api.auth.secured import Secured
from tests.api.live.frames import Frames, frames_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

READ_NEWS = Grant(streams=["news", "orders"], do=[Verb.READ])
READ_ORDERS = Grant(streams=["orders"], do=[Verb.READ])
WORK = Grant(streams=["orders"], groups=["billing"], do=[Verb.CONSUME])
APPEND = Grant(streams=["orders"], do=[Verb.APPEND])
STREAM = "/v1/streams/orders/ws?after=0"
GROUP = "/v1/streams/orders/groups/billing/ws"


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def streams(gateway: Secured) -> None:
    await gateway.live.append("news", "a")
    await gateway.live.create_group("orders", "billing")


def bearer(key: str) -> dict[str, Any]:
    return {"additional_headers": {"Authorization": f"Bearer {key}"}}


@asynccontextmanager
async def unknown(gateway: Secured, url: str = "/v1/ws") -> AsyncIterator[Frames]:
    """Open a socket without saying who is there."""
    async with connect(gateway.live.ws_url + url) as socket:
        yield Frames(socket)


@asynccontextmanager
async def working(gateway: Secured, key: str) -> AsyncIterator[Frames]:
    """Open a socket that works for the group as `me`."""
    async with frames_of(gateway.live, f"{GROUP}?consumer=me&credit=8", **bearer(key)) as frames:
        await frames.next("subscribed")
        yield frames


async def test_nothing_is_said_to_a_stranger_before_its_first_frame(gateway: Secured) -> None:
    key = await gateway.key(READ_NEWS, name="reader")
    async with unknown(gateway) as frames:
        await frames.send(type="auth", rid="r", token=key)
        assert (await frames.next("welcome"))["connection"]
        authenticated = {"type": "authenticated", "rid": "r", "principal": "reader"}
        assert await frames.next("authenticated") == authenticated
        assert (await frames.subscribe("s", after="0"))["sub"] == "s"


async def test_another_first_frame_ends_the_connection(gateway: Secured) -> None:
    append: dict[str, Any] = {"type": "append", "stream": "orders"}
    first: list[dict[str, Any]] = [
        {"type": "ping"},
        {"type": "subscribe", "sub": "s", "stream": "orders"},
        {**append, "entries": [{"fields": {"v": "1"}}]},
        {**append, "entries": [{"fields": {"v": "1" * 9_000}}]},
        *(
            {"type": "auth", "token": token}
            for token in ("hg_a_b", "", "\u20ac\u0000\ud83d\ude00", "x" * 100_000)
        ),
    ]
    for frame in first:
        async with unknown(gateway) as frames:
            await frames.send(**frame)
            assert (await frames.problem())[1] == "unauthenticated", frame
            assert await frames.closed() == 4401
    assert (await gateway.live.stream("orders"))["length"] == 0


async def test_a_short_form_that_is_refused_says_so_after_the_first_frame(gateway: Secured) -> None:
    key = await gateway.key(READ_NEWS)
    for url, code, problem in (
        ("/v1/streams/jobs/ws", 4403, "forbidden"),
        (GROUP, 4403, "forbidden"),
        ("/v1/streams/news/ws?after=x", 4400, "invalid_id"),
        ("/v1/streams/news/ws?credit=0", 4400, "invalid_request"),
    ):
        async with unknown(gateway, url) as frames:
            await frames.send(type="auth", token=key)
            await frames.next("welcome", "authenticated")
            assert (await frames.problem())[1] == problem, url
            assert await frames.closed() == code


async def test_a_short_form_begins_after_the_first_frame(gateway: Secured) -> None:
    ids = await gateway.live.append("orders", "1", "2")
    key = await gateway.key(READ_ORDERS)
    async with unknown(gateway, STREAM) as frames:
        await frames.send(type="auth", token=key)
        for kind in ("welcome", "authenticated", "subscribed"):
            await frames.next(kind)
        assert await frames.ids(2) == ids


async def test_a_renewal_loses_no_entry_and_repeats_none(gateway: Secured) -> None:
    keys = [await gateway.key(READ_ORDERS, WORK, name="worker") for _ in range(2)]
    async with (
        frames_of(gateway.live, STREAM, **bearer(keys[0])) as reading,
        working(gateway, keys[0]) as working_frames,
    ):
        await reading.next("subscribed")
        appended: list[str] = []
        for number in range(20):
            appending = asyncio.create_task(gateway.live.append("orders", str(number)))
            for frames in (reading, working_frames):
                await frames.send(type="auth", rid=str(number), token=keys[number % 2])
            appended += await appending

        await gateway.revoke(keys[0])  # it is not the one in use any more
        await gateway.key(READ_NEWS)
        appended += await gateway.live.append("orders", "last")
        for frames in (reading, working_frames):
            received: list[str] = []
            while received[-1:] != appended[-1:]:
                frame = await frames.any()
                if frame["type"] == "entries":
                    received += [entry["id"] for entry in frame["entries"]]
                    if frames is working_frames:
                        await frames.send(type="ack", ids=received[-len(frame["entries"]) :])
                else:
                    assert frame["type"] in ("authenticated", "state")
            assert received == appended


async def test_a_renewal_ends_what_it_does_not_allow_and_no_more(gateway: Secured) -> None:
    before = await gateway.key(READ_NEWS, WORK, APPEND, name="worker")
    after = await gateway.key(READ_ORDERS, name="worker")
    async with frames_of(gateway.live, "/v1/ws", **bearer(before)) as frames:
        await frames.subscribe("orders", after="$")
        await frames.send(type="subscribe", sub="news", stream="news", after="$")
        await frames.next("subscribed")
        await frames.subscribe("billing", group="billing", consumer="me")
        await frames.send(type="auth", rid="r", token=after)
        await frames.next("authenticated")
        ended = set()
        for _ in range(2):
            problem = await frames.next("problem")
            assert problem["problem"]["code"] == "forbidden"
            assert (await frames.next("unsubscribed"))["sub"] == problem["sub"]
            ended.add(problem["sub"])
        assert ended == {"news", "billing"}

        entry = {"fields": {"v": "1"}}
        await frames.send(type="append", rid="a", stream="orders", entries=[entry])
        assert await frames.problem() == ("a", "forbidden")
        ids = await gateway.live.append("orders", "1")
        await gateway.live.append("news", "1")
        assert await frames.ids(1) == ids
        await frames.send(type="ack", sub="billing", rid="b", ids=ids)
        assert await frames.problem() == ("b", "not_found")


async def test_entries_go_on_as_a_renewal_takes_the_right(gateway: Secured) -> None:
    before = await gateway.key(WORK, name="worker")
    after = await gateway.key(READ_ORDERS, name="worker")
    for number in range(10):
        async with frames_of(gateway.live, "/v1/ws", **bearer(before)) as frames:
            await frames.subscribe("s", group="billing", consumer="me")
            appending = asyncio.create_task(gateway.live.append("orders", str(number)))
            for _ in range(number):
                await asyncio.sleep(0)
            await frames.send(type="auth", token=after)
            while (await frames.any())["type"] != "unsubscribed":
                pass
            ids = await appending
            read = await gateway.live.read_group("orders", "billing", "other", wait_ms=5000)
            assert [entry["id"] for entry in read["entries"]] == ids
            assert await gateway.live.outcomes("ack", "orders", "billing", ids) == ["acked"]


async def test_another_principal_cannot_take_over_a_connection(gateway: Secured) -> None:
    mine = await gateway.key(READ_ORDERS, name="me")
    other = await gateway.key(READ_NEWS, APPEND, name="you")
    async with frames_of(gateway.live, "/v1/ws", **bearer(mine)) as frames:
        await frames.subscribe("s", after="$")
        for rid, token, code in (("a", other, "forbidden"), ("b", "hg_a_b", "unauthenticated")):
            await frames.send(type="auth", rid=rid, token=token)
            assert await frames.problem() == (rid, code)
        ids = await gateway.live.append("orders", "1")
        assert await frames.ids(1) == ids  # it goes on as it was
        entry = {"fields": {"v": "1"}}
        await frames.send(type="append", rid="c", stream="orders", entries=[entry])
        assert await frames.problem() == ("c", "forbidden")


async def test_a_grant_for_one_consumer_is_for_no_other(gateway: Secured) -> None:
    only_me = Grant(streams=["orders"], groups=["billing"], consumer="{sub}", do=[Verb.CONSUME])
    key = await gateway.key(only_me, name="me")
    async with working(gateway, key) as frames:
        assert (await gateway.live.append("orders", "1")) == await frames.ids(1)
    for query in ("", "?consumer=you", "?consumer=me2", "?consumer=%6De%00"):
        async with connect(gateway.live.ws_url + GROUP + query, **bearer(key)) as socket:
            frames = Frames(socket)
            await frames.next("welcome")
            assert (await frames.problem())[1] in ("forbidden", "invalid_request")
            assert await frames.closed() in (4403, 4400)


async def test_a_token_may_be_a_subprotocol(gateway: Secured) -> None:
    key = await gateway.key(READ_ORDERS)
    for token, code in ((key, None), (key[:-1], 4401), ("", 4401)):
        offered = [f"headgate.bearer.{token}", "headgate.v1.json"]
        async with connect(gateway.live.ws_url + STREAM, subprotocols=offered) as socket:  # type: ignore[arg-type]
            assert socket.subprotocol == "headgate.v1.json"
            assert json.loads(await socket.recv())["type"] == ("problem" if code else "welcome")
            if code is not None:
                assert await Frames(socket).closed() == code
