"""TLS: the same gateway behind a certificate, and what peers without a handshake get."""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import httpx
import httpx_sse
import pytest
from websockets.asyncio.client import connect

from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.api.transport.certificates import Authority
from tests.complaints import complaints
from tests.conditions import until

ENTRIES = "/v1/streams/orders/entries"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def settings(authority: Authority) -> Settings:
    return authority.settings(heartbeat_ms=200, request_ms_max=1000)


@pytest.fixture
async def live(settings: Settings, authority: Authority) -> AsyncIterator[Live]:
    async with running(settings, trust=authority.trust) as gateway:
        yield gateway


def port_of(live: Live) -> int:
    return httpx.URL(live.url).port or 0


async def plain(live: Live) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port_of(live))


async def certificate_shown(live: Live, trust: ssl.SSLContext) -> bytes:
    """Return the certificate of a new connection, as DER."""
    _, writer = await asyncio.open_connection("127.0.0.1", port_of(live), ssl=trust)
    shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return shown


async def test_all_transports_work(live: Live, authority: Authority) -> None:
    [first] = await live.append("orders", "1")
    url = "/v1/streams/orders/events?after=0"
    async with httpx_sse.aconnect_sse(live.http, "GET", url) as source:
        events = source.aiter_sse()
        assert [(await anext(events)).event for _ in range(3)] == ["ready", "entry", "caught_up"]
        [second] = await live.append("orders", "2")
        assert (await anext(events)).id == second

    ws = f"{live.ws_url}/v1/streams/orders/ws?after={first}"
    async with connect(ws, ssl=authority.trust) as socket:
        frames = [json.loads(await socket.recv()) for _ in range(3)]
    assert [entry["id"] for entry in frames[2]["entries"]] == [second]


async def test_a_large_answer_arrives_as_a_whole(live: Live) -> None:
    entries = [{"fields": {"v": "x" * 50_000}} for _ in range(100)]
    await live.http.post(f"{ENTRIES}/batch", json=entries)

    read = await live.http.get(ENTRIES, params={"after": "0", "limit": 100})

    assert len(read.content) > 5_000_000
    assert len(read.json()["entries"]) == 100


async def test_a_large_answer_that_is_not_taken_counts(live: Live, authority: Authority) -> None:
    for _ in range(12):
        await live.append("orders", "x" * 1_000_000)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port_of(live), ssl=authority.trust, limit=2**16
    )
    writer.write(b"GET " + ENTRIES.encode() + b" HTTP/1.1\r\nhost: localhost\r\n\r\n")
    registry = live.gateway.metrics.registry
    await until(lambda: (registry.get_sample_value("headgate_sockets_unsent_bytes") or 0) > 5e6)
    assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200 ")
    writer.transport.abort()
    await until(lambda: registry.get_sample_value("headgate_sockets_unsent_bytes") == 0)


async def test_requests_that_come_together_are_answered_in_order(
    live: Live, authority: Authority
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(live), ssl=authority.trust)
    request = b"GET /v1/streams/%d HTTP/1.1\r\nhost: localhost\r\n\r\n"

    writer.write(b"".join(request % number for number in range(300)))

    for number in range(300):
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None
        body = json.loads(await reader.readexactly(int(length[1])))
        assert body["instance"] == f"/v1/streams/{number}"
    writer.close()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")  # it is what we ask for
async def test_versions_before_1_2_are_refused(live: Live, authority: Authority) -> None:
    trust = authority.trust
    trust.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    trust.set_ciphers("ALL:@SECLEVEL=0")

    trust.maximum_version = ssl.TLSVersion.TLSv1_2
    await certificate_shown(live, trust)
    trust.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError):  # noqa: PT011  # a refusal, or a reset that overtakes it
        await certificate_shown(live, trust)


