"""Keys of an issuer, at a URL or in settings: fetched within bounds, never lost, and fitting."""

import asyncio
import gzip
import logging
import re
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, suppress
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from headgate.app import addresses
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.app.auth.private_file import CredentialFault
from headgate.app.auth.tokens import fetching
from headgate.app.auth.tokens.compact import Algorithm, ClaimRules
from headgate.app.auth.tokens.fetching import Fetcher
from headgate.app.auth.tokens.issuer import Issuer, IssuerChoices, TokenVerifier, open_issuer
from headgate.app.auth.tokens.jwks import JwksUrl
from headgate.app.auth.tokens.verifying_key import SIZE_BYTES_MAX, KeySetFault, key_of_file
from headgate.app.runtime.logs import set_up_logging
from tests.conditions import WITHIN_S
from tests.unit.app.auth.tokens.issuing import (
    NOW_MS,
    SECRET,
    jwk_of,
    key_set_of,
    private_key,
    public_pem,
    sign,
)
from tests.virtual_time import in_virtual_time, now_ms

GOOD = key_set_of(jwk_of("ES256", "a"))
CHANGED = key_set_of(jwk_of("ES256", "b"))


class Publisher:
    """Publishes a key set, or fails; `JwksUrl` runs in virtual time."""

    def __init__(self) -> None:
        self.answer: bytes | None = GOOD
        self.fetched_at_ms: list[int] = []
        self.withdrawn: list[frozenset[str]] = []
        url, withdrawn = "https://issuer.example/keys", self.withdrawn.append
        self.jwks = JwksUrl(url, self.fetch, (), withdrawn, jitter=lambda: 1.0)

    async def fetch(self) -> bytes:
        self.fetched_at_ms.append(now_ms())
        if self.answer is None:
            raise KeySetFault("no answer")
        return self.answer

    def pauses_s(self) -> list[float]:
        """Return the times between fetches, and forget them."""
        pauses = [(after - before) / 1000 for before, after in pairwise(self.fetched_at_ms)]
        del self.fetched_at_ms[:-1]
        return pauses


@asynccontextmanager
async def published() -> AsyncIterator[Publisher]:
    """Keep the keys of an issuer while the context lasts."""
    issuer = Publisher()
    task = asyncio.create_task(issuer.jwks.run())
    yield issuer
    task.cancel()
    await asyncio.wait([task])


@in_virtual_time
async def test_keys_are_fetched_at_once_and_every_five_minutes() -> None:
    async with published() as issuer:
        assert not issuer.jwks.is_known
        assert issuer.jwks.warning is not None
        await asyncio.sleep(1000)
        assert issuer.jwks.is_known
        assert issuer.jwks.warning is None
        assert issuer.fetched_at_ms[0] == 0
        assert issuer.pauses_s() == [300, 300, 300]
        issuer.answer = CHANGED
        await asyncio.sleep(300)
        assert issuer.withdrawn == [{"a"}]
        assert issuer.jwks.keys.with_kid("a") is None
        assert issuer.jwks.keys.with_kid("b") is not None


@in_virtual_time
async def test_an_unknown_key_is_looked_for_at_most_once_in_ten_seconds() -> None:
    async with published() as issuer:
        await asyncio.sleep(1)
        issuer.jwks.ask_for_refresh()  # so soon after a fetch: it is not lost
        await asyncio.sleep(99)
        assert issuer.pauses_s() == [10]
        for _ in range(1000):
            issuer.jwks.ask_for_refresh()
            await asyncio.sleep(0.1)
        assert issuer.pauses_s() == [90] + [10] * 10
        await asyncio.sleep(320)
        assert issuer.pauses_s() == [300]


