"""Files that are not as they were written: nothing is made of them by guessing.

Each byte of a directory is damaged in turn, each file is cut at each length and left out. What
recovery makes of the rest is the state after some record, or it says which file is damaged where.
Only what no later block vouches for may go unnoticed: the last block, or a whole end.
"""

import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from headgate.engine.errors import Corrupt
from headgate.engine.journal import recovery
from headgate.engine.journal.damage import repair
from headgate.engine.journal.disk import SystemDisk
from headgate.engine.journal.names import extents_name, journal_name
from headgate.engine.journal.records import HEADER_BYTES, VERSION, Kind, read_blocks, read_header
from headgate.engine.journal.recovery import Loaded
from tests.journals.frozen import frozen
from tests.journals.memory_disk import MemoryDisk
from tests.journals.records import History, newer, recorded, written
from tests.model.snapshot import snapshot
from tests.processes.gateway import Gateway, failure_of, headgate

RECORD_COUNT = 24
SEED = 5


@pytest.fixture
async def one_segment() -> History:
    return await written((await recorded(SEED, 60))[:RECORD_COUNT])


@pytest.fixture
async def snapshot_and_segments() -> History:
    """A snapshot of eight records, and two segments of eight each."""
    return await written((await recorded(SEED, 60))[:RECORD_COUNT], rewrite_at=8, restart_at=16)


@pytest.fixture(params=["one_segment", "snapshot_and_segments"])
def history(request: pytest.FixtureRequest) -> History:
    written: History = request.getfixturevalue(request.param)
    assert len(set(map(str, written.states))) > RECORD_COUNT / 2  # or a wrong prefix would do
    return written


def position_in(disk: MemoryDisk, history: History) -> int | None:
    """Return how many records a disk stands for, once it does exactly that; None if refused.

    The files are the same afterwards if it is refused, and stand for the same if it is not.
    """
    before = dict(disk.copy().files)
    error, loaded = recovered(disk)
    if loaded is None:
        assert error is not None
        assert error.name in before
        assert str(error).startswith(f"{error.name}, byte {error.offset}: ")
        assert 0 <= error.offset <= len(before[error.name])
        assert disk.files == before
        return None
    assert snapshot(loaded.keyspace) == history.states[loaded.position]
    assert recovery.load(disk).position == loaded.position
    return loaded.position


def recovered(disk: MemoryDisk) -> tuple[Corrupt | None, Loaded | None]:
    """Return why a disk was refused, or what it stands for; any other error is a failure."""
    try:
        return None, recovery.recover(disk)
    except Corrupt as error:
        return error, None


def block_ends(disk: MemoryDisk, name: str) -> list[int]:
    """Return the ends of the blocks of a segment, with the end of its header before them."""
    with disk.open(name) as file:
        header = read_header(file, name, Kind.JOURNAL)
        return [HEADER_BYTES, *(block.end for block in read_blocks(file, name, header))]


def places(disk: MemoryDisk) -> Iterator[tuple[str, int]]:
    """Yield each byte of each file."""
    for name in disk.names():
        for offset in range(disk.size_bytes(name)):
            yield name, offset


def test_a_byte_that_changed_is_found(history: History) -> None:
    last = history.disk.names()[-1] if len(history.disk.files) == 1 else journal_name(17)
    last_block = block_ends(history.disk, last)[-2]
    rng = random.Random(SEED)
    count = 0
    for name, offset in places(history.disk):
        for pattern in (0xFF, 1 << rng.randrange(8)):
            disk = history.disk.copy()
            disk.files[name][offset] ^= pattern
            position = position_in(disk, history)
            if (name, offset) < (last, last_block) or name != last:
                assert position is None, (name, offset, pattern)
            else:  # it looks as if a crash had torn it
                assert position == RECORD_COUNT - 1, (name, offset, pattern)
            count += 1
    assert count == 2 * sum(map(len, history.disk.files.values()))


def test_a_file_that_was_cut_is_found_unless_it_was_the_end(history: History) -> None:
    last = history.disk.names()[-1] if len(history.disk.files) == 1 else journal_name(17)
    first = int(last.removeprefix("journal-"))
    ends = block_ends(history.disk, last)
    for name, length in places(history.disk):
        disk = history.disk.copy()
        del disk.files[name][length:]
        position = position_in(disk, history)
        if name == last:
            assert position == first - 1 + max(sum(end <= length for end in ends) - 1, 0)
        else:
            assert position is None, (name, length)


