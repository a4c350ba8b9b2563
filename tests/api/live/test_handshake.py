"""Clients that leave before the end of the handshake."""

import asyncio
import logging
import socket
import struct
from urllib.parse import urlsplit

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import running
from tests.complaints import complaints
from tests.conditions import until

COUNT = 200
HANDSHAKE = (
    b"GET /v1/streams/orders/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
RESET = struct.pack("ii", 1, 0)


async def test_many_who_go_before_it_is_over_are_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async with running(Settings()) as live:
        await live.append("orders", "1")
        place = urlsplit(live.url)
        caplog.clear()
        peers = [socket.create_connection((place.hostname, place.port)) for _ in range(COUNT)]
        await until(lambda: live.gateway.sockets.count() >= COUNT)
        for peer in peers:
            peer.sendall(HANDSHAKE)
        await asyncio.sleep(0)  # the handshakes are read, and nobody is answered yet
        for peer in peers:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            peer.close()
        await until(lambda: live.gateway.sockets.count() <= 1)
    assert complaints(caplog, logging.ERROR) == []
