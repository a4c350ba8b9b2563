"""Channels: messages that nobody keeps, over sockets, events, requests and Redis clients."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.api.live.event_source import events_of
from tests.api.live.frames import Frames, frames_of
from tests.api.resp.talk import Talk, command
from tests.conditions import WITHIN_S, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROOM = "/v1/channels/room"


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def live() -> AsyncIterator[Live]:
    async with running(Settings(redis_port=0, heartbeat_ms=200, presence_ttl_ms=300)) as live:
        yield live


async def listening(frames: Frames, channel: str = "room", **more: Any) -> None:
    await frames.send(type="subscribe", rid="s", sub="c", channel=channel, **more)
    assert (await frames.next("subscribed"))["rid"] == "s"


async def published(live: Live, data: Any, channel: str = "room") -> int:
    url = f"POST /v1/channels/{channel}/messages"
    return int((await live.ask(url, {"data": data}))["receivers"])


async def test_a_message_reaches_whoever_is_subscribed_in_whatever_way(live: Live) -> None:
    async with AsyncExitStack() as stack:
        socket = await stack.enter_async_context(frames_of(live, "/v1/ws"))
        await listening(socket)
        events = await stack.enter_async_context(events_of(live, f"{ROOM}/events"))
        await events.next("ready")
        talk = await Talk.open(live.redis_port)
        await talk.say(b"SUBSCRIBE room\r\n", b"*3\r\n$9\r\nsubscribe\r\n$4\r\nroom\r\n:1\r\n")

        assert await published(live, {"text": "hi\nthere \u2028 é", "n": [1, None]})

        data = {"text": "hi\nthere \u2028 é", "n": [1, None]}
        frame = await socket.next("message")
        assert frame == {"type": "message", "sub": "c", "channel": "room", "data": data}
        assert await events.next("message") == {"channel": "room", "data": data}
        text = '{"text":"hi\\nthere \u2028 é","n":[1,null]}'.encode()
        await talk.hear(command("message", "room", text))
        await talk.close()


def nested(levels: int) -> bytes:
    return b'{"a":' * (levels - 1) + b"{}" + b"}" * (levels - 1)


@pytest.mark.parametrize(
    ("sent", "data"),
    [
        (b"hello", "hello"),
        (b'{"a":\r\n 1}', {"a": 1}),
        (b"\xff", "\ufffd"),
        (b"", ""),
        (b"[" * 10_000, "[" * 10_000),
        (nested(200), json.loads(nested(200))),
        (nested(201), nested(201).decode()),  # some clients cannot read what is much deeper
        (b"18446744073709551616", 2**64),
    ],
)
async def test_what_a_redis_client_publishes_is_json_or_a_string(
    live: Live, sent: bytes, data: Any
) -> None:
    async with frames_of(live, "/v1/ws") as socket, events_of(live, f"{ROOM}/events") as events:
        await listening(socket)
        await events.next("ready")
        talk = await Talk.open(live.redis_port)
        talk.send(command("PUBLISH", "room", sent))

        assert (await socket.next("message"))["data"] == data
        assert (await events.next("message"))["data"] == data
        await talk.close()


@pytest.mark.parametrize(("levels", "answer"), [(199, "published"), (300, "problem")])
async def test_a_socket_publishes_json_that_all_can_read(
    live: Live, levels: int, answer: str
) -> None:
    async with frames_of(live, "/v1/ws") as frames:
        text = nested(levels).decode()
        await frames.socket.send(f'{{"type":"publish","rid":"p","channel":"c","data":{text}}}')
        await frames.next(answer)


async def test_a_socket_publishes_and_hears_itself_until_it_unsubscribes(live: Live) -> None:
    async with frames_of(live, "/v1/ws") as socket:
        await listening(socket, "own")
        await socket.send(type="publish", channel="own", data=1)  # nobody waits for an answer
        assert (await socket.next("message"))["data"] == 1
        await socket.send(type="publish", rid="p", channel="own", data=2)
        told = {frame["type"]: frame for frame in [await socket.any(), await socket.any()]}
        assert told["message"]["data"] == 2  # over servers, it comes another way than the answer
        assert told["published"]["receivers"] >= 1
        await socket.send(type="unsubscribe", rid="u", sub="c")
        await socket.next("unsubscribed")
        await socket.send(type="publish", rid="p", channel="own", data=3)
        assert (await socket.next("published"))["receivers"] == 0


async def test_who_is_subscribed_is_counted(live: Live) -> None:
    talk, other = await Talk.open(live.redis_port), await Talk.open(live.redis_port)
    await talk.say(b"SUBSCRIBE news.a\r\n", command("subscribe", "news.a")[:0])
    await talk.hear(b"*3\r\n$9\r\nsubscribe\r\n$6\r\nnews.a\r\n:1\r\n")
    await talk.say(b"PSUBSCRIBE news.*\r\n", b"*3\r\n$10\r\npsubscribe\r\n$6\r\nnews.*\r\n:2\r\n")
    await other.say(b"PUBSUB CHANNELS news.*\r\n", b"*1\r\n$6\r\nnews.a\r\n")
    await other.say(
        b"PUBSUB NUMSUB news.a news.b\r\n", b"*4\r\n$6\r\nnews.a\r\n:1\r\n$6\r\nnews.b\r\n:0\r\n"
    )
    other.send(b"PUBLISH news.a x\r\n")
    await talk.hear(
        command("message", "news.a", "x") + command("pmessage", "news.*", "news.a", "x")
    )
    for each in (talk, other):
        await each.close()


async def test_a_transaction_publishes_what_it_has_done(live: Live) -> None:
    async with frames_of(live, "/v1/ws") as socket:
        await listening(socket)
        commands = [["XADD", "s", "1-1", "f", "v"], ["PUBLISH", "room", "done"], ["XLEN", "s"]]
        answers = await live.ask("POST /v1/commands/multi-exec", commands)
        assert [answer["result"] for answer in answers][::2] == ["1-1", 1]
        assert answers[1]["result"] >= 1
        assert (await socket.next("message"))["data"] == "done"


@pytest.mark.parametrize(
    ("frame", "pointer"),
    [
        ({"channel": "room", "stream": "orders"}, "/body/stream"),
        ({"channel": "room", "credit": 5}, "/body/credit"),
        ({"channel": ""}, "/body/channel"),
        ({"channel": "a/b"}, "/body/channel"),
        ({"channel": "room", "presence": {"data": {"x": "y" * 1_020}}}, "/body/presence/data"),
        ({"channel": "room", "presence": {"key": ""}}, "/body/presence/key"),
        ({"channel": "room", "presence": {"name": "x"}}, "/body/presence/name"),
        ({"match": "o*", "presence": {}}, "/body/presence"),
    ],
)
async def test_a_subscription_that_makes_no_sense_is_refused(
    live: Live, frame: dict[str, Any], pointer: str
) -> None:
    async with frames_of(live, "/v1/ws") as socket:
        await socket.send(type="subscribe", rid="s", sub="c", **frame)
        problem = (await socket.next("problem"))["problem"]
        assert [error["pointer"] for error in problem["errors"]] == [pointer]
        await listening(socket)


async def test_a_message_has_a_greatest_size(live: Live) -> None:
    answer = await live.http.post(f"{ROOM}/messages", json={"data": "x" * 2**20})
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert answer.json()["errors"][0]["pointer"] == "/body/data"


async def test_many_are_told_in_several_turns_and_none_is_left_out(live: Live) -> None:
    async with AsyncExitStack() as stack:
        sockets = [await stack.enter_async_context(frames_of(live, "/v1/ws")) for _ in range(200)]
        await asyncio.gather(*(listening(each, "crowd") for each in sockets))
        assert await published(live, "all", "crowd") in (1, 200)  # over servers, a gateway is one
        await published(live, "again", "crowd")
        for each in sockets:
            assert [(await each.next("message"))["data"] for _ in range(2)] == ["all", "again"]


async def test_nothing_is_left_of_those_who_have_gone(live: Live) -> None:
    channels = live.gateway.channels
    async with frames_of(live, "/v1/ws") as socket, events_of(live, "/v1/channels/gone/events"):
        await listening(socket, "gone")
        talk = await Talk.open(live.redis_port)
        await talk.say(b"SUBSCRIBE gone\r\n", b"*3\r\n$9\r\nsubscribe\r\n$4\r\ngone\r\n:1\r\n")
        await talk.close()
    await until(lambda: b"gone" not in channels.names_here)


async def test_messages_come_in_the_form_of_upstash(live: Live) -> None:
    """`@upstash/redis` follows channels so: `redis.subscribe("room")`."""
    async with (
        live.http.stream("POST", "/v1/commands/subscribe/up-1/up-2", json=[]) as one,
        live.http.stream("POST", "/v1/commands/psubscribe/up-*", json=[]) as other,
    ):
        lines, matching = one.aiter_lines(), other.aiter_lines()
        assert await data_of(lines, 2) == ["subscribe,up-1,1", "subscribe,up-2,2"]
        assert await data_of(matching, 1) == ["psubscribe,up-*,1"]
        await published(live, {"n": 1}, "up-2")
        assert await data_of(lines, 1) == ['message,up-2,{"n":1}']
        assert await data_of(matching, 1) == ['pmessage,up-*,up-2,{"n":1}']


async def data_of(lines: AsyncIterator[str], count: int) -> list[str]:
    """Return the data of the next events."""
    got: list[str] = []
    async with asyncio.timeout(WITHIN_S):
        while len(got) < count:
            line = await anext(lines)
            got += [line.removeprefix("data: ")] if line.startswith("data: ") else []
    return got


async def test_reserved_names_are_for_the_gateway_alone(live: Live) -> None:
    answer = await live.http.post("/v1/channels/__peers/messages", json={"data": 1})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    async with frames_of(live, "/v1/ws") as socket:
        await socket.send(type="subscribe", rid="s", sub="c", channel="__peers")
        assert await socket.problem() == ("s", "forbidden")
    talk = await Talk.open(live.redis_port)
    for command_ in (b"PUBLISH __peers x", b"SUBSCRIBE __peers"):
        talk.send(command_ + b"\r\n")
        assert (await talk.line()).startswith(b"-")
    await talk.close()