def test_a_repair_saves_everything_before_the_damage(history: History) -> None:
    for name, offset in places(history.disk):
        if offset % 7 or name.startswith("snapshot-"):
            continue
        first = int(name.removeprefix("journal-"))
        intact = sum(end <= offset for end in block_ends(history.disk, name)) - 1
        disk = history.disk.copy()
        disk.files[name][offset] ^= 0xFF
        repair(disk)
        assert position_in(disk, history) == first - 1 + max(intact, 0), (name, offset)
        size_bytes = sum(map(len, disk.files.values()))
        assert size_bytes == sum(map(len, history.disk.files.values()))  # all bytes are kept


# From the command line


def put_down(disk: MemoryDisk, directory: Path) -> Path:
    directory.mkdir()
    for name in disk.names():
        (directory / name).write_bytes(disk.files[name])
    return directory


def damage(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0xFF
    path.write_bytes(data)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "lock"}


def test_check_tells_what_is_there(history: History, tmp_path: Path) -> None:
    directory = put_down(history.disk, tmp_path / "data")
    before = contents(directory)
    checked = headgate("check", "--data-dir", directory)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert f"{RECORD_COUNT} records: " in checked.stdout
    for name in history.disk.names():
        assert f"{name}  {history.disk.size_bytes(name)} bytes" in checked.stdout
    assert contents(directory) == before


def test_check_tells_of_a_torn_end_and_does_not_call_it_damage(
    one_segment: History, tmp_path: Path
) -> None:
    directory = put_down(one_segment.disk, tmp_path / "data")
    [name] = one_segment.disk.names()
    os.truncate(directory / name, one_segment.disk.size_bytes(name) - 1)
    checked = headgate("check", "--data-dir", directory)
    assert checked.returncode == 0
    assert f"{RECORD_COUNT - 1} records" in checked.stdout
    assert re.search(rf"{name} is torn at byte \d+: a block is cut off after", checked.stdout)
    facts = json.loads(headgate("check", "--data-dir", directory, "--json").stdout)
    assert (facts["records"], facts["torn"]["name"]) == (RECORD_COUNT - 1, name)
    assert facts["torn"]["offset"] + facts["torn"]["size_bytes"] == facts["files"][0]["size_bytes"]


