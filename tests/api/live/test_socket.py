"""WebSockets: the two short forms, frame by frame."""

import asyncio
import json
import zlib
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.api.live.frames import Frames, frames_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

STREAM = "/v1/streams/orders/ws"
GROUP = "/v1/streams/orders/groups/billing/ws"


async def test_a_stream_is_sent_from_the_cursor_on_and_then_live(shared: Live) -> None:
    ids = await shared.append("orders", "1", "2", "3")

    async with frames_of(shared, f"{STREAM}?after={ids[0]}") as frames:
        subscribed = await frames.next("subscribed")
        assert subscribed == {"type": "subscribed", "sub": "0", "position": ids[0]}
        frame = await frames.next("entries")
        assert [entry["id"] for entry in frame["entries"]] == ids[1:]
        assert frame["credit_left"] == 62
        [new] = await shared.append("orders", "4")
        assert await frames.entries(1) == [{"id": new, "fields": {"v": "4"}}]


async def test_without_credit_nothing_is_read_and_with_it_all_that_is_ready_comes_at_once(
    shared: Live,
) -> None:
    await shared.create_group("orders", "billing")
    ids = await shared.append("orders", *"abcdef")

    async with frames_of(shared, f"{GROUP}?consumer=me&credit=2&auto_credit=false") as frames:
        frame = await frames.next("subscribed", "entries")
        assert ([entry["id"] for entry in frame["entries"]], frame["credit_left"]) == (ids[:2], 0)
        await frames.send(type="ack", rid="a", ids=ids[:2])
        await frames.next("acked")
        await frames.send(type="ping", rid="p")
        assert await frames.next("pong") == {"type": "pong", "rid": "p"}
        assert (await shared.group("orders", "billing"))["lag"] == 4
        await frames.send(type="credit", sub="0", entries=3)
        assert await frames.ids(3) == ids[2:5]


async def test_in_the_short_form_an_acknowledgement_returns_its_credit(shared: Live) -> None:
    await shared.create_group("orders", "billing")
    ids = await shared.append("orders", *"abcdef")

    async with frames_of(shared, f"{GROUP}?consumer=me&credit=2") as frames:
        await frames.next("subscribed")
        received: list[str] = []
        while len(received) < 6:
            new = [entry["id"] for entry in (await frames.next("entries"))["entries"]]
            received += new
            await frames.send(type="ack", ids=new)  # without rid and all well: no answer
    assert received == ids
    assert (await shared.group("orders", "billing"))["pending"] == 0


@pytest.mark.parametrize("is_killed", [True, False])
async def test_what_a_connection_held_goes_to_the_next_at_once_and_counts_if_it_was_killed(
    shared: Live, is_killed: bool
) -> None:
    await shared.create_group("orders", "billing")
    ids = await shared.append("orders", "1", "2")

    async with frames_of(shared, f"{GROUP}?consumer=two&credit=1&auto_credit=false") as two:
        await two.next("subscribed")
        assert await two.ids(1) == ids[:1]
        first = await connect(shared.ws_url + f"{GROUP}?consumer=one").__aenter__()
        frames = Frames(first)
        await frames.next("welcome", "subscribed")
        assert await frames.ids(1) == ids[1:]
        await two.send(type="credit", entries=5)
        await shared.until_waiting(2)
        if is_killed:
            first.transport.abort()
        else:
            await first.close()
        [entry] = await two.entries(1)

    assert (entry["id"], entry["deliveries"]) == (ids[1], 2 if is_killed else 1)
    reason = "the connection of the consumer has broken" if is_killed else None
    assert entry.get("last_error") == reason
    await shared.until_waiting(0)


async def test_the_subprotocol_is_agreed_if_it_is_offered(shared: Live) -> None:
    await shared.append("orders", "1")
    offered = [Subprotocol("headgate.v1.json")]
    async with frames_of(shared, STREAM, subprotocols=offered) as frames:
        assert frames.socket.subprotocol == "headgate.v1.json"
    async with frames_of(shared, STREAM) as frames:
        assert frames.socket.subprotocol is None


async def test_a_wrong_frame_is_answered_and_what_is_none_closes_the_socket(shared: Live) -> None:
    """Which frames are wrong, and where, is in tests/unit/app/live/test_session.py."""
    await shared.create_group("orders", "billing")
    for garbage in ("{", b"\xff\xfe", "\x00\x01"):
        async with frames_of(shared, f"{GROUP}?consumer=me") as frames:
            await frames.next("subscribed")
            await frames.send(type="ack", ids=["1-1"], colour="red")
            problem = (await frames.next("problem"))["problem"]
            assert [error["pointer"] for error in problem["errors"]] == ["/body/colour"]
            await frames.send(type="ping", rid="still here")
            await frames.next("pong")
            await frames.socket.send(garbage)
            assert (await frames.next("problem"))["problem"]["code"] == "malformed"
            assert await frames.closed() == 4400


async def test_a_frame_that_is_too_big_closes_the_socket() -> None:
    async with running(Settings(frame_bytes_max=2048)) as live:
        await live.append("orders", "1")
        async with frames_of(live, STREAM) as frames:
            await frames.next("subscribed")
            await frames.socket.send('{"type":"ping","rid":"' + "x" * 4096 + '"}')
            assert await frames.closed() == 1009