@in_virtual_time
async def test_a_failure_keeps_the_keys_and_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with published() as issuer:
        await asyncio.sleep(1)
        keys, issuer.answer = issuer.jwks.keys, None
        await asyncio.sleep(3000)
        assert issuer.jwks.keys is keys
        assert issuer.jwks.warning == "https://issuer.example/keys: no answer"
        assert issuer.withdrawn == []
        assert issuer.pauses_s()[:10] == [300, 2, 4, 8, 16, 32, 64, 128, 256, 300]
        issuer.answer = b"<html>"
        await asyncio.sleep(1000)
        issuer.answer = GOOD
        await asyncio.sleep(300)
        assert issuer.jwks.warning is None
    logged = [record.getMessage().rpartition(" not ")[1] for record in caplog.records]
    assert logged == ["", " not ", " not ", ""]  # a failure once


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
    ways = [answer(status="302 Found", Location=to) for to in ("/other", "http://a.example/")]
    async with issuer(ways[0], answer(), ways[1]) as port:
        fetch = Fetcher(f"http://127.0.0.1:{port}/keys?token=s3cret")
        assert await fetch() == BODY  # a redirect on the same way is followed
        with pytest.raises(KeySetFault) as refused:
            await fetch()

    assert "s3cret" not in whole_log.text + str(refused.value)


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


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_name_leading_inward_gets_none(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "_METADATA", {ip_address("127.0.0.1")})
    sent = asyncio.Queue[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent.put_nowait(await reader.read())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(
            KeySetFault, match=r"has the address 127\.0\.0\.1, which is not allowed"
        ):
            await Fetcher(f"{scheme}://localhost:{port}/keys")()
        assert await asyncio.wait_for(sent.get(), WITHIN_S) == b""


BOMB = answer(gzip.compress(b" " * 10_000_000), Content_Encoding="gzip")


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        *(([answer(b"", status=status)], status) for status in ("404", "500", "204", "304")),
        ([answer(status="302 Found", Location="/")] * 9, "redirects"),
        ([answer(b" " * (SIZE_BYTES_MAX + 1))], "larger than"),
        *(([BOMB], "compressed"), ([b"SSH-2.0-OpenSSH\r\n"], ""), ([b""], "")),
        *(([answer()[:-3]], ""), ([None], "")),
    ],
    ids=range(11),
)
async def test_another_answer_is_a_failure(
    answers: list[bytes | None], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if answers == [None]:
        monkeypatch.setattr(fetching, "FETCH_S_MAX", 0.1)
    assert text in await fault(*answers)


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
    for good in ("https://issuer.example/keys", "http://localhost:1/", "http://[::1]:1/"):
        Fetcher(good)


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    path = tmp_path / "key.pem"
    path.write_bytes(public_pem(private_key("ES256")))
    return path


@pytest.fixture
def jwks(tmp_path: Path) -> Path:
    path = tmp_path / "jwks.json"
    path.write_bytes(key_set_of(jwk_of("RS256", "r")))
    return path


def opened(*algorithms: str, **choices: Any) -> Issuer | None:
    names = [Algorithm(name) for name in algorithms]
    return open_issuer(IssuerChoices(algorithms=names, **choices), on_withdrawn=lambda _: None)


def test_all_sources_may_be_used_at_once(pem: Path, jwks: Path) -> None:
    issuer = opened(secret=SECRET, public_key_file=pem, jwks=str(jwks))

    assert issuer is not None
    tokens = sign("HS256"), sign("ES256"), sign("RS256", header={"kid": "r"})
    assert [issuer.verifier.verify(token, NOW_MS).key for token in tokens] == [None, None, "r"]


def test_a_url_is_not_fetched_at_the_start() -> None:
    issuer = opened(jwks="https://issuer.example/keys?token=s3cret")

    assert issuer is not None
    assert issuer.jwks is not None
    assert not issuer.jwks.is_known
    assert issuer.jwks.warning == "https://issuer.example/keys: the keys could not be fetched yet"
    with pytest.raises(CredentialFault, match=r"jwt_jwks: http://10\.0\.0\.1 is not") as refused:
        opened(jwks="http://10.0.0.1/keys?token=s3cret")
    assert "s3cret" not in str(refused.value)


def test_algorithms_that_do_not_fit_a_key_stop_the_start(pem: Path, jwks: Path) -> None:
    no_key, none_fits = "jwt_algorithms: there is no key for", "none of the algorithms of the key"
    cases: list[tuple[list[str], dict[str, Any], str]] = [
        *((names, {}, no_key) for names in (["HS256"], ["ES256"], ["HS256", "ES256", "RS256"])),
        *(([name], {"public_key_file": pem}, none_fits) for name in ("HS256", "RS256", "ES384")),
        (["ES256", "RS256"], {"public_key_file": pem}, f"{no_key} RS256"),
        (["ES256"], {"secret": SECRET, "public_key_file": pem}, none_fits),
        (["ES256"], {"jwks": str(jwks)}, none_fits),
        (["HS256"], {"secret": SECRET, "jwks": "https://a.example/"}, "none of these algorithms"),
        ([], {"secret": pem.read_bytes()}, r"jwt_secret: .* everybody may know it"),
    ]
    for names, choices, text in cases:
        with pytest.raises(CredentialFault, match=text):
            opened(*names, **choices)
    assert opened() is None


PAGE = Path(__file__).parents[5] / "app" / "SECURITY.md"
_PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_token_of_the_page_opens_what_it_says(tmp_path: Path) -> None:
    private = private_key("ES256")
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (tmp_path / "private.pem").write_bytes(pem)
    (tmp_path / "public.pem").write_bytes(public_pem(private))
    [program] = (text for text in _PROGRAM.findall(PAGE.read_text("utf-8")) if "jwt" in text)

    words = [sys.executable, "-c", program]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)

    keys = [key_of_file(tmp_path / "public.pem")]
    verifier = TokenVerifier(keys, rules=ClaimRules(audience="headgate"))
    principal = verifier.verify(ended.stdout.strip(), int(time.time() * 1000))
    assert principal.may_create(b"chat.ann.1")
    assert principal.may(Need((Verb.CONSUME,), b"jobs", b"workers", b"ann"))
    assert not principal.may(Need((Verb.CONSUME,), b"jobs", b"workers", b"bob"))
