"""Streams come from a Redis server or a directory and go to one; every mistake is one line."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deploy.local_cluster.server import Server
from headgate.app.cli import main
from headgate.app.gateway.backends import open_backend
from headgate.app.settings import Settings
from headgate.engine.entry import Draft, EntryId
from headgate.engine.requests import Request
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.keyspace import ListNames
from tests import plain_streams
from tests.plain_streams import EXPIRING, FULL, HOUR_MS, of_directory, replies

TTL = "PTTL", EXPIRING
OURS = "--only", "plain:*"
"""The server has streams of other tests, too."""


def bring(*words: str, **variables: str) -> Result:
    return CliRunner().invoke(main, ["import", *words, *OURS], env=variables)


@pytest.fixture
def server(redis_7: Server) -> Iterator[Server]:
    plain_streams.make(redis_7)
    yield redis_7
    plain_streams.remove(redis_7)


@pytest.fixture
def snapshot(server: Server, tmp_path: Path) -> Path:
    """Return the file of the server's snapshot."""
    replies(server, [("SAVE",)])
    return (server.folder / "dump.rdb").rename(tmp_path / "dump.rdb")


def assert_same(server: Server, place: Path) -> None:
    for theirs, mine in zip(replies(server, FULL), of_directory(place, FULL), strict=True):
        plain_streams.assert_same(theirs, mine)
    for [ttl_ms] in (of_directory(place, [TTL]), replies(server, [TTL])):
        assert HOUR_MS - 60_000 < ttl_ms <= HOUR_MS


def test_streams_come_from_a_server(server: Server, tmp_path: Path) -> None:
    place = tmp_path / "data"
    ended = bring(server.url, "--to", str(place))
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout.startswith(
        "3 of 3 streams copied with 55 entries, compared, and active. Keys not copied: "
    )
    assert_same(server, place)
    ended = bring(server.url, HEADGATE_IMPORT_TO=str(place))
    assert ended.stdout.startswith("0 of 3 streams copied with 0 entries, 3 already existed")


def test_streams_come_from_a_file(server: Server, snapshot: Path, tmp_path: Path) -> None:
    place = tmp_path / "data"
    ended = bring(str(snapshot), "--to", str(place), "--json")
    assert ended.exit_code == 0
    assert json.loads(ended.stdout.splitlines()[-1])["left_out"]["of type string"] >= 1
    assert_same(server, place)
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
    assert_same(server, tmp_path / "data")


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
    for source in (
        tmp_path / "none.rdb",
        "redis://ana:secret@[here",
        "redis://ana:secret@127.0.0.1:1",
    ):
        ended = bring(str(source), "--to", str(tmp_path / "data"))
        assert (ended.exit_code, ended.stdout) == (1, "")
        [line] = ended.stderr.splitlines()
        assert "secret" not in line
    ended = bring("http://localhost:8080", "--to", str(tmp_path / "data"))
    assert ended.exit_code == 2
    assert "redis://localhost:6379" in ended.stderr


def export(*words: str, **variables: str) -> Result:
    return CliRunner().invoke(main, ["export", *words], env=variables)


@pytest.fixture
def place(redis_7: Server, tmp_path: Path) -> Iterator[Path]:
    """Return a data directory with streams that the server had, and has no more."""
    plain_streams.make(redis_7)
    assert bring(redis_7.url, "--to", str(tmp_path / "data")).exit_code == 0
    plain_streams.remove(redis_7)
    yield tmp_path / "data"
    plain_streams.remove(redis_7)


def test_streams_go_to_a_server(place: Path, redis_7: Server) -> None:
    ended = export("--from", str(place), "--to", redis_7.url)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout == "3 of 3 streams copied with 55 entries, compared, and active.\n"
    assert_same(redis_7, place)
    ended = export(HEADGATE_EXPORT_FROM=str(place), HEADGATE_EXPORT_TO=redis_7.url)
    assert ended.stdout.startswith("0 of 3 streams copied with 0 entries, 3 already existed")


def test_redis_cli_takes_the_commands(place: Path, redis_7: Server, tmp_path: Path) -> None:
    output = tmp_path / "streams.resp"
    ended = export("--from", str(place), "--output", str(output))
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout == "3 of 3 streams copied with 55 entries.\n"
    words = ["redis-cli", "-p", str(redis_7.port), "--pipe"]
    piped = subprocess.run(words, input=output.read_bytes(), check=True, capture_output=True)
    assert piped.stdout.decode().splitlines()[-1].startswith("errors: 0, ")
    assert_same(redis_7, place)


def test_where_it_goes_is_said_once(place: Path, tmp_path: Path) -> None:
    both = ["--to", "redis://localhost", "--output", str(tmp_path / "file")]
    for words in (both, ["--to", str(tmp_path / "other")], ["--to", "http://localhost:8080"]):
        assert export("--from", str(place), *words).exit_code == 2


def move(*words: str, **variables: str) -> Result:
    return CliRunner().invoke(main, ["move", *words], env=variables)


def performed(place: Path, requests: Iterable[Request[object]]) -> list[object]:
    """Open a data directory, and carry out requests."""

    async def perform() -> list[object]:
        backend = open_backend(Settings(data_dir=place))
        running = asyncio.create_task(backend.run())
        replies = [await backend.perform(request) for request in requests]
        await backend.close()
        await running
        return replies

    return asyncio.run(perform())


def add(stream: bytes, *numbers: int) -> Add:
    return Add(stream, [Draft(EntryId(number, 0), (b"n", b"%d" % number)) for number in numbers])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    place = tmp_path / "source"
    performed(place, [add(b"orders", 1, 2), add(b"log", 3)])
    return place


def bytes_in(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.iterdir()}


def test_streams_are_moved_and_the_source_stays_as_it_is(source: Path, tmp_path: Path) -> None:
    target, before = tmp_path / "target", bytes_in(source)
    ended = move("--from", str(source), "--to", str(target))
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert ended.stdout == "2 of 2 streams copied with 3 entries, compared, and active.\n"
    assert bytes_in(source) == before
    names, entries = performed(target, [ListNames(), Range(b"orders")])
    assert names == [b"log", b"orders"]
    assert entries == performed(source, [Range(b"orders")])[0]


def test_a_stream_that_is_no_copy_is_named_and_left_alone(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    performed(target, [add(b"log", 9)])
    ended = move("--from", str(source), "--to", str(target))
    assert (ended.exit_code, ended.stdout) == (1, "")
    refusal, summary = ended.stderr.splitlines()
    assert refusal == "log refused: the target has a different stream of this name"
    assert summary.startswith("1 of 2 streams copied with 2 entries. They are not active yet")
    ended = move("--from", str(source), "--to", str(target), "--replace")
    assert ended.exit_code == 0


def test_mistakes_of_a_move_are_one_line_too(source: Path, tmp_path: Path) -> None:
    for words in (
        ["--from", str(tmp_path / "none"), "--to", str(tmp_path / "target")],
        ["--from", "ftp://ana:secret@here", "--to", str(tmp_path / "target")],
        ["--from", str(source), "--to", "redis://ana:secret@[here"],
        ["--from", str(source), "--to", str(tmp_path / "target"), "--only", "x" * 2000],
    ):
        ended = move(*words)
        assert (ended.exit_code, ended.stdout) == (1, "")
        [line] = ended.stderr.splitlines()
        assert "secret" not in line
    assert move("--from", str(source), "--to", str(source)).exit_code == 2
