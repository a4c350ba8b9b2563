"""Connections that say nothing, or say it too slowly, are not kept."""

import asyncio

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live, running

HEAD = b"POST /v1/streams/orders/entries HTTP/1.1\r\nhost: localhost\r\n"


async def answer_to(live: Live, sent: bytes) -> bytes:
    """Send some bytes and no more; returns what comes until the gateway closes."""
    host, _, port = live.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize("sent", [b"", b"POST /v1/str", HEAD])
async def test_a_request_whose_header_does_not_arrive_is_given_up(sent: bytes) -> None:
    async with running(Settings(request_ms_max=200)) as live:
        answer = await answer_to(live, sent)

    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")


async def test_a_request_that_begins_behind_a_whole_one_has_its_own_time() -> None:
    whole = b"GET /v1/streams HTTP/1.1\r\nhost: localhost\r\n\r\n"
    async with running(Settings(request_ms_max=200)) as live:
        answer = await answer_to(live, whole + HEAD)

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"HTTP/1.1 408 Request Timeout\r\n" in answer


async def test_a_request_whose_body_does_not_arrive_changes_nothing() -> None:
    begun = HEAD + b"content-type: application/json\r\ncontent-length: 100\r\n\r\n"
    async with running(Settings(request_ms_max=200)) as live:
        answer = await answer_to(live, begun + b'{"fields":')
        missing = await live.http.get("/v1/streams/orders")

    assert answer == b""
    assert missing.status_code == 404


async def test_a_request_that_is_here_may_wait_for_its_answer() -> None:
    async with running(Settings(request_ms_max=200)) as live:
        await live.append("orders", "1")
        poll = "/v1/streams/orders/entries?after=$&wait_ms=600"
        waited = await live.http.get(poll)
        again = await live.http.get("/v1/streams/orders/entries")

    assert (waited.status_code, waited.json()["entries"]) == (200, [])
    assert again.status_code == 200


OFFER = (
    b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAAAAIAAAAB\r\n"
)
BODY = b'{"fields":{"sku":"42"}}'
FRAMINGS = {
    "length": (b"content-length: %d\r\n\r\n" % len(BODY), BODY),
    "chunks": (b"transfer-encoding: chunked\r\n\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
}


@pytest.mark.parametrize("is_at_once", [True, False])
@pytest.mark.parametrize("framing", FRAMINGS)
async def test_a_request_that_offers_http_2_is_served_as_one_that_does_not(
    live: Live, framing: str, is_at_once: bool
) -> None:
    end, body = FRAMINGS[framing]
    head = HEAD + OFFER + b"content-type: application/json\r\n" + end
    host, _, port = live.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for _ in range(2):  # the connection stays what it was
        parts = [head + body] if is_at_once else [head, body]
        for part in parts:
            writer.write(part)
            await writer.drain()
        async with asyncio.timeout(10):
            answer = await reader.readuntil(b"}")
        assert answer.startswith(b"HTTP/1.1 201 Created\r\n"), answer
    writer.close()

    entries = (await live.http.get("/v1/streams/orders/entries")).json()["entries"]
    assert [entry["fields"] for entry in entries] == [{"sku": "42"}] * 2


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        ("/v1/streams/orders/entries", "application/x-ndjson"),
        ("/v1/streams/orders/entries", "application/vnd.apache.arrow.stream"),
        ("/v1/streams/orders/events?after=0", "text/event-stream"),
        ("/v1/stream/orders?offset=-1&live=sse", "text/event-stream"),
    ],
)
async def test_what_is_streamed_is_as_it_is_for_a_client_of_http_1_0(
    live: Live, path: str, accept: str
) -> None:
    await live.append("orders", "1")
    closed = await live.http.post("/v1/streams/orders/close")
    assert closed.status_code == 200, closed.text

    head = f"GET {path} HTTP/1.0\r\nhost: localhost\r\naccept: {accept}\r\n\r\n"
    answer = await answer_to(live, head.encode())

    answered, _, body = answer.partition(b"\r\n\r\n")
    assert answered.startswith(b"HTTP/1.1 200 OK"), answer
    assert b"transfer-encoding" not in answered.lower()
    assert body.startswith((b"{", b"event: ", b"\xff\xff\xff\xff"))
