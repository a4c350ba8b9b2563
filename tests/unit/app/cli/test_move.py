"""An operator moves streams between data directories, and every mistake is one line."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headgate.app.cli import main
from headgate.app.gateway.backends import open_backend
from headgate.app.settings import Settings
from headgate.engine.entry import Draft, EntryId
from headgate.engine.requests import Request
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.keyspace import ListNames


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
