"""A repair loses what is damaged, keeps all the rest, and throws nothing away."""

import errno

import pytest

from headgate.engine.commands import Command, EntriesAdded, EntriesDeleted, encode, join
from headgate.engine.entry import MIN_ID, Entry, EntryId
from headgate.engine.errors import Corrupt
from headgate.engine.journal import recovery, snapshot
from headgate.engine.journal.damage import repair
from headgate.engine.journal.names import extents_name, journal_name, snapshot_name
from headgate.engine.journal.records import (
    HEADER_BYTES,
    Header,
    Kind,
    pack_block,
    pack_header,
    read_blocks,
    read_header,
)
from tests.journals.frozen import COLD, HOT, POSITION, contents, damage_of, frozen
from tests.journals.memory_disk import Death, Killed, MemoryDisk

FILE = extents_name(1)
SNAPSHOT = snapshot_name(POSITION)
ALL = [*COLD, *HOT]
HEAD_BYTES = 32


def with_journal(disk: MemoryDisk, *record: Command) -> MemoryDisk:
    """Add a segment with a record, by default with an entry."""
    header = Header(Kind.JOURNAL, POSITION + 1)
    added = EntriesAdded(b"a", [Entry(EntryId(50, 0), (b"n", b"50"))])
    data = join([encode([*(record or [added])])])
    block = pack_block(header, POSITION + 1, POSITION, data)
    disk.files[journal_name(POSITION + 1)] = bytearray(pack_header(header) + block)
    return disk


# Extent files


async def test_exactly_the_damaged_chunks_are_lost() -> None:
    whole = with_journal(await frozen(b"a", b"b"))
    for at in range(whole.size_bytes(FILE)):
        disk = whole.copy()
        disk.files[FILE][at] ^= 1
        damaged_file = bytes(disk.files[FILE])
        lost = {
            (each.stream, number)
            for each in damage_of(disk)
            for chunk in each.lost
            for number in range(chunk.first_id.ms, chunk.last_id.ms + 1)
        }
        repaired = repair(disk)
        assert bool(repaired.lost) == (at >= HEADER_BYTES) == bool(lost)
        assert repaired.kept == ([f"aside-{FILE}-0"] if lost else [])
        for name, numbers in {b"a": [*ALL, 50], b"b": ALL}.items():
            left = [number for number in numbers if (name, number) not in lost]
            assert contents(disk)[name] == left
        assert damage_of(disk) == []
        if lost:
            assert disk.files[repaired.kept[0]] == damaged_file
        again = disk.copy()
        assert repair(again) == ([], [], {})
        recovery.recover(again)
        assert again.files == disk.files


async def test_readers_are_told_and_groups_go_on() -> None:
    disk = with_journal(await frozen(b"a", b"b"))
    disk.files[FILE][-1] ^= 1
    repair(disk)
    loaded = recovery.load(disk)
    assert loaded.position == POSITION + 1
    stream = loaded.keyspace.streams[b"b"]
    gap = stream.gap_after(MIN_ID, EntryId(50, 0))
    assert gap is not None
    assert (gap.after, gap.through) == (EntryId(30, 2**64 - 1), EntryId(40, 0))
    assert list(stream.groups) == [b"g"]
    assert loaded.keyspace.streams[b"a"].gap_after(MIN_ID, EntryId(50, 0)) is None


async def test_a_file_that_cannot_be_read_is_kept_and_what_lay_there_is_lost() -> None:
    disk = with_journal(await frozen(b"a", b"b"))
    data = bytes(disk.files[FILE])
    disk.faults["read"] = errno.EIO
    repaired = repair(disk)
    del disk.faults["read"]
    assert [(each.stream, each.why) for each in repaired.lost] == [
        (b"a", "Input/output error"),
        (b"b", "Input/output error"),
    ]
    assert contents(disk) == {b"a": [*HOT, 50], b"b": [*HOT]}
    assert disk.files[repaired.kept[0]] == data
    assert FILE not in disk.names()


async def test_a_missing_file_takes_what_lay_there() -> None:
    disk = await frozen(b"a")
    disk.remove(FILE)
    assert repair(disk).kept == []
    assert contents(disk) == {b"a": [*HOT]}


async def test_what_a_record_needs_is_lost_as_well_and_said() -> None:
    disk = with_journal(await frozen(b"a"), EntriesDeleted(b"a", [EntryId(33, 0)]))
    disk.files[FILE][HEADER_BYTES + 5] ^= 1
    [damaged] = recovery.load(disk).damaged
    [lost] = repair(disk).lost
    assert (damaged.lost, lost.lost[0].live_count) == (lost.lost, len(COLD))
    assert contents(disk) == {b"a": [*HOT]}
    assert recovery.load(disk).damaged == []


