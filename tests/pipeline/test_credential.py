"""The token of the client: its source, its destination, and places that never show it."""

from __future__ import annotations

import http.server
import json
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headgate.client import CredentialError, TokenFile
from headgate.client.problems import Unauthenticated
from headgate.pipeline.cli import main
from headgate.pipeline.connection import Connection
from headgate.pipeline.options import OptionError, ReadOptions, read_options

TOKEN = "hg_reader_c2vjcmv0lw9mlwetaiyxbgtlst"
NEW = "hg_reader_yw5vdghlci1zzwnyzxqtb2y"
ELSEWHERE = "http://gateway.example:8080"


class Doorkeeper(http.server.ThreadingHTTPServer):
    """A server that answers to the tokens in `admitted`, and notes what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.admitted = {TOKEN}
        self.busy = 0  # how often more it says that it is asked too much
        self.tokens: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Answers(http.server.BaseHTTPRequestHandler):
    server: Doorkeeper

    def do_GET(self) -> None:
        sent = self.headers.get("Authorization")
        token = None if sent is None else sent.removeprefix("Bearer ")
        self.server.tokens.append(token)
        if token not in self.server.admitted:
            self._send(401, {"code": "unauthenticated", "detail": "The key is not known."})
        elif self.server.busy:
            self.server.busy -= 1
            body = {"code": "rate_limited", "retryable": True, "retry_after_ms": 1000}
            self._send(429, {**body, "detail": "That was too much."})
        else:
            self._send(200, {"last_id": "5-0"})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps({"status": status, **body}).encode()
        self.send_response(status)
        if status >= 400:
            self.send_header("Content-Type", "application/problem+json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def keeper() -> Iterator[Doorkeeper]:
    with Doorkeeper() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return file


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKEN", "TOKEN_FILE", "INSECURE", "URL"):
        monkeypatch.delenv(f"HEADGATE_{name}", raising=False)


def read(**given: str) -> ReadOptions:
    return read_options({"subscribe": "a", **given}, is_query=False)


# Where it comes from


def test_a_token_comes_from_an_option_or_a_variable(
    keeper: Doorkeeper, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def last_id(**given: str) -> str:
        with read(url=keeper.url, **given).connection as client:
            return client.stream("a").info()["last_id"]

    assert last_id(token=TOKEN) == "5-0"
    assert last_id(tokenFile=str(file)) == "5-0"
    monkeypatch.setenv("HEADGATE_TOKEN", TOKEN)
    assert last_id() == "5-0"
    monkeypatch.setenv("HEADGATE_TOKEN", "other")
    monkeypatch.setenv("HEADGATE_TOKEN_FILE", str(file))
    assert last_id() == "5-0", "a file goes before the variable"
    assert keeper.tokens == [TOKEN] * 4


def test_one_option_says_the_token() -> None:
    with pytest.raises(OptionError, match="token and tokenFile: give one of them"):
        read(token=TOKEN, tokenFile="f")


@pytest.mark.parametrize("token", [f"{TOKEN}\nHost: x", f"{TOKEN}\r", f"{TOKEN} x", f"{TOKEN}ä"])
def test_what_no_header_can_hold_is_refused_and_not_shown(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_TOKEN", token)
    for given in ({}, {"token": token}):
        with pytest.raises(CredentialError, match="is not one word of ASCII characters") as caught:
            read(**given)
        assert "hg_reader" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "fault"), [(None, "No such file"), (b"\n", "has no token"), (b"\xff", "is no text")]
)
def test_what_is_wrong_with_a_file_is_told(
    tmp_path: Path, content: bytes | None, fault: str
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CredentialError, match=fault) as caught:
        read(tokenFile=str(file))
    assert str(file) in str(caught.value)


# Where it goes


@pytest.mark.parametrize("url", [ELSEWHERE, "gateway", "http://10.0.0.1"])
def test_it_does_not_cross_a_network_in_plain_text(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CredentialError, match="plain http"):
        read(url=url, token=TOKEN)

    assert read(url=url).connection.url
    assert read(url=url, token=TOKEN, insecure="true").connection.url
    monkeypatch.setenv("HEADGATE_INSECURE", "1")
    assert read(url=url, token=TOKEN).connection.url
    with pytest.raises(CredentialError, match="plain http"):
        read(url=url, token=TOKEN, insecure="false")


@pytest.mark.parametrize(
    "url", ["https://gateway.example", "http://localhost", "http://gate.localhost", "http://[::1]"]
)
def test_it_goes_where_nobody_reads_it(url: str) -> None:
    assert read(url=url, token=TOKEN).connection.url == url


def test_a_proxy_of_the_network_does_not_see_what_stays_on_this_machine(
    keeper: Doorkeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://nowhere.invalid:3128")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with Connection(keeper.url, TOKEN, retry_s=0) as client:
        assert client.stream("a").info()["last_id"] == "5-0"


def test_a_name_and_password_in_the_url_are_refused_and_not_shown() -> None:
    with pytest.raises(OptionError, match="no name and password") as caught:
        read(url="http://me:hidden@localhost")
    assert "hidden" not in str(caught.value)


# Where it is not seen


def test_a_token_is_nowhere_to_be_seen(file: Path) -> None:
    for given in ({"token": TOKEN}, {"tokenFile": str(file)}):
        options = read(**given)
        shown = repr(options) + str(options.connection) + repr(vars(options.connection))
        assert "hg_reader" not in shown


def test_a_token_comes_along_to_tasks_and_that_of_a_file_stays_where_it_is(file: Path) -> None:
    given, from_file = read(token=TOKEN), read(tokenFile=str(file))
    assert TOKEN.encode() in pickle.dumps(given)
    packed = pickle.dumps(from_file)
    assert TOKEN.encode() not in packed
    file.unlink()
    with (
        pickle.loads(packed).connection as client,
        pytest.raises(CredentialError, match="Each machine that asks the gateway needs the file"),
    ):
        client.stream("a").info()


# What the gateway says of it


def test_a_rolled_token_is_read_again(keeper: Doorkeeper, file: Path) -> None:
    connection = pickle.loads(pickle.dumps(Connection(keeper.url, TokenFile(file))))
    with connection as client:
        stream = client.stream("a")
        assert stream.info()["last_id"] == "5-0"
        keeper.admitted = {NEW}
        file.write_text(NEW)
        assert stream.info()["last_id"] == "5-0"
        file.unlink()
        assert stream.info()["last_id"] == "5-0", "it is only read when the gateway refuses"
    assert keeper.tokens == [TOKEN, TOKEN, NEW, NEW]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_refused_token_is_told_at_once(keeper: Doorkeeper, file: Path, is_there: bool) -> None:
    keeper.admitted = set()
    with Connection(keeper.url, TokenFile(file)) as client:
        if not is_there:
            file.unlink()
        with pytest.raises(Unauthenticated, match="The key is not known") as caught:
            client.stream("a").info()
    assert caught.value.__notes__ == [f"The token was that of {file}."]
    assert keeper.tokens == [TOKEN], "it is not tried again"


def test_a_missing_token_is_told_with_what_to_do(keeper: Doorkeeper) -> None:
    with Connection(keeper.url) as client, pytest.raises(Unauthenticated) as caught:
        client.stream("a").info()
    assert caught.value.__notes__ == ["No token was sent: HEADGATE_TOKEN gives one."]
    assert keeper.tokens == [None]


def test_who_asks_too_much_waits_as_long_as_told(keeper: Doorkeeper) -> None:
    keeper.busy = 2
    with Connection(keeper.url, TOKEN, retry_s=0.1) as client:
        assert client.stream("a").info()["last_id"] == "5-0"
    assert len(keeper.tokens) == 3


# Jobs


def test_a_job_that_is_refused_says_so_in_one_line(keeper: Doorkeeper, file: Path) -> None:
    keeper.admitted = set()
    words = ["lag", "--url", keeper.url, "--streams", "a", "--token-file", str(file)]
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        f"Error: unauthenticated: The key is not known. The token was that of {file}.\n"
    )


def test_a_job_does_not_send_its_token_in_plain_text(file: Path) -> None:
    words = ["lag", "--streams", "a", "--token-file", str(file), "--url", ELSEWHERE]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: the token was not sent: ")
    assert done.stderr.count("\n") == 1


def test_doctor_tells_that_a_token_is_missing(keeper: Doorkeeper) -> None:
    done = CliRunner().invoke(main, ["doctor", "--url", keeper.url, "--json"])
    [gateway] = [each for each in json.loads(done.stdout) if each["what"] == "gateway"]
    assert not gateway["is_well"]
    assert "asks for a key or a token. No token was sent" in gateway["found"]
    assert "HEADGATE_TOKEN" in gateway["mend"]
