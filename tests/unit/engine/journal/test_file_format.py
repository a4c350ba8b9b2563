"""The code writes files as `engine/README.md` describes them.

The reader here knows nothing but what stands there: it shares no code with the engine.
"""

import asyncio
import re
import struct
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from headgate.engine import commands
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.journal import recovery, snapshot
from headgate.engine.journal.disk import SystemDisk
from headgate.engine.journal.journal import Journal
from headgate.engine.journal.records import VERSION
from headgate.engine.journal.rewrites import in_process_of_its_own
from headgate.engine.journal.writer import FsyncPolicy
from headgate.engine.limits import PACKED_COUNT_MIN
from headgate.engine.requests import Request
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, GroupStart

README = (Path(__file__).parents[4] / "engine" / "README.md").read_text()


@pytest.mark.parametrize(
    ("title", "union"), [("command", commands.Command), ("item", snapshot.Item)]
)
def test_every_number_is_told_with_its_fields(title: str, union: object) -> None:
    table = README.partition(f"| number | {title} | fields |\n|---|---|---|\n")[2]
    rows = re.findall(r"\| (\d+) \| `(\w+)` \| ([\w, ]*) \|\n", table.partition("\n\n")[0] + "\n")

    assert rows == [row_of(kind) for kind in typing.get_args(union)]


def row_of(kind: type) -> tuple[str, str, str]:
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    return str(info.tag), kind.__name__, ", ".join(field.name for field in info.fields)


def crc32c(data: bytes) -> int:
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)
    return remainder ^ 0xFFFFFFFF


def blocks(data: bytes, kind: int) -> Iterator[tuple[int, int, typing.Any]]:
    """Yield first number, synced and payload of each block."""
    magic, version, found_kind, _, salt, checksum = struct.unpack_from("<8sHHQQI", data)
    assert (magic, version, found_kind, checksum) == (b"HEADGATE", VERSION, kind, crc32c(data[:28]))
    assert (salt == 0) == (kind == 2)
    at = 32
    while at < len(data):
        magic, checksum, length, first, synced, body = struct.unpack_from("<4sIIQQI", data, at)
        assert magic == b"\xb1ock"
        assert checksum == crc32c(salt.to_bytes(8, "little") + data[at + 8 : at + 32])
        payload = data[at + 32 : at + 32 + length]
        assert body == crc32c(payload)
        yield first, synced, msgspec.msgpack.decode(payload)
        at += 32 + length


ENTRIES = [Draft(EntryId(1, 0), (b"a", b"1")), Draft(EntryId(1, 1), (b"a", b"2"))]
FEW = [Add(b"s", ENTRIES), CreateGroup(b"s", b"g", GroupStart(MIN_ID))]


async def keep(directory: Path, requests: Sequence[Request[Any]]) -> None:
    """Run an engine that is sent requests, one after the other."""
    journal = Journal(SystemDisk(directory), FsyncPolicy.ALWAYS, in_process_of_its_own(directory))
    engine = Engine(journal)
    running = asyncio.create_task(engine.run())
    for request in requests:
        await engine.perform(request)
    await engine.close()
    await running


def test_a_journal_can_be_read_with_nothing_but_its_description(tmp_path: Path) -> None:
    asyncio.run(keep(tmp_path, FEW))

    [path] = tmp_path.glob("journal-*")
    first, second = blocks(path.read_bytes(), kind=1)

    assert path.name == "journal-00000000000000000001"
    number, synced, [[create, add]] = first
    assert (number, synced, create[:2]) == (1, 0, [1, b"s"])
    assert add == [4, b"s", [[[1, 0], [b"a", b"1"]], [[1, 1], [b"a", b"2"]]]]
    assert second == (2, 1, [[[7, b"s", b"g", [0, 0], None]]])


