"""The token of a command: its source, its destination, and places that never show it."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from headgate.app.settings import Settings
from tests.api.commands.command_line import (
    END_S_MAX,
    Ended,
    headgate,
    next_error_line,
    next_line,
    start,
)
from tests.api.conftest import running
from tests.key_files import EVERYTHING, Keys

TOKEN = "hg_reader_c2VjcmV0LW9mLWEta2V5"
NEW = "hg_reader_YW5vdGhlci1zZWNyZXQ"
LISTED: dict[str, object] = {"streams": [], "next_cursor": None}


class Doorkeeper:
    """An HTTP server that answers to the tokens in `admitted`, and notes what it was sent."""

    def __init__(self) -> None:
        self.admitted = {TOKEN}
        self.forbidden: set[str] = set()
        self.heads: list[str] = []
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        sent = self.heads[-1].partition("uthorization: Bearer ")[2].partition("\r\n")[0]
        status, code, detail = 401, "unauthenticated", "This key is not known."
        if sent in self.forbidden:
            status, code, detail = 403, "forbidden", "This needs `read` on 'orders'."
        problem = {"code": code, "status": status, "detail": detail, "retryable": False}
        kind, body = "application/problem+json", json.dumps(problem)
        if sent in self.admitted and sent not in self.forbidden:
            status, kind, body = 200, "application/json", json.dumps(LISTED)
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
        writer.write(f"{head}connection: close\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def keeping(tls: ssl.SSLContext | None = None) -> AsyncIterator[Doorkeeper]:
    keeper = Doorkeeper()
    async with await asyncio.start_server(keeper.answer, "127.0.0.1", 0, ssl=tls) as server:
        scheme = "http" if tls is None else "https"
        keeper.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield keeper


@pytest.fixture
async def keeper() -> AsyncIterator[Doorkeeper]:
    async with keeping() as started:
        yield started


def is_one_line(ended: Ended) -> bool:
    return ended.code == 1 and ended.output == "" and ended.error.count("\n") == 1


async def test_the_token_of_the_variable_is_sent(keeper: Doorkeeper) -> None:
    assert (await headgate(keeper.url, "stream", "list", HEADGATE_TOKEN=TOKEN)).code == 0

    [head] = keeper.heads
    assert f"\r\nAuthorization: Bearer {TOKEN}\r\n" in head
    assert TOKEN not in head.splitlines()[0]


async def test_the_token_of_a_file_goes_before_the_other(
    keeper: Doorkeeper, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    for ending in ("", "\n", "\r\n", " \n"):
        file.write_bytes((TOKEN + ending).encode())
        for words, variables in (
            (["--token-file", str(file)], {}),
            ([], {"HEADGATE_TOKEN_FILE": str(file)}),
        ):
            command = ["stream", "list", *words]
            ended = await headgate(keeper.url, *command, HEADGATE_TOKEN="other", **variables)
            assert ended.code == 0, ended.error


@pytest.mark.parametrize("variables", [{}, {"HEADGATE_TOKEN": ""}])
async def test_a_missing_token_is_told_with_what_to_do(
    keeper: Doorkeeper, variables: dict[str, str]
) -> None:
    ended = await headgate(keeper.url, "stream", "list", **variables)
    assert is_one_line(ended)
    assert ended.error == (
        "Error: This key is not known. (401 unauthenticated). No token was sent: set "
        "HEADGATE_TOKEN or --token-file.\n"
    )
    assert "uthorization" not in keeper.heads[0]


@pytest.mark.parametrize("command", [["stream", "list"], ["tail", "a"], ["append", "a", "b=1"]])
async def test_a_refused_token_is_told_and_not_shown(
    keeper: Doorkeeper, command: list[str]
) -> None:
    keeper.admitted.clear()
    unknown = await headgate(keeper.url, *command, HEADGATE_TOKEN=TOKEN)
    keeper.forbidden.add(TOKEN)
    denied = await headgate(keeper.url, *command, HEADGATE_TOKEN=TOKEN)

    assert is_one_line(unknown)
    assert "(401 unauthenticated). The token came from HEADGATE_TOKEN." in unknown.error
    assert is_one_line(denied)
    assert "(403 forbidden). The token came from HEADGATE_TOKEN." in denied.error
    assert "hg_reader" not in unknown.error + denied.error


@pytest.mark.parametrize(
    "token", [f"{TOKEN}\nHost: x", f"{TOKEN}\r", f"{TOKEN} x", f"{TOKEN}ä", " "]
)
async def test_what_no_header_can_hold_is_never_sent(keeper: Doorkeeper, token: str) -> None:
    ended = await headgate(keeper.url, "stream", "list", HEADGATE_TOKEN=token)
    assert is_one_line(ended)
    assert "the token of HEADGATE_TOKEN is not one word of ASCII characters" in ended.error
    assert "hg_reader" not in ended.error
    assert keeper.heads == []


async def test_what_is_wrong_with_a_file_is_told(keeper: Doorkeeper, tmp_path: Path) -> None:
    file = tmp_path / "token"
    for content, fault in (
        (None, "No such file"),
        (b"\n", "has no token"),
        (b"\xff", "is not text"),
        (b"a b", "one word"),
    ):
        if content is not None:
            file.write_bytes(content)
        ended = await headgate(keeper.url, "stream", "list", "--token-file", str(file))
        assert is_one_line(ended)
        assert fault in ended.error
        assert str(file) in ended.error
    assert keeper.heads == []


async def test_no_flag_puts_it_into_the_list_of_processes(keeper: Doorkeeper) -> None:
    assert (await headgate(keeper.url, "stream", "list", "--token", TOKEN)).code == 2
    assert "flag for the token itself" in " ".join(
        (await headgate(keeper.url, "stream", "list", "--help")).output.split()
    )


@pytest.mark.parametrize("url", ["http://gateway.example", "http://10.1.2.3:8080", "gateway"])
async def test_a_token_does_not_cross_a_network_in_plain_text(url: str) -> None:
    for command in ("stream list", "tail a", "append a b=1", "group list a"):
        ended = await headgate(url, *command.split(), HEADGATE_TOKEN=TOKEN)
        assert is_one_line(ended), command
        assert "plain http" in ended.error
        assert "HEADGATE_INSECURE=1" in ended.error


async def test_a_token_crosses_it_all_the_same_if_the_user_says_so() -> None:
    words = ["stream", "list", "--url", "http://nowhere.invalid"]
    for ended in (
        await headgate("", *words, "--insecure", HEADGATE_TOKEN=TOKEN),
        await headgate("", *words, HEADGATE_TOKEN=TOKEN, HEADGATE_INSECURE="1"),
        await headgate("", *words),
        await headgate("", "health", *words[2:], HEADGATE_TOKEN=TOKEN),
    ):
        assert "no gateway at http://nowhere.invalid" in ended.error


async def test_no_proxy_sees_what_stays_on_this_machine(keeper: Doorkeeper) -> None:
    proxy = {"HTTP_PROXY": "http://nowhere.invalid:3128", "NO_PROXY": ""}

    assert (await headgate(keeper.url, "stream", "list", HEADGATE_TOKEN=TOKEN, **proxy)).code == 0


async def test_a_name_and_password_in_the_url_are_refused_and_not_shown() -> None:
    ended = await headgate("http://me:hidden@127.0.0.1:1", "stream", "list")

    assert ended.code == 2
    assert "use HEADGATE_TOKEN" in ended.error
    assert "hidden" not in ended.error


# A token that ends while a command goes on


async def test_a_tail_takes_the_new_token_of_its_file(tmp_path: Path) -> None:
    keys, file = Keys(tmp_path / "keys.json"), tmp_path / "token"
    old, new = [await asyncio.to_thread(keys.add, EVERYTHING) for _ in range(2)]
    file.write_text(old)
    async with running(Settings(keys_file=keys.path)) as live:
        append = ["append", "orders"]
        await headgate(live.url, *append, "n=1", HEADGATE_TOKEN=new)
        tail = await start(
            live.url, "tail", "orders", "--after", "0", "--limit", "2", "--token-file", str(file)
        )
        assert (await next_line(tail)).endswith(" n=1")
        file.write_text(new)
        await asyncio.to_thread(keys.revoke, old)
        assert (await next_error_line(tail)).startswith("connection lost (")
        await headgate(live.url, *append, "n=2", HEADGATE_TOKEN=new)
        async with asyncio.timeout(END_S_MAX):
            output, _ = await tail.communicate()

    assert (tail.returncode, output.decode().split()[-1:]) == (0, ["n=2"])


async def test_a_tail_lives_as_long_as_its_key(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "keys.json")
    key = await asyncio.to_thread(keys.add, EVERYTHING)
    async with running(Settings(keys_file=keys.path)) as live:
        assert (await headgate(live.url, "append", "orders", "n=1", HEADGATE_TOKEN=key)).code == 0
        tail = await start(live.url, "tail", "orders", "--after", "0", HEADGATE_TOKEN=key)
        assert (await next_line(tail)).endswith(" n=1")
        await asyncio.to_thread(keys.revoke, key)
        async with asyncio.timeout(END_S_MAX):
            output, error = await tail.communicate()

    assert (tail.returncode, output) == (1, b"")
    [refused] = error.decode().splitlines()
    assert refused.endswith(" (401 unauthenticated). The token came from HEADGATE_TOKEN.")


# TLS


@pytest.mark.parametrize("way", ["--ca", "SSL_CERT_FILE", "neither"])
async def test_a_private_authority_is_trusted_if_it_is_named(tmp_path: Path, way: str) -> None:
    authority = trustme.CA()
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    words = ["--ca", str(file)] if way == "--ca" else []
    variables = {"SSL_CERT_FILE": str(file)} if way == "SSL_CERT_FILE" else {}

    async with keeping(tls) as keeper:
        ended = await headgate(
            keeper.url, "stream", "list", *words, HEADGATE_TOKEN=TOKEN, **variables
        )

    if way != "neither":
        assert ended.code == 0, ended.error
    else:
        assert is_one_line(ended)
        assert f"the certificate of {keeper.url} is not trusted" in ended.error
        assert "--ca or SSL_CERT_FILE" in ended.error
        assert keeper.heads == []


async def test_a_file_without_certificates_is_told(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("none")

    ended = await headgate("https://127.0.0.1:1", "stream", "list", "--ca", str(file))

    assert is_one_line(ended)
    assert f"{file} contains no certificates" in ended.error
