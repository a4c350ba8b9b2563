"""Presence: who is at a channel or at a stream."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from websockets.asyncio.client import connect

from headgate.app.auth.grants import Grant, Verb
from headgate.app.channels.presence import CONNECTIONS_OF_MEMBER_MAX
from headgate.app.settings import Settings
from tests.api.auth.secured import secured
from tests.api.conftest import Live, running
from tests.api.live.frames import Frames, frames_of
from tests.conditions import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

TTL_MS = 300


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def live() -> AsyncIterator[Live]:
    async with running(Settings(presence_ttl_ms=TTL_MS)) as live:
        await until(lambda: live.gateway.presence.is_settled)
        yield live


async def enter(frames: Frames, channel: str, **presence: Any) -> list[Any]:
    """Be present at a channel; returns the data of who is there."""
    await frames.send(type="subscribe", rid="s", sub="c", channel=channel, presence=presence)
    await frames.next("subscribed")
    told = await frames.next("members")
    assert (told["more"], told["settled"]) == (False, True)
    return [each["data"] for member in told["members"] for each in member["connections"]]


async def change(frames: Frames) -> tuple[str, list[Any]]:
    """Return what the next change is, and the data of the member's connections."""
    told = await frames.next("presence")
    return told["event"], [each["data"] for each in told["member"]["connections"]]


async def test_those_who_are_there_are_told_of_others(live: Live) -> None:
    async with frames_of(live, "/v1/ws") as anna:
        assert await enter(anna, "a", data={"name": "anna"}) == [{"name": "anna"}]
        async with frames_of(live, "/v1/ws") as ben:
            assert await enter(ben, "a", data={"n": 1}) == [{"name": "anna"}, {"n": 1}]
            assert await change(anna) == ("joined", [{"n": 1}])
            await ben.send(type="presence", rid="p", sub="c", data={"n": 2})
            assert await change(anna) == ("updated", [{"n": 2}])
            assert await change(ben) == ("updated", [{"n": 2}])
            assert await ben.next("noted") == {"type": "noted", "rid": "p", "sub": "c"}
            told = await live.ask("GET /v1/channels/a/presence?limit=1")
            assert (len(told["members"]), told["member_count"], told["connection_count"]) == (
                1,
                2,
                2,
            )
        assert await change(anna) == ("left", [])  # with a goodbye, at once


async def test_a_page_that_is_loaded_again_does_not_leave(live: Live) -> None:
    async with frames_of(live, "/v1/ws") as anna:
        await enter(anna, "b")
        for number in range(3):
            ben = await connect(f"{live.ws_url}/v1/ws")
            frames = Frames(ben)
            await frames.next("welcome")
            await enter(frames, "b", key="tab", data={"n": number})
            assert await change(anna) == ("updated" if number else "joined", [{"n": number}])
            await ben.close(1001)  # as a browser does
        assert await change(anna) == ("left", [])  # once its time is over


async def test_one_that_breaks_off_is_there_until_its_time_is_over(live: Live) -> None:
    async with frames_of(live, "/v1/ws") as anna:
        await enter(anna, "c")
        ben = await connect(f"{live.ws_url}/v1/ws")
        await enter(Frames(ben), "c") if (await Frames(ben).next("welcome")) else None
        assert (await change(anna))[0] == "joined"
        ben.transport.abort()
        assert await change(anna) == ("left", [])


async def test_who_only_looks_is_not_seen(live: Live) -> None:
    async with frames_of(live, "/v1/ws") as anna, frames_of(live, "/v1/ws") as ben:
        await enter(anna, "d")
        assert await enter(ben, "d", hidden=True) == [{}]
        await ben.send(type="presence", rid="p", sub="c", data={})
        assert await ben.problem() == ("p", "invalid_request")
        await anna.send(type="unsubscribe", rid="u", sub="c")
        assert await change(ben) == ("left", [])


async def test_a_stream_has_those_who_follow_it(live: Live) -> None:
    [first] = await live.append("orders", "1")
    async with frames_of(live, "/v1/ws") as anna, frames_of(live, "/v1/ws") as ben:
        for frames in (anna, ben):
            await frames.subscribe("x", presence={"data": {"me": True}}, after="0")
            got = {(await frames.any())["type"] for _ in range(3)}
            assert got == {"entries", "members", "state"}
        assert await change(anna) == ("joined", [{"me": True}])
        told = await live.ask("GET /v1/streams/orders/presence")
        assert told["member_count"] == 2
        await ben.send(type="unsubscribe", rid="u", sub="x")
        assert await change(anna) == ("left", [])
        assert first


