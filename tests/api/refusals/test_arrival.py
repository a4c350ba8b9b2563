"""Connections that say nothing or say it too slowly are not kept; others may speak older HTTP."""

import asyncio

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live, connected, running

pytestmark = pytest.mark.asyncio(loop_scope="session")

HEAD = b"POST /v1/streams/orders/entries HTTP/1.1\r\nhost: localhost\r\n"
JSON = b"content-type: application/json\r\n"


async def answer_to(live: Live, sent: bytes) -> bytes:
    """Send some bytes and no more; returns what comes until the gateway closes."""
    async with connected(live) as (reader, writer), asyncio.timeout(30):
        writer.write(sent)
        return await reader.read()


async def test_a_request_that_does_not_arrive_is_given_up_and_changes_nothing() -> None:
    whole = b"GET /v1/streams HTTP/1.1\r\nhost: localhost\r\n\r\n"
    body = HEAD + JSON + b'content-length: 100\r\n\r\n{"fields":'
    given_up = b"HTTP/1.1 408 Request Timeout\r\n"
    async with running(Settings(request_ms_max=200)) as live:
        await live.append("others", "1")
        *without_end, behind_a_whole_one, without_body = await asyncio.gather(
            *(answer_to(live, sent) for sent in (b"", b"POST /v1/str", HEAD, whole + HEAD, body))
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
BODY = b'{"fields":{"sku":"42"}}'
FRAMINGS = [
    (b"content-length: %d\r\n\r\n" % len(BODY), BODY),
    (b"transfer-encoding: chunked\r\n\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
]


async def test_a_request_that_offers_http_2_is_served_as_one_that_does_not(shared: Live) -> None:
    async with connected(shared) as (reader, writer), asyncio.timeout(30):
        for end, body in FRAMINGS:  # the connection stays what it was
            head = HEAD + OFFER + JSON + end
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
