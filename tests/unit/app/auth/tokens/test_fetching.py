"""A key set is fetched over a protected way, within bounds, and never from elsewhere."""

import asyncio
import gzip
import logging
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from ipaddress import ip_address
from pathlib import Path

import pytest
import trustme

from headgate.app.auth.tokens import fetching
from headgate.app.auth.tokens.fetching import Fetcher
from headgate.app.auth.tokens.key_set import SIZE_BYTES_MAX, KeySetFault
from headgate.app.runtime.logs.lines import set_up_logging

BODY = b'{"keys": []}'


def answer(body: bytes = BODY, status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def issuer(*answers: bytes | None, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Answer connections, one after the other, on a port of this machine; None: never."""
    left = list(answers)
    silent = asyncio.Event()
    serving = set[asyncio.Task[object] | None]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        with suppress(OSError, EOFError), closing(writer):
            await reader.readuntil(b"\r\n\r\n")
            text = left.pop(0)
            if text is None:
                await silent.wait()
            else:
                writer.write(text)
        with suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]
        silent.set()
        await asyncio.gather(*filter(None, serving))


async def fault(*answers: bytes | None) -> str:
    async with issuer(*answers) as port:
        with pytest.raises(KeySetFault) as refused:
            await Fetcher(f"http://127.0.0.1:{port}/keys")()
    return str(refused.value)


async def test_a_certificate_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    async with issuer(answer(), answer(), tls=tls) as port:
        url = f"https://127.0.0.1:{port}/keys"
        with pytest.raises(KeySetFault, match="certificate verify failed"):
            await Fetcher(url)()

        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert await Fetcher(url)() == BODY


@pytest.fixture
def whole_log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Capture the log of a gateway at its lowest level."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    set_up_logging("debug")
    root.addHandler(caplog.handler)
    yield caplog
    root.handlers[:] = handlers
    root.setLevel(level)


async def test_a_query_does_not_stand_in_the_log(whole_log: pytest.LogCaptureFixture) -> None:
    async with issuer(answer(), answer(status="302 Found", Location="http://a.example/")) as port:
        fetch = Fetcher(f"http://127.0.0.1:{port}/keys?token=s3cret")
        await fetch()
        with pytest.raises(KeySetFault) as refused:
            await fetch()

    assert "s3cret" not in whole_log.text + str(refused.value)


async def test_a_redirect_on_the_same_way_is_followed() -> None:
    async with issuer(answer(status="302 Found", Location="/other"), answer()) as port:
        assert await Fetcher(f"http://127.0.0.1:{port}/keys")() == BODY


@pytest.mark.parametrize(
    "location",
    [
        *("http://issuer.example/", "https://127.0.0.1:1/", "http://localhost/"),
        *("http://127.0.0.1:1/", "http://[::1]/", "http://169.254.169.254/latest/meta-data/"),
        *("file:///etc/passwd", "http://a:b@127.0.0.1/"),
    ],
)
async def test_a_redirect_to_elsewhere_is_refused(location: str) -> None:
    assert await fault(answer(status="302 Found", Location=location))


async def test_redirects_without_end_are_refused() -> None:
    assert "redirects" in await fault(*[answer(status="302 Found", Location="/")] * 9)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_name_that_leads_inward_gets_nothing(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_METADATA", {ip_address("127.0.0.1")})
    sent = asyncio.Queue[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent.put_nowait(await reader.read())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(KeySetFault, match=r"leads to 127\.0\.0\.1, where no issuer is"):
            await Fetcher(f"{scheme}://localhost:{port}/keys")()
        assert await asyncio.wait_for(sent.get(), 10) == b""


@pytest.mark.parametrize("status", ["404 Not Found", "500 Oops", "204 No Content", "304 No"])
async def test_another_status_is_a_failure(status: str) -> None:
    assert status[:3] in await fault(answer(b"", status=status))


async def test_a_large_answer_is_given_up() -> None:
    assert "larger than" in await fault(answer(b" " * (SIZE_BYTES_MAX + 1)))


async def test_a_compressed_answer_is_refused() -> None:
    body = gzip.compress(b" " * 10_000_000)

    assert "compressed" in await fault(answer(body, Content_Encoding="gzip"))


async def test_what_is_no_http_is_a_failure() -> None:
    assert await fault(b"SSH-2.0-OpenSSH\r\n")
    assert await fault(b"")
    assert await fault(answer()[:-3])


async def test_an_issuer_that_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "FETCH_S_MAX", 0.1)

    assert await fault(None)


@pytest.mark.parametrize(
    "url",
    [
        *("http://issuer.example/keys", "http://10.0.0.1/keys"),
        *("http://127.0.0.1.evil.example/keys", "http://localhost.evil.example/keys"),
        *("ftp://issuer.example/keys", "file:///etc/passwd", "https://", "https:///keys"),
        *("https://user:secret@issuer.example/keys", "https://issuer.example:port/keys"),
        *("https://[::1/keys", "https://169.254.169.254/latest/meta-data/"),
        *("http://169.254.169.254/", "https://[fe80::1]/", "https://[::ffff:169.254.169.254]/"),
        *("https://[fd00:ec2::254]/", "https://100.100.100.200/", "https://0.0.0.0/"),
        *("https://[::]/", "https://224.0.0.1/"),
    ],
)
def test_a_url_that_is_not_protected_stops_the_start(url: str) -> None:
    with pytest.raises(KeySetFault) as refused:
        Fetcher(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["https://issuer.example/keys", "http://localhost:1/", "http://[::1]:1/", "HTTPS://a/"]
)
def test_a_url_that_is_protected_is_good(url: str) -> None:
    Fetcher(url)