async def test_a_user_with_several_connections_is_one_member(tmp_path: Path) -> None:
    async with secured(tmp_path, presence_ttl_ms=TTL_MS) as gateway:
        await until(lambda: gateway.live.gateway.presence.is_settled)
        rights = Grant(streams=["room"], do=[Verb.SUBSCRIBE])
        names = {name: await gateway.key(rights, name=name) for name in ("anna", "ben")}
        headers = {name: {"Authorization": f"Bearer {key}"} for name, key in names.items()}

        def socket_of(name: str) -> Any:
            return frames_of(gateway.live, "/v1/ws", additional_headers=headers[name])

        async with socket_of("anna") as one, socket_of("anna") as other, socket_of("ben") as ben:
            await enter(ben, "room")
            await enter(one, "room", data={"tab": 1})
            assert await change(ben) == ("joined", [{"tab": 1}])
            await enter(other, "room", data={"tab": 2})
            assert await change(ben) == ("updated", [{"tab": 1}, {"tab": 2}])
            told = await gateway.admin.get("/v1/channels/room/presence")
            users = [member["user"] for member in told.json()["members"]]
            assert users == ["ben", "anna"]
            await one.send(type="unsubscribe", rid="u", sub="c")
            assert await change(ben) == ("updated", [{"tab": 2}])


async def test_a_page_that_is_loaded_again_and_again_is_let_in(tmp_path: Path) -> None:
    async with secured(tmp_path, presence_ttl_ms=60_000) as gateway:
        headers = {"Authorization": gateway.admin.headers["Authorization"]}
        for _ in range(CONNECTIONS_OF_MEMBER_MAX + 2):
            socket = await connect(f"{gateway.live.ws_url}/v1/ws", additional_headers=headers)
            frames = Frames(socket)
            await frames.send(type="subscribe", rid="s", sub="c", channel="a", presence={})
            await frames.next("welcome", "subscribed")
            await socket.close(1001)
        told = (await gateway.admin.get("/v1/channels/a/presence")).json()
        assert (told["member_count"], told["connection_count"]) == (1, CONNECTIONS_OF_MEMBER_MAX)


async def test_tickets_of_one_key_say_who_is_at_each_page(tmp_path: Path) -> None:
    async with secured(tmp_path) as gateway:
        wanted = {"channel": "room", "do": ["subscribe"], "user": "anna"}
        made = await gateway.admin.post("/v1/tickets", json=wanted)
        socket = frames_of(gateway.live, f"/v1/ws?ticket={made.json()['ticket']}")
        async with socket as anna:
            await anna.send(type="subscribe", rid="s", sub="c", channel="room", presence={})
            told = await anna.next("subscribed", "members")
            assert [member["user"] for member in told["members"]] == ["anna"]
            other = await gateway.admin.post("/v1/tickets", json={**wanted, "user": "ben"})
            await anna.send(type="auth", rid="a", token=other.json()["ticket"])
            assert await anna.problem() == ("a", "forbidden")
            for channel, wrong in (("other", "subscribe"), ("room", "publish")):
                await anna.send(type=wrong, rid="w", sub="d", channel=channel)
                assert (await anna.next("problem"))["rid"] == "w"


async def test_who_may_follow_a_stream_no_more_is_not_present_there(tmp_path: Path) -> None:
    async with secured(tmp_path) as gateway:
        await gateway.live.append("orders", "1")
        both = {"stream": "orders", "channel": "room", "do": ["read", "subscribe"]}
        tickets = [
            (await gateway.admin.post("/v1/tickets", json=wanted)).json()["ticket"]
            for wanted in (both, {"channel": "room", "do": ["subscribe"]})
        ]
        async with frames_of(gateway.live, f"/v1/ws?ticket={tickets[0]}") as anna:
            await anna.send(type="subscribe", rid="s", sub="o", stream="orders", presence={})
            await anna.next("subscribed")
            there = "/v1/streams/orders/presence"
            assert (await gateway.admin.get(there)).json()["member_count"] == 1
            await anna.send(type="auth", rid="a", token=tickets[1])
            while (await anna.any())["type"] != "unsubscribed":
                pass
            assert (await gateway.admin.get(there)).json()["member_count"] == 0


@pytest.mark.parametrize(
    ("wanted", "pointer"),
    [
        ({"do": ["subscribe"]}, "/body/channel"),
        ({"do": ["subscribe"], "channel": "room", "stream": "orders"}, "/body/stream"),
        ({"do": ["read"], "channel": "room", "stream": "orders"}, "/body/channel"),
        ({"do": ["read"]}, "/body/stream"),
        ({"do": ["read"], "stream": "orders", "user": ""}, "/body/user"),
    ],
)
async def test_a_ticket_names_what_it_is_for(
    live: Live, wanted: dict[str, Any], pointer: str
) -> None:
    answer = await live.http.post("/v1/tickets", json=wanted)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]


async def test_a_gateway_that_has_just_started_says_that_others_may_come_back() -> None:
    async with running(Settings(presence_ttl_ms=TTL_MS)) as live, frames_of(live, "/v1/ws") as anna:
        await anna.send(type="subscribe", rid="s", sub="c", channel="a", presence={})
        await anna.next("subscribed")
        assert (await anna.next("members"))["settled"] is False
        told = await anna.next("members")  # once the time is over
        assert (told["settled"], len(told["members"])) == (True, 1)