def test_a_long_batch_can_be_read_with_nothing_but_its_description(tmp_path: Path) -> None:
    many = [(b"n", b"%d" % number) for number in range(PACKED_COUNT_MIN)]
    asyncio.run(keep(tmp_path, [Add(b"s", [Draft(None, pair) for pair in many])]))

    [path] = tmp_path.glob("journal-*")
    [(_, _, [[_, (kind, stream, chunks)]])] = blocks(path.read_bytes(), kind=1)

    assert (kind, stream) == (30, b"s")
    pairs, seq = [], 0
    for first_id, last_id, count, packed, is_run in chunks:
        assert first_id == [chunks[0][0][0], seq]
        assert last_id == [chunks[0][0][0], seq + count - 1]
        assert is_run
        pairs += msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(packed))
        seq += count
    assert pairs == [list(pair) for pair in many]


def test_a_snapshot_can_be_read_with_nothing_but_its_description(tmp_path: Path) -> None:
    asyncio.run(keep(tmp_path, FEW))
    disk = SystemDisk(tmp_path)
    recovery.rewrite(disk, through=2)
    disk.close()

    [path] = tmp_path.glob("snapshot-*")
    [(first, synced, items)] = blocks(path.read_bytes(), kind=2)

    assert path.name == "snapshot-00000000000000000002"
    keyspace, stream, [_, chunk, is_archived], group, end = items
    assert not is_archived
    assert (first, synced, keyspace[0], end) == (0, 0, 1, [7, 4])
    assert stream[:2] + stream[4:8] == [2, b"s", [1, 1], [0, 0], [0, 0], 2]
    first_id, last_id, count, size_bytes, dead, packed, is_open, is_run = chunk
    assert (first_id, last_id, count, size_bytes) == ([1, 0], [1, 1], 2, 4)
    assert (dead, is_open, is_run) == (b"\0", True, False)
    entries = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(packed))
    assert entries == [[[1, 0], [b"a", b"1"]], [[1, 1], [b"a", b"2"]]]
    fair: list[object] = [None, [], None, None]
    no_policy: list[object] = [None, None, None, [], None, False, *[None] * 8, False, *fair]
    assert group == [5, b"g", [0, 0], None, no_policy, []]


def test_an_extent_can_be_read_with_nothing_but_its_description(tmp_path: Path) -> None:
    drafts = [Draft(None, (b"n", b"%d" % number)) for number in range(PACKED_COUNT_MIN)]
    asyncio.run(keep(tmp_path, [Add(b"s", drafts)]))
    disk = SystemDisk(tmp_path)
    recovery.rewrite(disk, through=1, hot_bytes_max=0)
    disk.close()

    [path] = tmp_path.glob("snapshot-*")
    (_, _, [keyspace, [kind, stream, _, columns, dead, _]]), _ = blocks(path.read_bytes(), kind=2)
    assert (keyspace[5], kind, stream, dead) == ([1], 10, b"s", [])
    first_ms, _, last_ms, _, _, _, live, count, chunks, file, offset, size = (
        int.from_bytes(column, "little") for column in columns
    )
    assert (live, count, file, offset) == (PACKED_COUNT_MIN, PACKED_COUNT_MIN, 1, 32)
    assert first_ms == last_ms

    data = (tmp_path / "extents-00000000000000000001").read_bytes()
    assert struct.unpack_from("<8sHHQQI", data)[2:5] == (3, 1, 1)
    assert len(data) == offset + size
    magic, checksum, length, first, synced, body = struct.unpack_from("<4sIIQQI", data, offset)
    assert (magic, first, synced) == (b"\xb1ock", 0, 0)
    assert checksum == crc32c((1).to_bytes(8, "little") + data[offset + 8 : offset + 32])
    table = data[offset + 32 : offset + 32 + length]
    assert body == crc32c(table)
    rows = msgspec.msgpack.decode(table)
    assert len(rows) == chunks
    at, values = offset + 32 + length, []
    for _, _, entry_count, is_run, size_bytes, packed_crc in rows:
        packed = data[at : at + size_bytes]
        assert crc32c(packed) == packed_crc
        many = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(packed))
        assert is_run
        assert len(many) == entry_count
        values += [fields[1] for fields in many]
        at += size_bytes
    assert values == [draft.fields[1] for draft in drafts]
