"""Connections that say nothing, or say it too slowly, are not kept."""

import asyncio

import pytest

from app.settings import Settings
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
