"""Names that a gateway answers to, pages that may call it, and requests that name two hosts."""

import asyncio
import json
import logging

import pytest
from websockets import Origin
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from headgate.app.settings import Settings
from tests.api.conftest import Live, connected, problem_in, refusal_of, running
from tests.conditions import WITHIN_S, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDERS = "/v1/streams/orders"
APP = "https://app.example"
REFUSED = (403, "origin_refused", "")
GET = "GET /v1/streams HTTP/1.1\r\n"
UPGRADE = (
    "GET /v1/ws HTTP/1.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13"
    "\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)
HEADS = {
    101: [f"{UPGRADE}host: localhost", f"{UPGRADE}host: localhost\r\norigin: http://localhost"],
    200: [
        f"{GET}host: localhost",
        f"{GET}host: LOCALHOST.:65535",
        f"{GET}host:\tlocalhost \t",
        "GET /healthz HTTP/1.0\r\nx: y",
        "GET http://localhost/v1/streams HTTP/1.1\r\nhost: localhost",
        "GET http://LocalHost:80/v1/streams?limit=1 HTTP/1.1\r\nhost: localhost:80",
    ],
    400: [
        f"{GET}host: localhost\r\nhost: localhost",
        f"{GET}host: localhost\r\nHost: evil.example",
        f"{GET}host: evil.example\r\nhost: localhost",
        "GET http://evil.example/v1/streams HTTP/1.1\r\nhost: localhost",
        "GET http://localhost/v1/streams HTTP/1.1\r\nhost: evil.example",
        "GET http://evil@localhost/v1/streams HTTP/1.1\r\nhost: localhost",
        "GET http://localhost#@evil.example/ HTTP/1.1\r\nhost: localhost#@evil.example",
        f"{UPGRADE}host: localhost\r\norigin: null\r\norigin: http://localhost",
        f"{UPGRADE}host: localhost\r\nhost: evil.example",
        UPGRADE.replace("/v1/ws", "http://evil/v1/ws") + "host: localhost",
    ],
    403: [
        f"{GET}host: evil@localhost",
        f"{GET}host: localhost/.evil.example",
        f"{GET}host: localhost:65536",
        f"{GET}host: l\xf6calhost",
        f"{GET}host: evil.example",
        f"{GET}host: {'a' * 60_000}",
        f"{GET}x: y",
        "GET /v1/streams HTTP/1.0\r\nx: y",
        f"{UPGRADE}host: evil@localhost",
        f"{UPGRADE}host: localhost\r\norigin: https://localhost",
        f"{UPGRADE}host: localhost\r\norigin: null",
    ],
}


@pytest.mark.parametrize("status", HEADS)
async def test_a_request_names_one_host(shared: Live, status: int) -> None:
    for head in HEADS[status]:
        async with connected(shared) as (reader, writer), asyncio.timeout(WITHIN_S):
            writer.write(head.encode("latin-1") + b"\r\n\r\n")
            answer = await reader.readuntil(b"\r\n\r\n")
        assert int(answer.split()[1]) == status, head


async def test_names_that_may_be_anybodys_are_refused(shared: Live) -> None:
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]", "a.localhost"):
        answer = await shared.http.get("/v1/streams", headers={"Host": host})
        assert answer.status_code == 200, host
    for host in ("localhost.evil.example", "127.0.0.1.evil.example", "[", "0.0.0.0", "x:"):
        answer = await shared.http.put(ORDERS, headers={"Host": host})
        assert refusal_of(answer) == REFUSED, host
        detail = problem_in(answer)["detail"]
        assert "--allow-host" in detail
        assert "allowed_hosts" in detail
    assert (await shared.http.get(ORDERS)).status_code == 404
    for path in ("/healthz", "/readyz", "/metrics"):
        for host in ("10.0.0.7:8080", "gateway.internal", "[fd00::7]:8080"):
            assert (await shared.http.get(path, headers={"Host": host})).status_code == 200
            page = {"Host": host, "Origin": f"http://{host}"}
            assert refusal_of(await shared.http.get(path, headers=page)) == REFUSED


