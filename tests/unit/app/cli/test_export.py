"""Streams go to a Redis server that no gateway uses, or into a file of commands for it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deploy.local_cluster.server import Server
from headgate.app.cli import main
from tests import plain_streams


def export(*words: str, **variables: str) -> Result:
    return CliRunner().invoke(main, ["export", *words], env=variables)


@pytest.fixture
def place(redis_7: Server, tmp_path: Path) -> Iterator[Path]:
    """Return a data directory with streams that the server had, and has no more."""
    plain_streams.make(redis_7)
    words = "import", redis_7.url, "--to", str(tmp_path / "data"), "--only", "plain:*"
    assert CliRunner().invoke(main, words).exit_code == 0
    plain_streams.remove(redis_7)
    yield tmp_path / "data"
    plain_streams.remove(redis_7)


def piped(server: Server, commands: bytes) -> str:
    """Send commands as a user does, and return the last line of what is said of it."""
    words = ["redis-cli", "-p", str(server.port), "--pipe"]
    ended = subprocess.run(words, input=commands, check=True, capture_output=True)
    return ended.stdout.decode().splitlines()[-1]


def assert_same_there(server: Server, place: Path) -> None:
    for mine, theirs in zip(
        plain_streams.of_directory(place, plain_streams.FULL),
        plain_streams.replies(server, plain_streams.FULL),
        strict=True,
    ):
        plain_streams.assert_same(theirs, mine)
    [ttl_ms] = plain_streams.replies(server, [("PTTL", plain_streams.EXPIRING)])
    assert plain_streams.HOUR_MS - 60_000 < ttl_ms <= plain_streams.HOUR_MS


def test_streams_go_to_a_server(place: Path, redis_7: Server) -> None:
    ended = export("--from", str(place), "--to", redis_7.url)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout == "3 of 3 streams copied with 55 entries, compared, and in force.\n"
    assert_same_there(redis_7, place)
    ended = export(HEADGATE_EXPORT_FROM=str(place), HEADGATE_EXPORT_TO=redis_7.url)
    assert ended.stdout.startswith("0 of 3 streams copied with 0 entries, 3 were there already")


def test_redis_cli_takes_the_commands(place: Path, redis_7: Server, tmp_path: Path) -> None:
    output = tmp_path / "streams.resp"
    ended = export("--from", str(place), "--output", str(output))
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout == "3 of 3 streams copied with 55 entries.\n"
    assert piped(redis_7, output.read_bytes()).startswith("errors: 0, ")
    assert_same_there(redis_7, place)


def test_where_it_goes_is_said_once(place: Path, tmp_path: Path) -> None:
    for words in (
        ["--to", "redis://localhost", "--output", str(tmp_path / "file")],
        ["--to", str(tmp_path / "other")],
        ["--to", "http://localhost:8080"],
    ):
        assert export("--from", str(place), *words).exit_code == 2