@pytest.mark.parametrize(
    ("url", "code", "close"),
    [
        ("/v1/streams/nope/ws", "stream_not_found", 4404),
        ("/v1/streams/orders/groups/nope/ws", "group_not_found", 4404),
        (f"{STREAM}?after=x", "invalid_id", 4400),
        (f"{STREAM}?credit=0", "invalid_request", 4400),
        (f"{STREAM}?colour=red", "invalid_request", 4400),
        (f"{GROUP}?consumer=" + "x" * 257, "invalid_request", 4400),
    ],
)
async def test_a_subscription_that_cannot_be_is_told_why_and_closed(
    shared: Live, url: str, code: str, close: int
) -> None:
    await shared.create_group("orders", "billing")
    async with frames_of(shared, url) as frames:
        assert (await frames.next("problem"))["problem"]["code"] == code
        assert await frames.closed() == close


async def test_a_connection_that_ends_late_does_not_take_entries_from_its_successor(
    shared: Live,
) -> None:
    await shared.create_group("orders", "billing")
    ids = await shared.append("orders", "1")
    url = f"{GROUP}?consumer=me"
    old = await connect(shared.ws_url + url)
    await Frames(old).next("welcome")
    await Frames(old).next("subscribed")
    assert await Frames(old).ids(1) == ids

    async with frames_of(shared, url) as new:
        await new.next("subscribed")
        [entry] = await new.entries(1)
        assert (entry["id"], entry["deliveries"]) == (ids[0], 2)
        await old.close()
        await shared.until_waiting(1)
        await new.send(type="ack", rid="a", ids=ids)
        assert [result["outcome"] for result in (await new.next("acked"))["results"]] == ["acked"]


async def test_an_encoded_slash_is_no_way_into_another_name(shared: Live) -> None:
    await shared.create_group("orders", "billing")

    answer = await shared.http.delete("/v1/streams/orders%2Fgroups%2Fbilling")

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/path"
    assert (await shared.group("orders", "billing"))["name"] == "billing"


async def test_a_client_may_compress_what_it_says_and_is_answered_as_it_is(shared: Live) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(shared.ws_url).port)
    head = "GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    head += f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {'A' * 22}==\r\n"
    writer.write(f"{head}Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n".encode())
    answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    assert "permessage-deflate; server_no_context_takeover; client_no_context_takeover" in answer

    async def frame() -> Any:
        first, length = await reader.readexactly(2)
        assert first == 0x81  # text, whole, and not compressed
        if length == 126:
            length = int.from_bytes(await reader.readexactly(2), "big")
        return json.loads(await reader.readexactly(length))

    assert (await frame())["type"] == "welcome"
    for rid in ("1", "2"):  # each message is compressed for itself
        deflate = zlib.compressobj(wbits=-15)
        text = deflate.compress(json.dumps({"type": "ping", "rid": rid}).encode())
        text = (text + deflate.flush(zlib.Z_SYNC_FLUSH))[:-4]
        writer.write(bytes([0xC1, 0x80 | len(text)]) + bytes(4) + text)
        assert await frame() == {"type": "pong", "rid": rid}
    writer.close()


async def test_those_who_follow_side_by_side_get_the_same_entries_each_on_its_credit(
    shared: Live,
) -> None:
    await shared.append("orders", "0")
    async with (
        frames_of(shared, f"{STREAM}?credit=3") as first,
        frames_of(shared, f"{STREAM}?credit=100") as other,
    ):
        await first.next("subscribed")
        await other.next("subscribed")
        await shared.until_waiting(2)
        ids = await shared.append("orders", *"12345")
        assert await first.ids(3) == ids[:3]
        assert await other.ids(5) == ids
        await first.send(type="credit", entries=9)
        assert await first.ids(2) == ids[3:]


async def test_a_client_that_takes_nothing_is_given_up_and_nobody_else_waits_for_it() -> None:
    async with running(Settings(send_ms_max=200)) as live:
        await live.append("orders", "0")
        async with frames_of(live, STREAM) as other, frames_of(live, STREAM) as stuck:
            await stuck.next("subscribed")
            stuck.socket.transport.pause_reading()
            await other.next("subscribed")
            metrics = live.gateway.metrics
            assert metrics.connection_count == 2
            while metrics.connection_count == 2:  # until all the buffers on the way are full
                ids = await live.append("orders", *["x" * 100_000] * 10)
                assert await other.ids(10) == ids
                await other.send(type="credit", entries=10)
            assert metrics.connection_count == 1
            stuck.socket.transport.abort()


@pytest.mark.parametrize("url", [f"{STREAM}?after=0&", f"{GROUP}?consumer=me&"])
async def test_an_entry_that_the_client_does_not_take_is_named_and_ends_it(
    shared: Live, url: str
) -> None:
    await shared.create_group("orders", "billing")
    small, large = await shared.append("orders", "1", "\x01" * 30_000)

    async with frames_of(shared, f"{url}frame_bytes_max=65536") as frames:
        await frames.next("subscribed")
        assert await frames.ids(1) == [small]
        problem = (await frames.next("problem"))["problem"]
        assert (problem["code"], problem["entry_id"]) == ("too_large", large)
        assert await frames.closed() == 4400  # nobody connects again

    async with frames_of(shared, "/v1/ws") as frames:
        await frames.subscribe("a", after=small, frame_bytes_max=65_536)
        assert (await frames.next("problem"))["problem"]["entry_id"] == large
        assert (await frames.next("unsubscribed"))["reason"] == "failed"
