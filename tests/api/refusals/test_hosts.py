"""Requests that name two hosts, or none that could be one."""

import asyncio

import pytest

from tests.api.conftest import Live


async def answer_to(live: Live, head: str) -> tuple[int, bytes]:
    """Send the head of a request as it is; returns the status and the beginning of its answer."""
    host, port = live.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(head.encode("latin-1") + b"\r\n\r\n")
    answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    remaining = await asyncio.wait_for(reader.read(64), 10)
    writer.close()
    return int(answer.split()[1]), answer + remaining


GET = "GET /v1/streams HTTP/1.1\r\n"
UPGRADE = (
    "GET /v1/ws HTTP/1.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13"
    "\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (f"{GET}host: localhost", 200),
        (f"{GET}host: LOCALHOST.:65535", 200),
        (f"{GET}host:\tlocalhost \t", 200),
        (f"{GET}host: localhost\r\nhost: localhost", 400),
        (f"{GET}host: localhost\r\nHost: evil.example", 400),
        (f"{GET}host: evil.example\r\nhost: localhost", 400),
        (f"{GET}host: evil@localhost", 403),
        (f"{GET}host: localhost/.evil.example", 403),
        (f"{GET}host: localhost:65536", 403),
        (f"{GET}host: l\xf6calhost", 403),
        (f"{GET}host: evil.example", 403),
        (f"{GET}host: {'a' * 60_000}", 403),
        (f"{GET}x: y", 403),
        ("GET /healthz HTTP/1.0\r\nx: y", 200),
        ("GET /v1/streams HTTP/1.0\r\nx: y", 403),
        ("GET http://localhost/v1/streams HTTP/1.1\r\nhost: localhost", 200),
        ("GET http://LocalHost:80/v1/streams?limit=1 HTTP/1.1\r\nhost: localhost:80", 200),
        ("GET http://evil.example/v1/streams HTTP/1.1\r\nhost: localhost", 400),
        ("GET http://localhost/v1/streams HTTP/1.1\r\nhost: evil.example", 400),
        ("GET http://evil@localhost/v1/streams HTTP/1.1\r\nhost: localhost", 400),
        ("GET http://localhost#@evil.example/ HTTP/1.1\r\nhost: localhost#@evil.example", 400),
        (f"{UPGRADE}host: localhost", 101),
        (f"{UPGRADE}host: localhost\r\nhost: evil.example", 403),
        (f"{UPGRADE}host: evil@localhost", 403),
        (f"{UPGRADE}host: localhost\r\norigin: https://localhost", 403),
        (f"{UPGRADE}host: localhost\r\norigin: http://localhost", 101),
        (f"{UPGRADE}host: localhost\r\norigin: null", 403),
        (f"{UPGRADE}host: localhost\r\norigin: null\r\norigin: http://localhost", 400),
        (UPGRADE.replace("/v1/ws", "http://evil/v1/ws") + "host: localhost", 400),
    ],
    ids=lambda value: value[4:90] if isinstance(value, str) else None,
)
async def test_a_request_names_one_host(live: Live, head: str, status: int) -> None:
    got, text = await answer_to(live, head)
    assert got == status, text
