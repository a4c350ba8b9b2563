"""Requests that come too fast, too slowly or not at all, or in older HTTP."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live, connected, running
from tests.api.resp.talk import Talk
from tests.complaints import complaints
from tests.conditions import WITHIN_S, until
from tests.processes import wire
from tests.processes.raw_socket import RawSocket

pytestmark = pytest.mark.asyncio(loop_scope="session")

BODY = b'{"fields":{"v":"%d"}}'
POST = b"POST /v1/streams/orders/entries HTTP/1.1\r\nhost: localhost\r\n"
CHUNKED = POST + b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
LIST = b"GET /v1/streams/orders/entries HTTP/1.1\r\nhost: localhost\r\n\r\n"
HANDSHAKE = (
    b"GET /v1/ws HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


class Wire:
    """A connection that says anything, and understands answers with a length."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def answer(self) -> tuple[int, Any]:
        """Return the status of the next answer, and the JSON in it."""
        async with asyncio.timeout(WITHIN_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            return int(head.split()[1]), json.loads(await self.reader.readexactly(length))

    async def asked(self, *parts: bytes) -> tuple[int, Any]:
        """Send the parts of a request, each by itself, and return the answer."""
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            await asyncio.sleep(0)
        return await self.answer()

    async def end(self) -> None:
        """Say no more; nothing more must come."""
        self.writer.write_eof()
        async with asyncio.timeout(WITHIN_S):
            assert await self.reader.read() == b""


@asynccontextmanager
async def wired(live: Live) -> AsyncIterator[Wire]:
    async with connected(live) as (reader, writer):
        yield Wire(reader, writer)


def append(number: int) -> bytes:
    body = BODY % number
    head = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    return POST + head + body


async def test_an_answer_comes_in_one_packet(shared: Live) -> None:
    async with wired(shared) as wire:
        wire.writer.write(append(1))
        packet = await wire.reader.read(2**16)

    assert packet.startswith(b"HTTP/1.1 201 Created\r\n")
    assert packet.endswith(b"}")


async def test_requests_cut_anywhere_are_whole_and_answered_in_order(shared: Live) -> None:
    value = "x" * 3_000_000
    body = json.dumps({"fields": {"v": value}}).encode()
    head = POST + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    text = b"".join(map(append, range(20)))
    for size in (1, 1023, 1024, len(text)):
        async with wired(shared) as wire:
            for at in range(0, len(text), size):
                wire.writer.write(text[at : at + size])
                await asyncio.sleep(0)
            wire.writer.write(head + body)
            answers = [await wire.answer() for _ in range(21)]
        assert {status for status, _ in answers} == {201}
        page = (await shared.http.get("/v1/streams/orders/entries")).json()
        assert [entry["id"] for entry in page["entries"]] == [body["id"] for _, body in answers]
        values = [entry["fields"]["v"] for entry in page["entries"]]
        assert values == [*map(str, range(20)), value]
        await shared.http.delete("/v1/streams/orders")


async def test_what_follows_the_last_request_is_not_looked_at(shared: Live) -> None:
    async with wired(shared) as wire:
        status, _ = await wire.asked(GET + b"connection: close\r\n\r\n" + append(1))
        assert status == 200
        assert await wire.reader.read() == b""
    assert (await shared.http.get("/v1/streams/orders")).status_code == 404


ENDLESS = [
    [GET + b"a: " + b"x" * 70_000],
    [GET + b"a: ", *[b"x" * 5000] * 20],
    [GET + b"a: b\r\n" * 200 + b"\r\n"],
    [b"GET /healthz?" + b"x" * 70_000],
    [b"GET /" + b"x" * 70_000],
    [b"\r\n" * 40_000],
    [CHUNKED + b"0\r\n", b"a: " + b"x" * 70_000],
    [CHUNKED + b"1;" + b"x" * 70_000],
]
NO_HTTP = [
    b"\x00\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01",
    b"DANCE / HTTP/1.1\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\n\r\n",
    b"GET / HTTP/3.0\r\n\r\n",
    b"CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    POST + b"content-length: 1\r\ncontent-length: 2\r\n\r\n",
    POST + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
    POST + b"transfer-encoding: chunked\r\n\r\nxyz\r\n",
]


async def test_what_is_no_http_or_has_no_end_is_told_so_and_fills_no_log(
    shared: Live, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for parts, refusal in (
            *((parts, (431, "header_too_large")) for parts in ENDLESS),
            *(([sent], (400, "malformed")) for sent in NO_HTTP),
        ):
            async with wired(shared) as wire:
                status, problem = await wire.asked(*parts)
                assert (status, problem["code"]) == refusal, parts[0][:100]
                await wire.end()
    assert complaints(caplog) == []


async def test_headers_behind_a_body_are_taken_and_not_looked_at(shared: Live) -> None:
    chunks = b"".join(b"%x;ext=1\r\n%c\r\n" % (1, byte) for byte in BODY % 1)
    trailers = b"".join(b"trailer-%d: x\r\n" % number for number in range(1000))
    async with wired(shared) as wire:
        for _ in range(2):
            status, _ = await wire.asked(CHUNKED + chunks + b"0\r\n" + trailers + b"\r\n")
            assert status == 201


async def test_a_handshake_behind_a_request_under_way_ends_both(shared: Live) -> None:
    await shared.append("orders", "1")
    follow = b"GET /v1/streams/orders/events HTTP/1.1\r\nhost: localhost\r\n\r\n"
    async with wired(shared) as wire:
        wire.writer.write(follow + HANDSHAKE)
        async with asyncio.timeout(WITHIN_S):
            assert b"HTTP/1.1 101 " not in await wire.reader.read()
    await until(lambda: shared.gateway.metrics.connection_count == 0)
    await shared.until_waiting(0)


async def test_a_client_that_leaves_with_requests_behind_the_one_under_way_is_missed(
    shared: Live, caplog: pytest.LogCaptureFixture
) -> None:
    await shared.append("orders", "1")
    follow = b"GET /v1/streams/orders/events HTTP/1.1\r\nhost: localhost\r\n\r\n"
    poll = (
        b"GET /v1/streams/orders/entries?after=$&wait_ms=60000 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    )
    for first in (follow, poll):
        async with wired(shared) as wire:
            wire.writer.write(first + GET + b"\r\n")
            await shared.until_waiting(1)
        await shared.until_waiting(0)
    await until(lambda: shared.gateway.metrics.connection_count == 0)
    assert complaints(caplog, logging.ERROR) == []


async def test_a_handshake_on_a_used_connection_is_answered(shared: Live) -> None:
    async with wired(shared) as wire:
        assert (await wire.asked(GET + b"\r\n"))[0] == 200
        wire.writer.write(HANDSHAKE.replace(b"\r\n\r\n", b"\r\na: " + b"x" * 5000 + b"\r\n\r\n"))
        async with asyncio.timeout(WITHIN_S):
            assert (await wire.reader.readline()).startswith(b"HTTP/1.1 101 ")


async def test_a_media_type_of_any_bytes_is_one_that_is_not_taken(shared: Live) -> None:
    for media_type in (b"\xff\xfe", "größer/klein".encode(), b"application/\xe9"):
        head = POST + b"content-type: " + media_type + b"\r\ncontent-length: 2\r\n\r\n{}"
        async with wired(shared) as wire:
            status, problem = await wire.asked(head)
        assert (status, problem["code"]) == (415, "unsupported_media_type")


async def test_bodies_that_arrive_slowly_have_a_bound_together() -> None:
    head = POST + b"content-type: application/json\r\ncontent-length: 900000\r\n\r\n"
    async with (
        running(Settings(arriving_bytes_max=2**20)) as live,
        wired(live) as first,
        wired(live) as second,
    ):
        first.writer.write(head + b" " * 800_000)
        await first.writer.drain()
        await until(lambda: gauge(live, "arriving_bytes") >= 700_000)
        status, problem = await second.asked(head, b" " * 800_000)
        assert (status, problem["code"], problem["retryable"]) == (503, "overloaded", True)
        status, _ = await first.asked(b" " * (100_000 - 23) + b'{"fields":{"v":"late"}}')
        assert status == 201
        assert gauge(live, "arriving_bytes") == 0


async def test_answers_that_are_not_taken_have_a_bound_together() -> None:
    async with running(Settings(unsent_bytes_max=2**20)) as live:
        await large(live)
        async with wired(live) as slow, wired(live) as slower:
            slower.writer.write(LIST)
            await until(lambda: gauge(live, "unsent_bytes") > 0)
            slow.writer.write(LIST)
            await until(lambda: gauge(live, "cut_off_total") == 1)
            status, page = await slow.answer()
            assert (status, len(page["entries"])) == (200, 12)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await slower.answer()
        await until(lambda: gauge(live, "unsent_bytes") == 0)
        # Who is cut off because another needs the room has not failed.
        path = "/v1/streams/orders/groups/billing/ws?consumer=slower&credit=12"
        with await wire.connected(live.url, receive_bytes=4096) as end:
            await RawSocket.open(end, path)
            await until(lambda: gauge(live, "unsent_bytes") > 0)
            async with wired(live) as slow:
                slow.writer.write(LIST)
                await until(lambda: gauge(live, "cut_off_total") == 2)
                got = await live.read_group("orders", "billing", "other", wait_ms=10_000)
    assert {entry["deliveries"] for entry in got["entries"]} == {1}


async def large(live: Live) -> None:
    """Make a stream of 12 MB, and a group."""
    await live.create_group("orders", "billing")
    for _ in range(12):
        await live.append("orders", "x" * 1_000_000)


async def test_a_request_waits_until_the_answer_before_it_is_taken(shared: Live) -> None:
    await large(shared)
    async with wired(shared) as slow:
        slow.writer.write(LIST + append(1))  # both at once
        await until(lambda: gauge(shared, "unsent_bytes") > 0)
        slow.writer.write(append(2))
        await shared.append("others", "x")  # what had to be done meanwhile would be done by now
        assert (await shared.stream("orders"))["length"] == 12
        status, page = await slow.answer()
        assert (status, len(page["entries"])) == (200, 12)
        assert [(await slow.answer())[0] for _ in range(2)] == [201, 201]
        assert gauge(shared, "unsent_bytes") == 0
    accept = b"accept: application/vnd.apache.arrow.stream\r\n\r\n"
    async with wired(shared) as slow:
        slow.writer.write(LIST.removesuffix(b"\r\n") + accept)
        await until(lambda: gauge(shared, "unsent_bytes") > 6_000_000)
    await until(lambda: gauge(shared, "unsent_bytes") == 0)


async def test_frames_that_arrive_slowly_have_a_bound_together() -> None:
    frame = b"\x81\xff" + (900_000).to_bytes(8, "big") + bytes(4) + b" " * 400_000
    async with (
        running(Settings(arriving_bytes_max=2**20)) as live,
        wired(live) as first,
        wired(live) as second,
    ):
        for wire in (first, second):
            wire.writer.write(HANDSHAKE)
            async with asyncio.timeout(WITHIN_S):
                await wire.reader.readuntil(b"\r\n\r\n")
        first.writer.write(frame)
        await until(lambda: gauge(live, "unread_bytes") >= 400_000)
        second.writer.write(frame)
        async with asyncio.timeout(WITHIN_S):
            frames = await second.reader.readuntil(b"send it again later")
        assert (1013).to_bytes(2, "big") + b"too much data is arriving" in frames
        assert gauge(live, "unread_bytes") < 500_000
        first.writer.transport.abort()
        await until(lambda: gauge(live, "unread_bytes") == 0)


async def test_there_are_no_more_connections_of_any_kind_than_there_may_be() -> None:
    async with running(Settings(sockets_max=16, redis_port=0)) as live, AsyncExitStack() as stack:
        for _ in range(8):
            talk = await Talk.open(live.redis_port)
            stack.push_async_callback(talk.close)
            await talk.say(b"PING\r\n", b"+PONG\r\n")
        wires = [await stack.enter_async_context(wired(live)) for _ in range(9)]
        for wire in wires[:8]:
            assert (await wire.asked(GET + b"\r\n"))[0] == 200
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await wires[8].asked(GET + b"\r\n")
        wires[0].writer.transport.abort()
        await until(lambda: gauge(live, "refused_total") == 1)


def gauge(live: Live, name: str) -> float:
    value = live.gateway.metrics.registry.get_sample_value(f"headgate_sockets_{name}")
    assert value is not None
    return value


JSON = b"content-type: application/json\r\n"


async def answer_to(live: Live, sent: bytes) -> bytes:
    """Send some bytes and no more; returns what comes until the gateway closes."""
    async with connected(live) as (reader, writer), asyncio.timeout(WITHIN_S):
        writer.write(sent)
        return await reader.read()


async def test_a_request_that_does_not_arrive_is_given_up_and_changes_nothing() -> None:
    whole = b"GET /v1/streams HTTP/1.1\r\nhost: localhost\r\n\r\n"
    body = POST + JSON + b'content-length: 100\r\n\r\n{"fields":'
    given_up = b"HTTP/1.1 408 Request Timeout\r\n"
    async with running(Settings(request_ms_max=200)) as live:
        await live.append("others", "1")
        *without_end, behind_a_whole_one, without_body = await asyncio.gather(
            *(answer_to(live, sent) for sent in (b"", b"POST /v1/str", POST, whole + POST, body))
        )
        # One that is here may wait for its answer.
        waited = await live.http.get("/v1/streams/others/entries?after=$&wait_ms=600")
        again = await live.http.get("/v1/streams/others/entries")
        missing = await live.http.get("/v1/streams/orders")

    assert all(answer.startswith(given_up) for answer in without_end)
    assert behind_a_whole_one.startswith(b"HTTP/1.1 200 OK\r\n")
    assert given_up in behind_a_whole_one
    assert without_body == b""
    assert (waited.status_code, waited.json()["entries"]) == (200, [])
    assert (again.status_code, missing.status_code) == (200, 404)


OFFER = (
    b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAAAAIAAAAB\r\n"
)
OFFERED = b'{"fields":{"sku":"42"}}'
FRAMINGS = [
    (b"content-length: %d\r\n\r\n" % len(OFFERED), OFFERED),
    (b"transfer-encoding: chunked\r\n\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(OFFERED), OFFERED)),
]


async def test_a_request_that_offers_http_2_is_served_as_one_that_does_not(shared: Live) -> None:
    async with connected(shared) as (reader, writer), asyncio.timeout(WITHIN_S):
        for end, body in FRAMINGS:  # the connection stays what it was
            head = POST + OFFER + JSON + end
            for parts in ([head + body], [head, body]):
                for part in parts:
                    writer.write(part)
                    await writer.drain()
                answer = await reader.readuntil(b"}")
                assert answer.startswith(b"HTTP/1.1 201 Created\r\n"), answer
    entries = (await shared.http.get("/v1/streams/orders/entries")).json()["entries"]
    assert [entry["fields"] for entry in entries] == [{"sku": "42"}] * 4


async def test_what_is_streamed_is_as_it_is_for_a_client_of_http_1_0(shared: Live) -> None:
    await shared.append("orders", "1")
    assert (await shared.http.post("/v1/streams/orders/close")).status_code == 200
    for path, accept in (
        ("/v1/streams/orders/entries", "application/x-ndjson"),
        ("/v1/streams/orders/entries", "application/vnd.apache.arrow.stream"),
        ("/v1/streams/orders/events?after=0", "text/event-stream"),
        ("/v1/stream/orders?offset=-1&live=sse", "text/event-stream"),
    ):
        head = f"GET {path} HTTP/1.0\r\nhost: localhost\r\naccept: {accept}\r\n\r\n"
        answered, _, body = (await answer_to(shared, head.encode())).partition(b"\r\n\r\n")
        assert answered.startswith(b"HTTP/1.1 200 OK"), answered
        assert b"transfer-encoding" not in answered.lower()
        assert body.startswith((b"{", b"event: ", b"\xff\xff\xff\xff"))
