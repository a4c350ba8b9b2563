"""`headgate serve` with TLS: the process, the event loop and the log as an operator has them."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect

from tests.api.commands.command_line import headgate
from tests.api.transport.certificates import Authority
from tests.processes.gateway import Gateway

LARGE = {"fields": {"v": "x" * 60_000}}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def gateway(authority: Authority) -> AsyncIterator[Gateway]:
    files = {"tls_cert": authority.certificate, "tls_key": authority.key}
    settings = {**files, "request_ms_max": 1000, "log_level": "debug"}
    running = await Gateway.start(Path(":memory:"), settings)
    yield running
    await running.kill()


def address_of(gateway: Gateway) -> tuple[str, int]:
    return "127.0.0.1", httpx.URL(gateway.url).port or 0


def complaints(gateway: Gateway) -> list[str]:
    words = ("Traceback", "ERROR", "WARNING", "Exception")
    return [line for line in gateway.log_lines if any(word in line for word in words)]


async def test_it_greets_with_https_and_is_healthy(gateway: Gateway) -> None:
    port = str(address_of(gateway)[1])

    assert gateway.url.startswith("https://")
    assert await headgate(gateway.url, "health") == (0, "ok\n", "")
    variables = {"HEADGATE_PORT": port, "HEADGATE_TLS_CERT": "/somewhere/cert.pem"}
    assert await headgate("", "health", **variables) == (0, "ok\n", "")


async def test_commands_of_others_want_a_good_certificate(
    gateway: Gateway, authority: Authority, tmp_path: Path
) -> None:
    ended = await headgate(gateway.url, "stream", "list")
    assert ended.code == 1
    assert "is not trusted" in ended.error

    trusted = tmp_path / "ca.pem"
    trusted.write_text(ssl.DER_cert_to_PEM_cert(authority.trust.get_ca_certs(binary_form=True)[-1]))
    assert (await headgate(gateway.url, "stream", "list", "--ca", str(trusted))).code == 0


async def test_peers_without_a_handshake_leave_the_log_quiet(gateway: Gateway) -> None:
    greetings = [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\0" * 70_000, b""]
    for greeting in greetings:
        reader, writer = await asyncio.open_connection(*address_of(gateway))
        writer.write(greeting)
        with suppress(OSError):
            await reader.read()
        writer.close()
    with pytest.raises(OSError):  # noqa: PT011
        await asyncio.open_connection(*address_of(gateway), ssl=ssl.create_default_context())
    for _ in range(5):  # reset in the middle
        broken = socket.create_connection(address_of(gateway))
        broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        broken.send(b"\x16\x03\x01")
        broken.close()

    assert (await headgate(gateway.url, "health")).code == 0
    assert complaints(gateway) == []


async def test_an_answer_is_whole_before_its_connection_ends(
    gateway: Gateway, authority: Authority
) -> None:
    async with httpx.AsyncClient(base_url=gateway.url, verify=authority.trust) as http:
        await http.post("/v1/streams/orders/entries/batch", json=[LARGE] * 100)
    reader, writer = await asyncio.open_connection(
        *address_of(gateway), ssl=authority.trust, limit=1000
    )

    path = b"/v1/streams/orders/entries?after=0&limit=100"
    writer.write(b"GET " + path + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    size = 0
    while portion := await reader.read(100_000):  # slowly: the gateway has closed meanwhile
        size += len(portion)
        await asyncio.sleep(0)

    assert b"200 OK" in head
    assert size > 6_000_000
    writer.close()


async def test_it_stops_at_once_although_connections_are_idle(
    gateway: Gateway, authority: Authority
) -> None:
    loop = asyncio.get_running_loop()
    async with httpx.AsyncClient(base_url=gateway.url, verify=authority.trust) as http:
        await http.get("/healthz")
        async with connect(f"wss{gateway.url.removeprefix('https')}/v1/ws", ssl=authority.trust):
            stopping = loop.time()
            await gateway.stop()
    assert loop.time() - stopping < 4
    assert complaints(gateway) == []