async def test_a_gateway_starts_on_a_torn_end_and_says_so(
    one_segment: History, tmp_path: Path
) -> None:
    directory = put_down(one_segment.disk, tmp_path / "data")
    [name] = one_segment.disk.names()
    os.truncate(directory / name, one_segment.disk.size_bytes(name) - 1)
    gateway = await Gateway.start(directory)
    [warning] = [
        json.loads(line)
        for line in gateway.log_lines
        if "incomplete end of the journal was put aside" in line
    ]
    assert (warning["level"], warning["file"]) == ("WARNING", name)
    assert warning["offset"] + warning["size_bytes"] == one_segment.disk.size_bytes(name) - 1
    assert "cut off" in warning["why"]
    await gateway.stop()
    assert f"aside-{name}-{warning['offset']}" in contents(directory)


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_damage_is_named_and_a_repair_makes_it_start_again(
    snapshot_and_segments: History, tmp_path: Path, place: int
) -> None:
    history = snapshot_and_segments
    directory = put_down(history.disk, tmp_path / "data")
    name = history.disk.names()[place]
    offset = random.Random(place).randrange(HEADER_BYTES, history.disk.size_bytes(name) // 2)
    damage(directory / name, offset)
    before = contents(directory)

    checked = headgate("check", "--data-dir", directory)
    assert (checked.returncode, checked.stdout) == (1, "")
    assert re.search(rf"Error: {directory}: {name}, byte \d+: .+", checked.stderr)
    assert "--repair keeps the data before it." in checked.stderr
    assert contents(directory) == before

    served = headgate("serve", "--port", "0", "--data-dir", directory)
    assert served.returncode == 1
    assert re.fullmatch(rf"{directory}: {name}, byte \d+: .+", failure_of(served.stderr))
    assert contents(directory) == before

    repaired = headgate("check", "--data-dir", directory, "--repair")
    assert (repaired.returncode, repaired.stderr) == (0, "")
    assert f"damaged data moved to aside-{name}-" in repaired.stdout
    disk = SystemDisk(directory)
    loaded = recovery.load(disk)
    disk.close()
    if name.startswith("journal-"):
        assert snapshot(loaded.keyspace) == history.states[loaded.position]
        assert loaded.position >= int(name.removeprefix("journal-")) - 1
    assert f"{loaded.position} records: " in repaired.stdout

    gateway = await Gateway.start(directory)
    await gateway.stop()


def test_a_newer_format_is_named_and_left_alone(one_segment: History, tmp_path: Path) -> None:
    directory = put_down(one_segment.disk, tmp_path / "data")
    [name] = one_segment.disk.names()
    (directory / name).write_bytes(newer(bytes(one_segment.disk.files[name])))
    before = contents(directory)
    for words in (["check"], ["check", "--repair"], ["serve", "--port", "0"]):
        refused = headgate(*words, "--data-dir", directory)
        assert (refused.returncode, refused.stdout) == (1, "")
        text = f"{name}, byte 0: its format has version {VERSION + 1}, and this Headgate"
        assert text in refused.stderr
        assert "--repair" not in refused.stderr
        assert contents(directory) == before


async def test_who_comes_second_is_told_who_holds_the_directory(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path / "data")
    for words in (["serve", "--port", "0"], ["check"], ["check", "--repair"]):
        refused = headgate(*words, "--data-dir", tmp_path / "data")
        assert (refused.returncode, refused.stdout) == (1, "")
        holder = rf"in use by process {gateway.engine_id} on \S+"
        assert re.fullmatch(rf"{tmp_path}/data: {holder}", failure_of(refused.stderr))
    await gateway.stop()
    assert headgate("check", "--data-dir", tmp_path / "data").returncode == 0


# What is cold


async def test_check_names_each_damaged_chunk_and_a_repair_keeps_all_others(tmp_path: Path) -> None:
    disk, file = await frozen(b"a", b"b"), extents_name(1)
    directory = put_down(disk, tmp_path / "data")
    whole = headgate("check", "--data-dir", directory)
    assert whole.returncode == 0
    size_bytes = disk.size_bytes(file)
    assert f"1 extent file: {size_bytes} bytes, {size_bytes - 32} live, 32 dead" in whole.stdout

    damage(directory / file, size_bytes - 1)
    before = contents(directory)
    checked = headgate("check", "--data-dir", directory)
    assert checked.returncode == 1
    why = "the checksum of 1 of 4 chunks is wrong"
    line = rf"{file}, byte \d+: 10 entries of stream b, 31-0 to 40-0: {why}"
    assert re.search(rf"^damaged: {line}$", checked.stdout, re.MULTILINE)
    assert f"{directory}: 1 damaged chunk of 10 entries" in checked.stderr
    assert "--repair keeps all other data." in checked.stderr

    reported = headgate("check", "--data-dir", directory, "--json")
    facts = json.loads(reported.stdout)
    [chunk] = facts["damaged"]
    assert (reported.returncode, chunk.pop("offset") > size_bytes // 2) == (1, True)
    assert chunk == {
        "stream": "b",
        "file": file,
        "first_id": "31-0",
        "last_id": "40-0",
        "entries": 10,
        "why": why,
    }
    assert facts["extent_files"] == {
        "file_count": 1,
        "size_bytes": size_bytes,
        "live_bytes": size_bytes - 32,
        "dead_bytes": 32,
    }
    assert contents(directory) == before

    repaired = headgate("check", "--data-dir", directory, "--repair")
    assert (repaired.returncode, repaired.stderr) == (0, "")
    assert f"damaged data moved to aside-{file}-0" in repaired.stdout
    assert re.search(rf"^lost: {line}$", repaired.stdout, re.MULTILINE)
    assert "2 streams, 80 entries" in repaired.stdout
    assert (directory / f"aside-{file}-0").samefile(directory / file)

    again = headgate("check", "--data-dir", directory, "--json")
    assert (again.returncode, json.loads(again.stdout)["damaged"]) == (0, [])


async def test_a_gateway_warns_of_what_it_has_found_damaged(tmp_path: Path) -> None:
    disk, file = await frozen(b"a"), extents_name(1)
    directory = put_down(disk, tmp_path / "data")
    damage(directory / file, disk.size_bytes(file) - 1)
    gateway = await Gateway.start(directory)
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        before = (await http.get("/readyz")).json()
        read = await http.get("/v1/streams/a/entries")
        answer = await http.get("/readyz")
        journal = (await http.get("/v1/admin/journal")).json()
    await gateway.stop()

    assert "warnings" not in before
    assert len(read.json()["entries"]) == 35
    why = "the checksum of 1 of 4 chunks is wrong"
    text = f"Entries on the disk were damaged and are lost: 1 chunks, the last one {why}."
    assert (answer.status_code, answer.json()["warnings"]) == (200, [text])
    assert (journal["damage_count"], journal["damage"]) == (1, why)
