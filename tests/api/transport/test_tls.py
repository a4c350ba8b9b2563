"""TLS: the same gateway behind a certificate, and what peers without a handshake get."""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from functools import partial

import httpx
import httpx_sse
import pytest
import pytest_asyncio
from websockets.asyncio.client import connect

from tests.api.conftest import Live, connected, running
from tests.api.transport.certificates import Authority
from tests.complaints import complaints
from tests.conditions import WITHIN_S, eventually, until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def live(authority: Authority) -> AsyncIterator[Live]:
    settings = authority.settings(heartbeat_ms=200, request_ms_max=1000)
    async with running(settings, trust=authority.trust) as gateway:
        yield gateway


async def certificate_shown(live: Live, trust: ssl.SSLContext) -> bytes:
    """Return the certificate of a new connection, as DER."""
    async with connected(live, trust) as (_, writer):
        shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
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


async def test_a_large_answer_that_is_not_taken_counts(live: Live, authority: Authority) -> None:
    for _ in range(12):
        await live.append("large", "x" * 1_000_000)
    registry = live.gateway.metrics.registry
    async with connected(live, authority.trust) as (reader, writer):
        writer.write(b"GET /v1/streams/large/entries HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await until(lambda: (registry.get_sample_value("headgate_sockets_unsent_bytes") or 0) > 5e6)
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200 ")
    await until(lambda: registry.get_sample_value("headgate_sockets_unsent_bytes") == 0)


async def test_requests_together_are_answered_in_order(live: Live, authority: Authority) -> None:
    request = b"GET /v1/streams/%d HTTP/1.1\r\nhost: localhost\r\n\r\n"
    async with connected(live, authority.trust) as (reader, writer):
        writer.write(b"".join(request % number for number in range(300)))
        for number in range(300):
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            assert length is not None
            body = json.loads(await reader.readexactly(int(length[1])))
            assert body["instance"] == f"/v1/streams/{number}"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")  # it is what we ask for
async def test_versions_before_1_2_are_refused(live: Live) -> None:
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    trust.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    trust.set_ciphers("ALL:@SECLEVEL=0")

    trust.maximum_version = ssl.TLSVersion.TLSv1_2
    await certificate_shown(live, trust)
    trust.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError):  # noqa: PT011  # a refusal, or a reset that overtakes it
        await certificate_shown(live, trust)


async def test_a_peer_without_tls_or_trust_is_closed_and_the_log_is_quiet(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    plain = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
    for sent in (plain, b"\x16\x03\x01\x00\x05hello", b"\0" * 5000, b""):
        async with connected(live, None) as (reader, writer):
            writer.write(sent)
            if not sent:
                writer.write_eof()
            with suppress(ConnectionResetError):
                assert b"HTTP" not in await reader.read()
    with pytest.raises(ssl.SSLCertVerificationError):
        await certificate_shown(live, ssl.create_default_context())

    assert (await live.http.get("/healthz")).status_code == 200
    assert complaints(caplog) == []


async def test_what_never_ends_is_given_up(live: Live, authority: Authority) -> None:
    async with (
        connected(live, None) as (silent, _),
        connected(live, None) as (begun, hello),
        connected(live, authority.trust) as (asked, half),
    ):
        hello.write(b"\x16\x03\x01\x02\x00\x01")
        half.write(b"GET /healthz HTTP/1.1\r\n")
        async with asyncio.timeout(WITHIN_S):
            for handshake in (silent, begun):
                with suppress(ConnectionResetError):
                    assert await handshake.read() == b""
            assert (await asked.read()).startswith(b"HTTP/1.1 408 ")


async def test_handshakes_count_among_the_connections(authority: Authority) -> None:
    settings = authority.settings(sockets_max=16, request_ms_max=20_000)
    async with running(settings, trust=authority.trust) as live, AsyncExitStack() as stack:
        assert (await live.http.get("/healthz")).status_code == 200  # and stays open
        silent = [await stack.enter_async_context(connected(live, None)) for _ in range(40)]

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


async def test_who_reads_nothing_is_given_up(authority: Authority) -> None:
    settings = authority.settings(send_ms_max=500, heartbeat_ms=200)
    async with running(settings, trust=authority.trust) as live:
        await live.append("orders", "1")
        url = f"{live.ws_url}/v1/streams/orders/ws?credit=1000"
        async with connected(live, authority.trust) as (_, writer):
            writer.write(b"GET /v1/streams/orders/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            socket = await connect(url, ssl=authority.trust)
            await live.until_waiting(2)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            socket.transport.pause_reading()

            while live.waiter_count or live.gateway.metrics.connection_count:
                await live.append("orders", "x" * 200_000)

            assert (await live.http.get("/healthz")).status_code == 200
            socket.transport.abort()
            await socket.wait_closed()


async def test_new_connections_use_a_new_certificate(live: Live, authority: Authority) -> None:
    before = await certificate_shown(live, authority.trust)
    async with connect(f"{live.ws_url}/v1/ws", ssl=authority.trust) as old:
        new = authority.renew()
        look = partial(certificate_shown, live, authority.trust)
        shown = await eventually(look, lambda now: now != before)
        assert shown == new
        await old.recv()
        await old.send('{"type":"ping","rid":"1"}')
        assert json.loads(await old.recv())["type"] == "pong"
