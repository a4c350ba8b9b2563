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

from headgate.client import CredentialError
from headgate.client.problems import Unauthenticated
from headgate.pipeline.cli import main
from headgate.pipeline.connection import Connection
from headgate.pipeline.options import OptionError, ReadOptions, read_options

TOKEN = "hg_reader_c2vjcmv0lw9mlwetaiyxbgtlst"
ELSEWHERE = "http://gateway.example:8080"


class Doorkeeper(http.server.ThreadingHTTPServer):
    """A server that answers to the tokens in `admitted`, and notes what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.admitted = {TOKEN}
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
        pytest.raises(CredentialError, match="Each machine that uses the gateway needs the file"),
    ):
        client.stream("a").info()


# What the gateway says of it


def test_a_missing_token_is_told_with_what_to_do(keeper: Doorkeeper) -> None:
    with Connection(keeper.url) as client, pytest.raises(Unauthenticated) as caught:
        client.stream("a").info()
    assert caught.value.__notes__ == ["No token was sent. Set HEADGATE_TOKEN."]
    assert keeper.tokens == [None]


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