@pytest.mark.parametrize(
    "bytes_sent",
    [b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\0" * 5000, b""],
)
async def test_a_peer_without_tls_is_closed_and_the_log_is_quiet(
    live: Live, bytes_sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await plain(live)
    writer.write(bytes_sent)
    if not bytes_sent:
        writer.write_eof()

    with suppress(ConnectionResetError):
        answer = await reader.read()
        assert b"HTTP" not in answer

    writer.close()
    assert (await live.http.get("/healthz")).status_code == 200
    assert complaints(caplog) == []


async def test_a_peer_that_distrusts_the_certificate_leaves_no_trace(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection("127.0.0.1", port_of(live), ssl=ssl.create_default_context())

    assert (await live.http.get("/healthz")).status_code == 200
    assert complaints(caplog) == []


@pytest.mark.parametrize("bytes_sent", [b"", b"\x16\x03\x01\x02\x00\x01"])
async def test_a_handshake_that_never_ends_is_given_up(live: Live, bytes_sent: bytes) -> None:
    reader, writer = await plain(live)
    writer.write(bytes_sent)

    with suppress(ConnectionResetError):
        async with asyncio.timeout(10):  # request_ms_max, and patience
            assert await reader.read() == b""

    writer.close()


async def test_half_a_request_is_given_up(live: Live, authority: Authority) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(live), ssl=authority.trust)
    writer.write(b"GET /healthz HTTP/1.1\r\n")

    answer = await reader.read()

    assert answer.startswith(b"HTTP/1.1 408 ")
    writer.close()


async def test_handshakes_count_among_the_connections(authority: Authority) -> None:
    async with running(
        authority.settings(sockets_max=16, request_ms_max=20_000), trust=authority.trust
    ) as live:
        assert (await live.http.get("/healthz")).status_code == 200  # and stays open
        silent = [await plain(live) for _ in range(40)]

        ended = [asyncio.create_task(reader.read()) for reader, _ in silent]
        await until(lambda: sum(task.done() for task in ended) >= 25)

        assert (await live.http.get("/healthz")).status_code == 200
        assert "headgate_sockets_refused" in (await live.http.get("/metrics")).text
        for _, writer in silent:
            writer.close()
        await asyncio.gather(*ended, return_exceptions=True)
        await until(lambda: len(live.gateway.sockets.departures) == 0)
        async with httpx.AsyncClient(base_url=live.url, verify=authority.trust) as another:
            assert (await another.get("/healthz")).status_code == 200


async def test_a_reader_that_reads_nothing_is_given_up(authority: Authority) -> None:
    settings = authority.settings(send_ms_max=500, heartbeat_ms=200)
    async with running(settings, trust=authority.trust) as live:
        await live.append("orders", "1")
        _, writer = await asyncio.open_connection("127.0.0.1", port_of(live), ssl=authority.trust)
        writer.write(b"GET /v1/streams/orders/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await live.until_waiting(1)
        writer.transport.pause_reading()  # type: ignore[attr-defined]

        while live.waiter_count or live.gateway.metrics.connection_count:
            await live.append("orders", "x" * 200_000)

        await until(lambda: live.gateway.metrics.connection_count == 0)
        writer.transport.abort()


async def test_a_socket_that_reads_nothing_is_given_up(authority: Authority) -> None:
    settings = authority.settings(send_ms_max=500, heartbeat_ms=200)
    async with running(settings, trust=authority.trust) as live:
        await live.append("orders", "1")
        url = f"{live.ws_url}/v1/streams/orders/ws?credit=1000"
        socket = await connect(url, ssl=authority.trust)
        await live.until_waiting(1)
        socket.transport.pause_reading()

        while live.waiter_count or live.gateway.metrics.connection_count:
            await live.append("orders", "x" * 200_000)

        assert (await live.http.get("/healthz")).status_code == 200
        socket.transport.abort()
        await socket.wait_closed()


async def test_a_new_certificate_is_used_by_new_connections(
    live: Live, authority: Authority
) -> None:
    before = await certificate_shown(live, authority.trust)
    async with connect(f"{live.ws_url}/v1/ws", ssl=authority.trust) as old:
        new = authority.renew()

        async with asyncio.timeout(10):
            while await certificate_shown(live, authority.trust) == before:
                pass

        assert await certificate_shown(live, authority.trust) == new != before
        await old.recv()
        await old.send('{"type":"ping","rid":"1"}')
        assert json.loads(await old.recv())["type"] == "pong"
