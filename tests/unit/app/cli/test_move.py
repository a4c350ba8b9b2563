"""An operator moves streams between data directories, and every mistake is one line."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deploy.local_cluster.server import Server, free_ports
from headgate.app.cli import main
from headgate.app.gateway.backends import open_backend
from headgate.app.settings import Settings
from headgate.engine.entry import Draft, EntryId, EntryTimes, Timing
from headgate.engine.requests import Request
from headgate.engine.requests.entries import Add, FindTimes, Range
from headgate.engine.requests.keyspace import ListNames

HOUR_MS = 3_600_000


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
    assert ended.stdout == "2 of 2 streams copied with 3 entries, compared, and in force.\n"
    assert bytes_in(source) == before
    names, entries = performed(target, [ListNames(), Range(b"orders")])
    assert names == [b"log", b"orders"]
    assert entries == performed(source, [Range(b"orders")])[0]


def test_times_are_moved_where_they_can_be_kept(source: Path, tmp_path: Path) -> None:
    timing = Timing(deliver_at_ms=time.time_ns() // 1_000_000 + HOUR_MS, expires_at_ms=2**50)
    late = EntryId(4, 0)
    performed(source, [Add(b"log", [Draft(late, (b"n", b"4"), timing)])])
    target, find = tmp_path / "target", FindTimes(b"log", [EntryId(3, 0), late])
    assert move("--from", str(source), "--to", str(target)).exit_code == 0
    times = {late: EntryTimes(timing.deliver_at_ms, timing.expires_at_ms)}
    assert performed(source, [find]) == performed(target, [find]) == [times]

    words = "export", "--from", str(target), "--output", str(tmp_path / "streams.resp")
    ended = CliRunner().invoke(main, words)
    assert ended.stdout == (
        "2 of 2 streams copied with 4 entries. Delays and deadlines left out: 1.\n"
    )


def test_a_second_move_says_that_all_is_there(source: Path, tmp_path: Path) -> None:
    places = "--from", str(source), "--to", str(tmp_path / "target")
    move(*places)
    ended = move(*places, "--json")
    assert ended.exit_code == 0
    *streams, summary = [json.loads(line) for line in ended.stdout.splitlines()]
    assert streams == [
        {"stream": "log", "state": "same", "why": ""},
        {"stream": "orders", "state": "same", "why": ""},
    ]
    assert summary["states"]["same"] == 2
    assert summary["in_force"]


def test_a_stream_that_is_no_copy_is_named_and_left_alone(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    performed(target, [add(b"log", 9)])
    ended = move("--from", str(source), "--to", str(target))
    assert (ended.exit_code, ended.stdout) == (1, "")
    refusal, summary = ended.stderr.splitlines()
    assert refusal == "log refused: the target has another stream of this name"
    assert summary.startswith("1 of 2 streams copied with 2 entries. They are not in force yet")
    ended = move("--from", str(source), "--to", str(target), "--replace")
    assert ended.exit_code == 0


@pytest.mark.parametrize(
    ("words", "names"),
    [(["--only", "o*"], [b"orders"]), (["--except", "o*", "--only", "*"], [b"log"])],
)
def test_patterns_choose_streams(
    source: Path, tmp_path: Path, words: list[str], names: list[bytes]
) -> None:
    target = tmp_path / "target"
    assert move("--from", str(source), "--to", str(target), *words).exit_code == 0
    assert performed(target, [ListNames()]) == [names]


def test_streams_are_moved_to_servers_and_back(
    source: Path, tmp_path: Path, redis_7: Server
) -> None:
    servers, prefix = redis_7.url, {"HEADGATE_REDIS_PREFIX": f"{tmp_path}:"}
    there = move("--from", str(source), "--to", servers, **prefix)
    assert (there.exit_code, there.stderr) == (0, "")
    back = tmp_path / "back"
    ended = move(HEADGATE_MOVE_FROM=servers, HEADGATE_MOVE_TO=str(back), **prefix)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert performed(back, [Range(b"orders")]) == performed(source, [Range(b"orders")])
    ended = move("--from", str(source), "--to", str(back))
    assert ended.stdout == (
        "0 of 2 streams copied with 0 entries, 2 were there already, compared, and in force.\n"
    )


def test_servers_that_are_not_there_are_one_line(source: Path) -> None:
    [port] = free_ports(1)
    ended = move("--from", str(source), "--to", f"redis://ana:secret@127.0.0.1:{port}")
    assert (ended.exit_code, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    assert f"127.0.0.1:{port}" in line
    assert "secret" not in line


def test_mistakes_are_one_line_without_passwords(source: Path, tmp_path: Path) -> None:
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
