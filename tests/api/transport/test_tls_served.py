"""`headgate serve` as an operator has it: with TLS, no secret in its log, at home only."""

import asyncio
import json
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from headgate.app.cli import main
from headgate.app.main import create_app
from headgate.app.server import Exposed, Server
from headgate.app.settings import MEMORY, Settings
from tests.api.commands.command_line import headgate
from tests.api.conftest import running
from tests.api.transport.certificates import Authority
from tests.complaints import complaints
from tests.conditions import WITHIN_S, until
from tests.processes.gateway import Gateway, failure_of

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
    assert (await headgate(gateway.url, "stream", "list", "--ca", str(authority.root))).code == 0


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
        async with asyncio.timeout(WITHIN_S):
            await reader.read()
    writer.close()


ABROAD = "0.0.0.0"


@pytest.mark.parametrize("host", [ABROAD, "::"])
def test_a_host_that_others_reach_is_refused(host: str, tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    alone = CliRunner(env={"HEADGATE_TEST_BACKEND": None})  # the command would warn of it
    ended = alone.invoke(
        main, ["serve", "--port", "0", "--host", host, "--data-dir", f"{data_dir}"]
    )

    assert (ended.exit_code, ended.stdout) == (1, "")
    failure = failure_of(ended.stderr)
    assert failure.startswith(f"Other machines can reach {host}, ")
    for way_on in ("headgate keys add me --grant '{", f"--data-dir {data_dir}\n", "--allow-anon"):
        assert way_on in failure
    assert not data_dir.exists()


async def test_a_first_key_opens_it_to_others(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path, {"host": ABROAD, "first_key": "true"})
    await gateway.stop()

    key = (tmp_path / "first-key").read_text().strip()
    assert key.startswith("hg_")
    for text in (key, "unencrypted"):
        assert sum(text in line for line in gateway.log_lines) == 1


@pytest.mark.parametrize("host", [ABROAD, "127.0.0.1"])
async def test_browsers_stay_with_tls_unless_it_is_local(host: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = authority.settings(host=host, data_dir=MEMORY, allow_anonymous=True)
    async with running(settings, trust=authority.trust) as live:
        for path in ("/healthz", "/v1/streams", "/nowhere"):
            answer = await live.http.get(path)
            assert ("strict-transport-security" in answer.headers) == (host == ABROAD)


async def test_a_server_of_a_program_is_no_way_around() -> None:
    settings = Settings(data_dir=MEMORY, host=ABROAD, port=0)
    app = await asyncio.to_thread(create_app, settings)

    with pytest.raises(Exposed):
        await Server(app, settings).serve()


@pytest.mark.parametrize("host", [ABROAD, "127.0.0.1"])
async def test_everybody_may_be_let_in_with_a_warning(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    is_open = host == ABROAD
    settings = Settings(data_dir=MEMORY, host=host, port=0, allow_anonymous=is_open)
    app = await asyncio.to_thread(create_app, settings)
    server = Server(app, settings)
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    server.should_exit = True
    await serving

    assert ["allow_anonymous" in line for line in complaints(caplog)] == [True] * is_open
