"""Staged chunks: rows in a file and back, and files that nobody has staged."""

from __future__ import annotations

import logging
import os
import socket
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.app.bulk import staged
from headgate.app.bulk.staged import EncodedRows, Rows, StagedDrafts
from headgate.app.bulk.staging import BatchName, ChunkName, Staging
from headgate.app.wire.problems import GatewayError
from headgate.engine.clock import Clock
from headgate.engine.entry import Draft, EntryId, PartialId, Timing
from headgate.engine.packing import EncodedDrafts
from tests.virtual_time import ManualClock

BATCH = BatchName(b"w", 7)
CHUNK = ChunkName(0, 0, "a-b")
ROWS = Rows.of([b"s"], [Draft(None, (b"v", b"1"))])

parts = st.binary(max_size=4)
ids = st.one_of(
    st.none(),
    st.builds(EntryId, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
    st.builds(PartialId, st.integers(0, 2**64 - 1)),
)
times = st.one_of(st.none(), st.integers(0, 2**63 - 1))
timings = st.one_of(st.none(), st.builds(Timing, times, times, times, times))
drafts = st.builds(Draft, ids, st.lists(parts, min_size=2, max_size=6).map(tuple), timings)
rows = st.lists(st.tuples(st.sampled_from([b"s", b"t", b"u"]), drafts), min_size=1, max_size=9)


@asynccontextmanager
async def staging(directory: Path | None, clock: Clock | None = None) -> AsyncIterator[Staging]:
    opened = Staging(directory, bytes_max=2**30, ttl_ms=3_600_000, clock=clock)
    try:
        yield opened
    finally:
        await opened.close()


@given(rows, st.integers(1, 12))
def test_rows_come_back_out_of_blocks(
    given_rows: list[tuple[bytes, Draft]], parts_max: int
) -> None:
    expected: dict[bytes, list[Draft]] = {}
    for stream, draft in given_rows:
        expected.setdefault(stream, []).append(draft)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staged, "_BLOCK_PARTS_MAX", parts_max)
        file = staged.encode(Rows.of(*map(list, zip(*given_rows, strict=True))))

    taken = StagedDrafts()
    for block in staged.decode(file):
        taken.add(block)
    assert taken.drafts() == expected


def test_encoded_rows_come_out_as_they_went_in_between_others() -> None:
    encoded = EncodedDrafts(b"\x92\xc4\x01v\xc4\x012", array("Q", [0, 7]), array("Q", [0, 2]))
    taken = StagedDrafts()
    for rows in (ROWS, EncodedRows.of(b"s", encoded), EncodedRows.of(b"t", encoded)):
        for block in staged.decode(staged.encode(rows)):
            taken.add(block)
    assert taken.drafts() == {
        b"s": [Draft(None, (b"v", b"1")), Draft(None, (b"v", b"2"))],
        b"t": [Draft(None, (b"v", b"2"))],
    }


@given(st.integers(0, 60), st.binary(min_size=1, max_size=3))
def test_a_file_that_was_changed_is_not_what_was_staged(place: int, other: bytes) -> None:
    file = staged.encode(ROWS)
    changed = file[:place] + other + file[place + len(other) :]
    if changed != file:
        with pytest.raises(ValueError, match="not what was staged"):
            list(staged.decode(changed))


def strange_things(directory: Path) -> list[Path]:
    """Put things below a directory that no gateway has put there; returns what stays."""
    batch = directory / BATCH.folder
    writer = batch.parent
    names = [
        *("a-b-c", "1-2", "-1-0-a", "0-0-", "0-0-a b", "00-0-a", "0-01-a", "1" * 40 + "-0-a"),
        *("0-0-" + "x" * 65, "\udcff-0-a", "٣-0-a", "0-0-a\n", ".DS_Store", "Thumbs.db", "lock"),
    ]
    for folder in (directory, writer, batch):
        for name in names:
            (folder / name).write_text("no chunk")
    (writer / "x").mkdir()
    (writer / "008").mkdir()
    (writer / "8").symlink_to(batch)
    (directory / "e").mkdir()
    (directory / ("e" * 64)).symlink_to(writer)
    (directory / ("f" * 64)).write_text("no folder")
    (batch / "3-0-a").mkdir()
    (batch / "4-0-a").symlink_to(batch / CHUNK.file)
    os.mkfifo(batch / "5-0-a")
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(batch)  # the name of a socket may not be long
        listening.bind("6-0-a")
        os.chdir(here)
    return [path for path in directory.rglob("*") if path.is_file() or path.is_symlink()]


async def test_what_nobody_staged_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "staged"
    async with staging(directory) as before:
        size_bytes = await before.put(BATCH, CHUNK, ROWS)
    left = strange_things(directory)
    (directory / BATCH.folder / "new").write_bytes(b"half a chunk")

    with caplog.at_level(logging.WARNING):
        async with staging(directory) as after:
            await after.sweep()
            assert await after.take(BATCH, [CHUNK]) == {b"s": [Draft(None, (b"v", b"1"))]}
            for missing in (ChunkName(3, 0, "a"), ChunkName(4, 0, "a"), ChunkName(5, 0, "a")):
                with pytest.raises(GatewayError, match="not staged"):
                    await after.take(BATCH, [missing])
            assert await after.put(BATCH, ChunkName(1, 0, "c"), ROWS) == size_bytes
    assert [record.getMessage() for record in caplog.records] == [
        "a file that the gateway did not stage is left alone"
    ]
    assert all(path.is_symlink() or path.exists() for path in left)
    assert not (directory / BATCH.folder / "new").exists()


async def test_batches_go_by_the_time_that_has_passed(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)
    async with staging(tmp_path, clock) as opened:
        await opened.put(BATCH, CHUNK, ROWS)
        clock.step(86_400_000)
        await opened.sweep()
        assert await opened.take(BATCH, [CHUNK])
        clock.step(-2 * 86_400_000)
        clock.now_ms += 3_600_001
        await opened.sweep()
        with pytest.raises(GatewayError, match="not staged"):
            await opened.take(BATCH, [CHUNK])


async def test_the_chunks_of_one_owner_leave_half_of_the_room_to_others(tmp_path: Path) -> None:
    size_bytes = len(staged.encode(ROWS))

    def opened() -> Staging:
        return Staging(tmp_path, bytes_max=4 * size_bytes, ttl_ms=3_600_000)

    async def put(held: Staging, writer: bytes, number: int) -> None:
        await held.put(BatchName(writer, 7), ChunkName(0, number, "a"), ROWS)

    first = opened()
    await put(first, b"ann/w", 0)
    await put(first, b"ann/v", 0)
    await first.close()
    second = opened()  # it knows by the folders whose they are
    with pytest.raises(GatewayError, match="your share is"):
        await put(second, b"ann/u", 0)
    await put(second, b"bob/w", 0)
    await put(second, b"w", 0)
    with pytest.raises(GatewayError, match="commit or abort"):
        await put(second, b"w", 1)
    await second.drop(BatchName(b"ann/w", 7))
    await put(second, b"ann/u", 0)
    await second.close()


async def test_a_directory_that_is_a_file_has_no_room(tmp_path: Path) -> None:
    directory = tmp_path / "staged"
    directory.write_text("no directory")
    async with staging(directory) as opened:
        await opened.sweep()
        with pytest.raises(GatewayError, match="cannot be stored"):
            await opened.put(BATCH, CHUNK, ROWS)
