"""The streams of a Redis server that no gateway uses come along, with all that it knows of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deploy.local_cluster.server import Server
from headgate.app.cli import main
from tests.plain_streams import (
    EXPIRING,
    FULL,
    HOUR_MS,
    assert_same,
    make,
    of_directory,
    remove,
    replies,
)

OURS = "--only", "plain:*"
"""The server has streams of other tests, too."""


def bring(*words: str, **variables: str) -> Result:
    return CliRunner().invoke(main, ["import", *words, *OURS], env=variables)


@pytest.fixture
def server(redis_7: Server) -> Iterator[Server]:
    make(redis_7)
    yield redis_7
    remove(redis_7)


@pytest.fixture
def snapshot(server: Server, tmp_path: Path) -> Path:
    """Return the file of the server's snapshot."""
    replies(server, [("SAVE",)])
    return (server.folder / "dump.rdb").rename(tmp_path / "dump.rdb")


def assert_brought(server: Server, place: Path) -> None:
    for mine, theirs in zip(replies(server, FULL), of_directory(place, FULL), strict=True):
        assert_same(mine, theirs)
    [ttl_ms] = of_directory(place, [("PTTL", EXPIRING)])
    assert HOUR_MS - 60_000 < ttl_ms <= HOUR_MS


def test_streams_come_from_a_server(server: Server, tmp_path: Path) -> None:
    place = tmp_path / "data"
    ended = bring(server.url, "--to", str(place))
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout.startswith(
        "3 of 3 streams copied with 55 entries, compared, and in force. Keys left out: "
    )
    assert_brought(server, place)
    ended = bring(server.url, HEADGATE_IMPORT_TO=str(place))
    assert ended.stdout.startswith("0 of 3 streams copied with 0 entries, 3 were there already")


def test_streams_come_from_a_file(server: Server, snapshot: Path, tmp_path: Path) -> None:
    place = tmp_path / "data"
    ended = bring(str(snapshot), "--to", str(place), "--json")
    assert ended.exit_code == 0
    assert json.loads(ended.stdout.splitlines()[-1])["left_out"]["of type string"] >= 1
    assert_brought(server, place)
    expiry = [("PEXPIRETIME", EXPIRING)]
    assert of_directory(place, expiry) == replies(server, expiry)  # however long it took
    # Both ways lead to the same.
    assert bring(server.url, "--to", str(place)).stdout.startswith("0 of 3 streams copied")


def test_rights_to_read_are_enough(server: Server, tmp_path: Path) -> None:
    user = ["ACL", "SETUSER", "reader", "on", ">secret", "~*", "resetchannels", "-@all", "+@read"]
    replies(server, [user])
    url = server.url.replace("://", "://reader:secret@")
    ended = bring(HEADGATE_IMPORT_FROM=url, HEADGATE_IMPORT_TO=str(tmp_path / "data"))
    replies(server, [("ACL", "DELUSER", "reader")])
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert_brought(server, tmp_path / "data")


def test_a_file_that_is_damaged_brings_nothing(snapshot: Path, tmp_path: Path) -> None:
    damaged = bytearray(snapshot.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    snapshot.write_bytes(damaged)
    ended = bring(str(snapshot), "--to", str(tmp_path / "data"))
    assert (ended.exit_code, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    assert line.startswith("Error: dump.rdb, byte ")
    assert not (tmp_path / "data").exists()


def test_mistakes_are_one_line_without_passwords(tmp_path: Path) -> None:
    for words in (
        [str(tmp_path / "none.rdb")],
        ["redis://ana:secret@[here"],
        ["redis://ana:secret@127.0.0.1:1"],
    ):
        ended = bring(*words, "--to", str(tmp_path / "data"))
        assert (ended.exit_code, ended.stdout) == (1, "")
        [line] = ended.stderr.splitlines()
        assert "secret" not in line
    ended = bring("http://localhost:8080", "--to", str(tmp_path / "data"))
    assert ended.exit_code == 2
    assert "redis://localhost:6379" in ended.stderr
