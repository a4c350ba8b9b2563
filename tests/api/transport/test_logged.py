"""The log has no secret in it, at any level and whatever a client sends."""

import asyncio
import json
from contextlib import suppress

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from headgate.app.settings import MEMORY
from tests.processes.gateway import Gateway

SECRET = "S3cretS3cretS3cret"
NAMES = ["ticket", "%74icket", "%74%69%63%6b%65%74", "TICKET", "a=b&ticket", "token", "ticket%20"]
PATHS = ["/v1/streams/orders/events", "/v1/streams", "/", "/nothing"]
SOCKETS = ["/v1/ws", "/v1/streams/orders/ws", "/v1/nothing/ws"]
HEADERS = [
    {"authorization": f"Bearer {SECRET}"},
    {"authorization": SECRET},
    {"cookie": f"headgate_token={SECRET}"},
]
UPGRADE = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
PROTOCOL = f'sec-websocket-key: x\r\nsec-websocket-protocol: headgate.bearer.{SECRET}, "'
MALFORMED = [
    f"GET http://[x?ticket={SECRET} HTTP/1.1\r\n\r\n",
    f"GET ///?ticket={SECRET} HTTP/1.1\r\nhost: x\r\n\r\n",
    f"GET /a b?ticket={SECRET} HTTP/1.1\r\n\r\n",
    f"GET /?ticket={SECRET}\xff HTTP/1.1\r\nhost: x\r\n\r\n",
    f"GET /?ticket={SECRET} HTTP/9.9\r\n\r\n",
    f"GET / HTTP/1.1\r\nauthorization Bearer {SECRET}\r\n\r\n",
    f"GET / HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {SECRET}\0\r\n\r\n",
    f"BAD{SECRET} / HTTP/1.1\r\n\r\n",
    f"GET /v1/ws?ticket={SECRET} HTTP/1.1\r\nhost: x\r\n{UPGRADE}\r\n",
    f"GET /v1/ws HTTP/1.1\r\nhost: x\r\n{UPGRADE}{PROTOCOL}\r\n\r\n",
    f"GET /v1/ws?ticket={SECRET}\xff HTTP/1.1\r\nhost: x\r\n{UPGRADE}\r\n\r\n",
]


async def test_no_secret_is_logged_whatever_is_sent() -> None:
    gateway = await Gateway.start(MEMORY, {"log_level": "debug"})
    try:
        ws_url = f"ws{gateway.url.removeprefix('http')}"
        async with httpx.AsyncClient(base_url=gateway.url) as http:
            for query in (f"?{name}={SECRET}" for name in NAMES):
                for path in PATHS:
                    for origin in ({}, {"origin": "https://stranger.example"}):
                        await http.get(path + query, headers=origin)
                for path in SOCKETS:
                    await opened(ws_url + path + query)
            for headers in HEADERS:
                await http.get("/v1/streams", headers=headers)
            await opened(f"{ws_url}/v1/ws", f"headgate.bearer.{SECRET}")
            for text in MALFORMED:
                await raw(gateway, text)
            await http.get("/healthz")
        await gateway.stop()  # so that no line is missing
    finally:
        await gateway.kill()

    assert not any(SECRET in line for line in gateway.log_lines)
    events = [json.loads(line)["event"] for line in gateway.log_lines]
    assert any('"WebSocket /v1/ws?…" [accepted]' in event for event in events)
    assert any("headgate.requests" in line for line in gateway.log_lines)


async def opened(url: str, *protocols: str) -> None:
    """Open a socket if it can be; with a protocol, say more than may be said."""
    with suppress(WebSocketException):
        async with connect(url, subprotocols=protocols or None) as socket:  # type: ignore[arg-type]
            await socket.recv()
            if protocols:
                await socket.send(json.dumps({"type": "auth", "token": SECRET}))
                await socket.send(json.dumps({"type": "auth", "token": [SECRET]}))
                await socket.recv()
                await socket.recv()


async def raw(gateway: Gateway, text: str) -> None:
    url = httpx.URL(gateway.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(text.encode("latin-1"))
    with suppress(OSError):
        writer.write_eof()
        async with asyncio.timeout(30):
            await reader.read()
    writer.close()
