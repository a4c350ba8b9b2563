"""`headgate serve` with TLS: the process, the event loop and the log as an operator has them."""

import asyncio
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect

from tests.api.commands.command_line import headgate
from tests.api.transport.certificates import Authority
from tests.processes.gateway import Gateway

LARGE = {"fields": {"v": "x" * 60_000}}
GREETINGS = [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\0" * 70_000, b""]
COMPLAINTS = ("Traceback", "ERROR", "WARNING", "Exception")


async def test_it_serves_who_trusts_it_and_the_log_is_quiet_whoever_comes(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = {"tls_cert": authority.certificate, "tls_key": authority.key}
    settings = {**files, "request_ms_max": 1000, "log_level": "debug"}
    gateway = await Gateway.start(Path(":memory:"), settings)
    try:
        port = httpx.URL(gateway.url).port
        assert gateway.url == f"https://127.0.0.1:{port}"
        address = "127.0.0.1", port or 0
        await commands_want_a_good_certificate(gateway, authority)
        await peers_come_without_a_handshake(address)
        async with httpx.AsyncClient(base_url=gateway.url, verify=authority.trust) as http:
            await http.post("/v1/streams/orders/entries/batch", json=[LARGE] * 100)
            await an_answer_is_whole_before_its_connection_ends(address, authority)
            url = f"wss{gateway.url.removeprefix('https')}/v1/ws"
            async with connect(url, ssl=authority.trust):
                await gateway.stop()  # although connections are idle
    finally:
        await gateway.kill()
    lines = gateway.log_lines
    assert not [line for line in lines if any(word in line for word in COMPLAINTS)]


async def commands_want_a_good_certificate(gateway: Gateway, authority: Authority) -> None:
    assert await headgate(gateway.url, "health") == (0, "ok\n", "")
    port = gateway.url.rpartition(":")[2]
    variables = {"HEADGATE_PORT": port, "HEADGATE_TLS_CERT": "/somewhere/cert.pem"}
    assert await headgate("", "health", **variables) == (0, "ok\n", "")

    ended = await headgate(gateway.url, "stream", "list")
    assert ended.code == 1
    assert "is not trusted" in ended.error
    trusted = str(authority.root)
    assert (await headgate(gateway.url, "stream", "list", "--ca", trusted)).code == 0


async def peers_come_without_a_handshake(address: tuple[str, int]) -> None:
    for greeting in GREETINGS:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(greeting)
        with suppress(OSError):
            await reader.read()
        writer.close()
    with pytest.raises(OSError):  # noqa: PT011
        await asyncio.open_connection(*address, ssl=ssl.create_default_context())
    for _ in range(5):  # reset in the middle
        broken = socket.create_connection(address)
        broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        broken.send(b"\x16\x03\x01")
        broken.close()


async def an_answer_is_whole_before_its_connection_ends(
    address: tuple[str, int], authority: Authority
) -> None:
    reader, writer = await asyncio.open_connection(*address, ssl=authority.trust, limit=1000)
    path = b"/v1/streams/orders/entries?after=0&limit=100"
    writer.write(b"GET " + path + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
    size = 0
    while portion := await reader.read(100_000):  # slowly: the gateway has closed meanwhile
        size += len(portion)
        await asyncio.sleep(0)
    assert size > 6_000_000
    writer.close()
