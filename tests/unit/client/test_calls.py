"""Requests are tried again for as long as they may be, and no longer."""

import httpx
import pytest

from headgate.client.address import Addresses
from headgate.client.calls import Calls
from headgate.client.credential import Credential
from headgate.client.problems import RateLimited, Unreachable
from tests.virtual_time import in_virtual_time, now_ms

URL = "http://127.0.0.1:8080"
RETRY_MS = 30_000
PROBLEM = {"content-type": "application/problem+json"}


class Outage(httpx.AsyncBaseTransport):
    """Nobody answers until a time."""

    def __init__(self, until_ms: int) -> None:
        self._until_ms = until_ms

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if now_ms() < self._until_ms:
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json={"id": "1-0"})


class Busy(httpx.AsyncBaseTransport):
    """Asks for a pause, always."""

    def __init__(self, retry_after_ms: int) -> None:
        problem = {"code": "rate_limited", "status": 429, "retryable": True, "detail": ""}
        self._problem = {**problem, "retry_after_ms": retry_after_ms}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(429, json=self._problem, headers=PROBLEM)


def calls(transport: httpx.AsyncBaseTransport) -> Calls:
    return Calls(Addresses([URL]), Credential((URL,), None), transport=transport)


@pytest.mark.parametrize("attempt", range(10))
@in_virtual_time
async def test_it_waits_for_the_gateway_all_the_time_it_may(attempt: int) -> None:
    """Whatever the pauses between the attempts are: each attempt of the test has others."""
    answer = await calls(Outage(RETRY_MS)).call("GET", "/v1/streams/s")
    assert answer == {"id": "1-0"}


@in_virtual_time
async def test_it_gives_up_when_the_time_is_over() -> None:
    with pytest.raises(Unreachable):
        await calls(Outage(2 * RETRY_MS)).call("GET", "/v1/streams/s")
    assert now_ms() == pytest.approx(RETRY_MS, abs=2)


@in_virtual_time
async def test_it_gives_up_at_once_where_the_gateway_asks_for_a_longer_pause() -> None:
    with pytest.raises(RateLimited):
        await calls(Busy(2 * RETRY_MS)).call("GET", "/v1/streams/s")
    assert now_ms() == 0
