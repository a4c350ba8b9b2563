"""Everything that is cold is read, and damage is said by chunk."""

import errno
from collections.abc import Iterator

import pytest

from headgate.engine.commands import StreamCopied
from headgate.engine.journal import recovery
from headgate.engine.journal.damage import cold_files, examine
from headgate.engine.journal.names import extents_name
from headgate.engine.journal.records import HEADER_BYTES
from headgate.engine.state.keyspace import Keyspace
from tests.journals.frozen import CHUNK, COLD, POSITION, damage_of, frozen
from tests.journals.memory_disk import MemoryDisk

FILE = extents_name(1)


def parts(disk: MemoryDisk) -> Iterator[tuple[range, list[tuple[bytes, int, int]]]]:
    """Yield the places of each part of an extent file, with streams, first and last ids."""
    yield range(HEADER_BYTES), []
    keyspace = recovery.load(disk).keyspace
    for name, stream in keyspace.streams.items():
        [line] = stream.log.extents.lines()
        chunks = stream.log.extents.chunks(0)
        end = line.place.offset + line.place.size_bytes
        at = end - sum(chunk.packed_bytes for chunk in chunks)
        yield range(line.place.offset, at), [(name, COLD[0], COLD[-1])]
        for chunk in chunks:
            yield (
                range(at, at + chunk.packed_bytes),
                [(name, chunk.first_id.ms, chunk.last_id.ms)],
            )
            at += chunk.packed_bytes
        assert at == end


async def test_a_byte_that_changed_is_damage_of_the_chunk_in_which_it_lies() -> None:
    disk = await frozen(b"a", b"b")
    count = 0
    for places, expected in parts(disk):
        for at in places:
            disk.files[FILE][at] ^= 1
            damaged = damage_of(disk)
            lost = [(each.stream, chunk) for each in damaged for chunk in each.lost]
            assert [(name, c.first_id.ms, c.last_id.ms) for name, c in lost] == expected
            for _, chunk in lost:
                assert chunk.live_count == chunk.last_id.ms - chunk.first_id.ms + 1
                assert chunk.offset == places[0]
            disk.files[FILE][at] ^= 1
            count += 1
    assert count == disk.size_bytes(FILE)
    assert damage_of(disk) == []


async def test_a_file_that_is_short_or_missing_is_damage_of_all_that_lay_there() -> None:
    disk = await frozen(b"a", b"b")
    *_, (last_part, _) = parts(disk)
    whole = bytes(disk.files[FILE])
    del disk.files[FILE][-1]
    [damaged] = damage_of(disk)
    assert damaged.stream == b"b"
    [chunk] = damaged.lost
    assert (chunk.last_id.ms, chunk.live_count) == (COLD[-1], CHUNK)
    assert chunk.offset == last_part[0]

    del disk.files[FILE]
    assert [(each.stream, each.why) for each in damage_of(disk)] == [
        (b"a", "No such file or directory"),
        (b"b", "No such file or directory"),
    ]
    disk.files[FILE] = bytearray(whole)
    disk.faults["read"] = errno.EIO
    assert {each.why for each in damage_of(disk)} == {"Input/output error"}


async def test_streams_that_share_an_extent_lose_the_same() -> None:
    disk = await frozen(b"a")
    keyspace = recovery.load(disk).keyspace
    keyspace.apply(StreamCopied(b"a", b"b", 9))
    recovery.save(disk, keyspace, POSITION)
    disk.files[FILE][-1] ^= 1
    assert [(each.stream, len(each.lost)) for each in damage_of(disk)] == [(b"a", 1), (b"b", 1)]


async def test_what_is_dead_is_no_damage() -> None:
    disk = await frozen(b"a")
    keyspace = recovery.load(disk).keyspace
    keyspace.streams[b"a"].trim(keyspace.streams[b"a"].log.extents.last_id(0).previous())
    recovery.save(disk, keyspace, POSITION)
    chunk_before = recovery.load(disk).keyspace.streams[b"a"].log.extents.line(0)
    disk.files[FILE][chunk_before.place.offset + 250] ^= 1
    assert [chunk for each in damage_of(disk) for chunk in each.lost] == []
    files = cold_files(disk, recovery.load(disk).keyspace)
    assert (files.file_count, files.size_bytes) == (1, disk.size_bytes(FILE))
    assert files.live_bytes == chunk_before.place.size_bytes // len(COLD)
    assert files.live_bytes + files.dead_bytes == files.size_bytes


@pytest.mark.parametrize("stream_count", [1, 20])
async def test_each_extent_is_read_once_and_in_order(stream_count: int) -> None:
    before = await frozen(*(b"%d" % number for number in range(stream_count)))
    disk = before.copy()
    keyspace: Keyspace = recovery.load(disk).keyspace
    progress: list[tuple[int, int]] = []
    assert not list(examine(disk, keyspace, lambda *each: progress.append(each)))
    assert disk.reads == sorted(set(disk.reads))
    assert len(disk.reads) == stream_count
    sizes = [
        line.place.size_bytes
        for stream in keyspace.streams.values()
        for line in stream.log.extents.lines()
    ]
    assert progress == [(sum(sizes), sum(sizes))]