async def test_without_links_a_copy_is_kept() -> None:
    disk = await frozen(b"a")
    disk.faults["link"] = errno.EPERM
    disk.files[FILE][-1] ^= 1
    data = bytes(disk.files[FILE])
    assert disk.files[repair(disk).kept[0]] == data


# The snapshot


def blocks_of(disk: MemoryDisk) -> list[tuple[range, list[object]]]:
    """Return the bytes of each block of the snapshot, and its items."""
    with disk.open(SNAPSHOT) as file:
        header = read_header(file, SNAPSHOT, Kind.SNAPSHOT)
        return [
            (range(block.offset, block.end), [*snapshot._items_of(block, SNAPSHOT)])
            for block in read_blocks(file, SNAPSHOT, header)
        ]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "SNAPSHOT_ITEMS_MAX", 1)


async def test_damage_of_the_index_leaves_what_is_hot_and_damage_of_the_rest_what_is_cold() -> None:
    whole = with_journal(await frozen(b"a", b"b"))
    index, streams = (places for places, _ in blocks_of(whole))
    for at in range(whole.size_bytes(SNAPSHOT)):
        disk = whole.copy()
        disk.files[SNAPSHOT][at] ^= 1
        with pytest.raises(Corrupt):
            recovery.load(disk)
        repaired = repair(disk)
        left = contents(disk)
        if at < HEADER_BYTES:
            assert left == {b"a": ALL, b"b": ALL}
            assert repaired.incomplete == {}
        elif at in index[:HEAD_BYTES]:  # where the next block begins is not known
            assert left == {}
        elif at in index:
            assert left == {b"a": [*HOT], b"b": [*HOT]}
            assert set(repaired.incomplete) == {b"a", b"b"}
            gap = recovery.load(disk).keyspace.streams[b"a"].gap_after(MIN_ID, EntryId(50, 0))
            assert gap is not None
            assert gap.through == EntryId(HOT[0], 0).previous()
        else:
            assert at in streams
            assert left == {b"a": [*COLD], b"b": [*COLD]}
            assert set(repaired.incomplete) == {b"a", b"b"}
        assert (FILE in disk.names()) == any(COLD[0] in numbers for numbers in left.values())
        is_unnamed = FILE not in disk.names()
        assert (f"aside-{FILE}-0" in repaired.kept) == is_unnamed
        assert bytes(whole.files[FILE]) in [bytes(data) for data in disk.files.values()]
        assert repaired.kept[0] == f"aside-{SNAPSHOT}-0"
        assert f"aside-{journal_name(POSITION + 1)}-0" in disk.names()
        assert repair(disk) == ([], [], {})


@pytest.mark.usefixtures("small_blocks")
async def test_damage_takes_the_items_of_its_block_and_no_others() -> None:
    whole = await frozen(b"a", b"b", b"c")
    for places, [item, *_] in blocks_of(whole):
        disk = whole.copy()
        disk.files[SNAPSHOT][places[HEAD_BYTES]] ^= 1
        repaired = repair(disk)
        left, keyspace = contents(disk), recovery.load(disk).keyspace
        expected = {b"a": ALL, b"b": ALL, b"c": ALL}
        match item:
            case snapshot.ExtentsItem(stream):
                expected[stream] = [*HOT]
                assert repaired.incomplete[stream] == "entries on disk: their index is lost"
            case snapshot.StreamItem(stream):
                expected[stream] = [*COLD]
                assert "groups" in repaired.incomplete[stream]
            case snapshot.ChunkItem() | snapshot.GroupItem():
                assert len(repaired.incomplete) == 1
        for name, numbers in left.items():
            if isinstance(item, snapshot.ChunkItem) and name in repaired.incomplete:
                assert numbers == [*COLD]
            else:
                assert numbers == expected[name]
            if name not in repaired.incomplete:
                assert list(keyspace.streams[name].groups) == [b"g"]
        assert set(left) == set(expected)
        assert keyspace.epoch >= max(stream.epoch for stream in keyspace.streams.values())


# Interruptions


@pytest.mark.parametrize("name", [FILE, SNAPSHOT])
async def test_a_repair_that_is_interrupted_is_done_again_and_nothing_is_gone(name: str) -> None:
    damaged = with_journal(await frozen(b"a", b"b"))
    at = -1 if name == FILE else HEADER_BYTES + HEAD_BYTES
    damaged.files[name][at] ^= 1
    done = damaged.copy()
    repair(done)
    for act_count in range(100):
        disk = damaged.copy()
        disk.on_call = Death(act_count)
        try:
            repair(disk)
            is_done = True
        except Killed:
            is_done = False
        disk = disk.copy()
        try:
            recovery.recover(disk)  # somebody starts a gateway on it
        except Corrupt:
            assert not is_done
        repair(disk)
        assert contents(disk) == contents(done)
        for kept in damaged.files if name == SNAPSHOT else [FILE]:
            assert damaged.files[kept] in disk.files.values()
        if is_done:
            return
    raise AssertionError("it never ends")
