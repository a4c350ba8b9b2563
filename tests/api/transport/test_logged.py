"""The log has no secret in it, at any level and whatever a client sends."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from headgate.app.settings import MEMORY
from tests.processes.gateway import Gateway

SECRET = "S3cretS3cretS3cret"
NAMES = ["ticket", "%74icket", "%74%69%63%6b%65%74", "TICKET", "a=b&ticket", "token", "ticket%20"]


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    running = await Gateway.start(MEMORY, {"log_level": "debug"})
    yield running
    await running.kill()


async def raw(gateway: Gateway, text: str) -> None:
    url = httpx.URL(gateway.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(text.encode("latin-1"))
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(0.3):
            await reader.read()
    writer.close()


async def lines_of(gateway: Gateway) -> list[str]:
    """Return the log once the gateway has ended, so that nothing is missing."""
    await gateway.stop()
    assert any("headgate.requests" in line for line in gateway.log_lines)
    return gateway.log_lines


@pytest.mark.parametrize("name", NAMES)
async def test_a_ticket_is_not_logged(gateway: Gateway, name: str) -> None:
    path = "/v1/streams/orders/events"
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        await http.get(f"{path}?{name}={SECRET}", headers={"accept": "text/event-stream"})
        await http.get(f"/v1/streams?{name}={SECRET}")
        await http.get(f"/?{name}={SECRET}")
        await http.get(f"/nothing?{name}={SECRET}")
        await http.get(
            f"/v1/streams?{name}={SECRET}", headers={"origin": "https://stranger.example"}
        )
    for path in ("/v1/ws", "/v1/streams/orders/ws", "/v1/nothing/ws"):
        with suppress(WebSocketException):
            url = f"ws{gateway.url.removeprefix('http')}{path}?{name}={SECRET}"
            async with connect(url) as socket:
                await socket.recv()

    lines = await lines_of(gateway)

    assert not any(SECRET in line for line in lines)
    events = [json.loads(line)["event"] for line in lines]
    assert any('"WebSocket /v1/ws?…" [accepted]' in event for event in events)


async def test_a_credential_is_not_logged(gateway: Gateway) -> None:
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        await http.get("/v1/streams", headers={"authorization": f"Bearer {SECRET}"})
        await http.get("/v1/streams", headers={"authorization": SECRET})
        await http.get("/v1/streams", headers={"cookie": f"headgate_token={SECRET}"})
    url = f"ws{gateway.url.removeprefix('http')}/v1/ws"
    with suppress(WebSocketException):
        async with connect(url, subprotocols=[f"headgate.bearer.{SECRET}"]) as socket:  # type: ignore[list-item]
            await socket.recv()
            await socket.send(json.dumps({"type": "auth", "token": SECRET}))
            await socket.send(json.dumps({"type": "auth", "token": [SECRET]}))
            await socket.recv()
            await socket.recv()

    assert not any(SECRET in line for line in await lines_of(gateway))


async def test_a_malformed_request_is_logged_without_what_it_says(gateway: Gateway) -> None:
    upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    protocol = f'sec-websocket-key: x\r\nsec-websocket-protocol: headgate.bearer.{SECRET}, "'
    for text in (
        f"GET http://[x?ticket={SECRET} HTTP/1.1\r\n\r\n",
        f"GET ///?ticket={SECRET} HTTP/1.1\r\nhost: x\r\n\r\n",
        f"GET /a b?ticket={SECRET} HTTP/1.1\r\n\r\n",
        f"GET /?ticket={SECRET}\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        f"GET /?ticket={SECRET} HTTP/9.9\r\n\r\n",
        f"GET / HTTP/1.1\r\nauthorization Bearer {SECRET}\r\n\r\n",
        f"GET / HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {SECRET}\0\r\n\r\n",
        f"BAD{SECRET} / HTTP/1.1\r\n\r\n",
        f"GET /v1/ws?ticket={SECRET} HTTP/1.1\r\nhost: x\r\n{upgrade}\r\n",
        f"GET /v1/ws HTTP/1.1\r\nhost: x\r\n{upgrade}{protocol}\r\n\r\n",
        f"GET /v1/ws?ticket={SECRET}\xff HTTP/1.1\r\nhost: x\r\n{upgrade}\r\n\r\n",
    ):
        await raw(gateway, text)
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        await http.get("/healthz")

    assert not any(SECRET in line for line in await lines_of(gateway))