async def test_a_page_from_elsewhere_is_refused(shared: Live) -> None:
    asked = {"Access-Control-Request-Method": "POST"}
    for origin in ("https://evil.example", "null", "", "http://localhost:1", "http://[::1", "://"):
        for method in ("GET", "POST", "OPTIONS"):
            headers = {"Origin": origin, **asked}
            answer = await shared.http.request(method, "/v1/streams", headers=headers)
            assert refusal_of(answer) == REFUSED, (origin, method)
            assert "Access-Control-Allow-Origin" not in answer.headers
    answer = await shared.http.get("/healthz", headers={"Origin": shared.url})
    assert answer.status_code == 200  # a page of the gateway's own


async def test_a_refused_page_is_told_the_flag_that_allows_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked = {"Origin": APP, "Access-Control-Request-Method": "POST"}
    async with running(Settings()) as live:  # of its own: one logs few refusals in a second
        told = [
            problem_in(await live.http.request(method, ORDERS, headers=asked))["detail"]
            for method in ("GET", "OPTIONS")
        ]
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"{live.ws_url}/v1/ws", origin=Origin(APP))
        problem = json.loads(refused.value.response.body or b"")
        await until(lambda: len(refusals_in(caplog)) == 3)  # the socket's is behind its answer
    told += [problem["detail"], vars(refusals_in(caplog)[-1])["reason"]]

    assert [record.levelname for record in refusals_in(caplog)] == ["WARNING"] * 3
    assert refused.value.response.headers["content-type"] == "application/problem+json"
    assert (refused.value.response.status_code, problem["code"]) == (403, "origin_refused")
    for text in told:
        assert APP in text
        assert "--allow-origin" in text
        assert "allowed_origins" in text


def refusals_in(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the refusals of this gateway, without the sum that another one tells later."""
    records = [record for record in caplog.records if record.getMessage() == "request refused"]
    return [record for record in records if "reason" in vars(record)]


async def test_a_page_on_the_allow_list_may_call_and_see_what_it_needs() -> None:
    asked = "authorization, content-type, if-match"
    async with running(Settings(allowed_origins=[APP])) as live:
        await live.append("orders", "1")
        allowed = await live.http.get(ORDERS, headers={"Origin": APP})
        missing = await live.http.get("/v1/streams/nothing", headers={"Origin": APP})
        other = await live.http.get(ORDERS, headers={"Origin": "https://evil.example"})
        preflights = {}
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            names = ("Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers")
            headers = dict(zip(names, (APP, method, asked), strict=True))
            preflights[method] = await live.http.options(ORDERS, headers=headers)

    for answer in (allowed, missing):
        assert "Origin" in answer.headers["Vary"]
        exposed = answer.headers["Access-Control-Expose-Headers"]
        known = {"ETag", "Location", "RateLimit", "RateLimit-Policy", "Retry-After"}
        assert known | {"WWW-Authenticate"} <= set(exposed.split(", "))
    assert refusal_of(missing) == (404, "stream_not_found", "")
    assert refusal_of(other) == REFUSED
    for method, answer in preflights.items():
        assert answer.status_code == 200
        assert method in answer.headers["Access-Control-Allow-Methods"]
        granted = answer.headers["Access-Control-Allow-Headers"].lower()
        assert all(name in granted for name in asked.split(", "))
    for answer in (allowed, missing, *preflights.values()):
        assert answer.headers["Access-Control-Allow-Origin"] == APP
        assert answer.headers["Access-Control-Allow-Credentials"] == "true"  # cookies


async def test_configured_hosts_and_a_star() -> None:
    async with running(Settings(allowed_hosts=["Gateway.example"])) as live:
        for host, status in (("gateway.EXAMPLE:80", 200), ("other.example", 403)):
            assert (await live.http.get("/v1/limits", headers={"Host": host})).status_code == status
    async with running(Settings(allowed_hosts=["*"], allowed_origins=["*"])) as live:
        headers = {"Host": "any.example", "Origin": "https://other.example"}
        answer = await live.http.get("/healthz", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in answer.headers
