"""From files to their state; torn ends after a crash, damage, and files that go."""

from collections.abc import Callable
from typing import Any

import pytest

from headgate.engine import commands
from headgate.engine.commands import (
    Command,
    EntriesAdded,
    GroupCreated,
    StreamCreated,
    StreamDeleted,
)
from headgate.engine.config import StreamConfig
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft, Entry, EntryId
from headgate.engine.errors import Broken, Corrupt, NewerFormat
from headgate.engine.journal import recovery
from headgate.engine.journal.damage import repair
from headgate.engine.journal.names import journal_name, snapshot_name
from headgate.engine.journal.records import (
    HEADER_BYTES,
    VERSION,
    Header,
    Kind,
    pack_block,
    pack_header,
    read_blocks,
    read_header,
)
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.requests.entries import Add, Delete
from headgate.engine.requests.streams import CreateStream, DescribeStream
from headgate.engine.state.keyspace import Keyspace
from tests.journals.memory_disk import MemoryDisk
from tests.journals.records import History, newer, recorded, written
from tests.model.snapshot import snapshot
from tests.virtual_time import ManualClock

FIRST = journal_name(1)


@pytest.fixture
async def history() -> History:
    """Thirty records in one segment."""
    return await written((await recorded(1, 60))[:30])


@pytest.fixture
async def long_history() -> History:
    """A snapshot of ten records, a segment of ten, and another of ten."""
    return await written((await recorded(1, 60))[:30], rewrite_at=10, restart_at=20)


def holds(disk: MemoryDisk, history: History) -> int:
    """Return how many records a disk stands for, once it does exactly that."""
    loaded = recovery.load(disk)
    assert snapshot(loaded.keyspace) == history.states[loaded.position]
    return loaded.position


def last_block_offset(disk: MemoryDisk, name: str) -> int:
    return disk.files[name].rindex(b"\xb1ock")


def add(number: int) -> list[Command]:
    return [EntriesAdded(b"s", [Entry(EntryId(number, 0), (b"f", b"v"))])]


def segment(first: int, *records: list[Command]) -> bytes:
    """Return a segment with a block per record, each forced to disk."""
    header = Header(Kind.JOURNAL, first)
    data = pack_header(header)
    for number, record in enumerate(records, first):
        data += pack_block(header, number, number - 1, commands.join([commands.encode(record)]))
    return data


HEADER = Header(Kind.JOURNAL, 1)
JOURNAL = pack_header(HEADER)
CREATE: list[Command] = [StreamCreated(b"s", 1, StreamConfig())]


# Whole files


async def test_everything_written_comes_back(history: History, long_history: History) -> None:
    assert holds(history.disk, history) == 30
    assert holds(long_history.disk, long_history) == 30
    assert long_history.disk.names() == [journal_name(11), journal_name(21), snapshot_name(10)]


async def test_a_past_state_can_be_loaded(long_history: History) -> None:
    for through in range(10, 31):
        loaded = recovery.load(long_history.disk, through=through)
        assert loaded.position == through
        assert snapshot(loaded.keyspace) == long_history.states[through]


async def test_what_is_not_there_yet_cannot_be_loaded(history: History) -> None:
    with pytest.raises(Corrupt, match="it ends with 30"):
        recovery.load(history.disk, through=31)


async def test_what_a_snapshot_has_replaced_cannot_be_loaded(long_history: History) -> None:
    with pytest.raises(Corrupt, match="holds everything up to 10"):
        recovery.load(long_history.disk, through=9)


async def test_progress_goes_up_to_the_end(long_history: History) -> None:
    reported: list[tuple[int, int]] = []
    recovery.load(long_history.disk, progress=lambda *progress: reported.append(progress))
    total = sum(map(len, long_history.disk.files.values()))
    assert [done for done, _ in reported] == sorted(done for done, _ in reported)
    assert reported[-1] == (total, total)
    assert {of for _, of in reported} == {total}


async def test_records_of_one_block_are_counted_one_by_one(history: History) -> None:
    records = [commands.encode(CREATE), *(commands.encode(add(n)) for n in range(1, 5))]
    disk = MemoryDisk({FIRST: JOURNAL + pack_block(HEADER, 1, 0, commands.join(records))})
    assert recovery.load(disk).position == 5
    assert recovery.load(disk, through=3).keyspace.streams[b"s"].log.length == 2


# What a crash leaves


async def test_a_torn_end_is_put_aside_and_nothing_else_goes(history: History) -> None:
    disk = history.disk
    offset = last_block_offset(disk, FIRST)
    tail = bytes(disk.files[FIRST][offset:-1])
    del disk.files[FIRST][-1]
    loaded = recovery.recover(disk)
    assert loaded.torn is not None
    assert loaded.torn[:3] == (FIRST, offset, len(tail))
    assert disk.files[f"aside-{FIRST}-{offset}"] == tail
    assert holds(disk, history) == 29
    assert recovery.recover(disk).torn is None


async def test_a_segment_that_was_only_just_begun_is_no_damage(history: History) -> None:
    begun = pack_header(Header(Kind.JOURNAL, 31))
    for length in range(len(begun) + 1):
        disk = history.disk.copy()
        disk.append(journal_name(31), begun[:length])
        assert recovery.recover(disk).position == 30
        assert holds(disk, history) == 30


async def test_what_was_never_forced_to_disk_may_be_torn_in_its_middle() -> None:
    records = [commands.join([commands.encode(command)]) for command in (CREATE, add(1), add(2))]
    data = bytearray(JOURNAL)
    for number, payload in enumerate(records, 1):
        data += pack_block(HEADER, number, 0, payload)
    data[-len(pack_block(HEADER, 3, 0, records[2])) - 1] ^= 1
    loaded = recovery.recover(MemoryDisk({FIRST: bytes(data)}))
    assert loaded.position == 1
    assert loaded.torn is not None


def test_a_rewrite_that_did_not_end_leaves_nothing() -> None:
    unfinished = snapshot_name(1) + ".new"
    disk = MemoryDisk({FIRST: segment(1, CREATE), unfinished: b"HEAD"})
    assert recovery.recover(disk).position == 1
    assert disk.names() == [FIRST]


async def test_what_a_snapshot_has_replaced_goes(history: History) -> None:
    disk = history.disk
    disk.append(journal_name(31), pack_header(Header(Kind.JOURNAL, 31)))
    recovery.rewrite(disk, 30)
    assert holds(disk, history) == 30
    recovery.recover(disk)
    assert disk.names() == [journal_name(31), snapshot_name(30)]
    assert holds(disk, history) == 30


# Damage


async def test_damage_to_what_was_safe_is_refused_and_not_touched(history: History) -> None:
    disk = history.disk
    disk.files[FIRST][2 * HEADER_BYTES + 2] ^= 1  # in the first block's payload
    before = dict(disk.copy().files)
    with pytest.raises(
        Broken, match=f"{FIRST}, byte {HEADER_BYTES}: the checksum of a block is wrong"
    ):
        recovery.recover(disk)
    assert disk.files == before


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({journal_name(2): segment(2, CREATE)}, "records 1 to 1 are missing before it"),
        (
            {FIRST: segment(1, CREATE), journal_name(3): segment(3, add(1))},
            "records 2 to 2 are missing before it",
        ),
        ({FIRST: segment(2, CREATE)}, "it says that it is journal-00000000000000000002"),
        (
            {FIRST: JOURNAL + pack_block(HEADER, 2, 1, commands.join([]))},
            "record 1 is missing: the block begins with 2",
        ),
        ({FIRST: JOURNAL + pack_block(HEADER, 1, 0, b"?")}, "a record makes no sense"),
        ({FIRST: pack_header(Header(Kind.SNAPSHOT, 1))}, "this is no journal"),
        (
            {snapshot_name(5): pack_header(Header(Kind.SNAPSHOT, 4))},
            "it says that it is snapshot-0",
        ),
        ({snapshot_name(5): pack_header(Header(Kind.SNAPSHOT, 5))}, "the end is missing"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(files: dict[str, bytes], text: str) -> None:
    with pytest.raises(Corrupt, match=text):
        recovery.load(MemoryDisk(files))


# Repair


async def test_a_repair_keeps_what_is_before_the_damage(long_history: History) -> None:
    disk = long_history.disk
    offset = disk.files[journal_name(11)].index(b"\xb1ock", HEADER_BYTES + 4)  # the second block
    lost = bytes(disk.files[journal_name(11)][offset:])
    disk.files[journal_name(11)][offset + 20] ^= 1
    kept = repair(disk).kept
    assert kept == [f"aside-{journal_name(11)}-{offset}", f"aside-{journal_name(21)}-0"]
    assert len(disk.files[kept[0]]) == len(lost)
    assert holds(disk, long_history) == 11
    assert repair(disk).kept == []


async def test_a_repair_saves_what_a_damaged_snapshot_still_holds() -> None:
    records = [commands.encode(command) for command in (CREATE, *map(add, range(1, 6000)))]
    history = await written(records, rewrite_at=len(records) - 1)
    [journal, name] = history.disk.names()
    history.disk.files[name][-3] ^= 1
    assert repair(history.disk).kept == [f"aside-{name}-0", f"aside-{journal}-0"]
    assert recovery.recover(history.disk).position == len(records) - 1


def block_of(first: int, *records: list[Command]) -> bytes:
    payload = commands.join([commands.encode(record) for record in records])
    return pack_block(HEADER, first, 0, payload)


POISON: list[Command] = [StreamDeleted(b"missing")]


def test_a_record_that_cannot_be_applied_is_damage_with_its_place() -> None:
    data = JOURNAL + block_of(1, CREATE, add(1)) + block_of(3, add(2), POISON, add(3))
    offset = data.rindex(b"\xb1ock")
    with pytest.raises(Corrupt, match=f"{FIRST}, byte {offset}: record 4 cannot be applied: Key"):
        recovery.load(MemoryDisk({FIRST: data}))


def test_a_repair_saves_nothing_of_an_item_that_was_taken_in_part() -> None:
    keyspace = Keyspace()
    keyspace.apply(StreamCreated(b"s", 1, StreamConfig()))
    keyspace.apply(GroupCreated(b"s", b"g", MIN_ID, None))
    keyspace.group(b"s", b"g").pel.release(EntryId(1, 0), 1, 0x12_3456_7890)
    disk = MemoryDisk({})
    recovery.save(disk, keyspace, 1)
    [name] = disk.names()
    with disk.open(name) as file:
        header = read_header(file, name, Kind.SNAPSHOT)
        [block] = read_blocks(file, name, header)
    before, behind = block.payload.split(b"\xcf" + (0x12_3456_7890).to_bytes(8))
    payload = before + b"\xd3" + b"\xff" * 8 + behind  # it rests until -1
    changed = pack_header(header) + pack_block(header, block.first, 0, payload)
    disk = MemoryDisk({name: changed})
    with pytest.raises(Corrupt, match="makes no sense"):
        recovery.load(disk)

    assert repair(disk).kept == [f"aside-{name}-0"]

    assert not len(recovery.load(disk).keyspace.group(b"s", b"g").pel)


def test_a_repair_cuts_before_the_record_that_cannot_be_applied() -> None:
    good = block_of(1, CREATE, add(1))
    bad = block_of(3, add(2), POISON, add(3)) + block_of(6, add(4))
    later = journal_name(7)
    disk = MemoryDisk({FIRST: JOURNAL + good + bad, later: segment(7, add(5))})
    offset = HEADER_BYTES + len(good)
    assert repair(disk).kept == [f"aside-{FIRST}-{offset}", f"aside-{later}-0"]
    assert disk.files[f"aside-{FIRST}-{offset}"] == bad
    loaded = recovery.recover(disk)
    assert (loaded.position, loaded.keyspace.streams[b"s"].log.length) == (3, 2)
    assert repair(disk).kept == []


def test_a_repair_leaves_nothing_of_a_block_that_begins_with_such_a_record() -> None:
    disk = MemoryDisk({FIRST: JOURNAL + block_of(1, POISON, CREATE)})
    assert repair(disk).kept == [f"aside-{FIRST}-{HEADER_BYTES}"]
    assert recovery.recover(disk).position == 0


async def test_what_was_put_aside_stays_when_the_same_place_is_damaged_again() -> None:
    disk = MemoryDisk({FIRST: segment(1, CREATE, add(1), add(2))})
    disk.files[FIRST][40] ^= 1
    lost = bytes(disk.files[FIRST][HEADER_BYTES:])
    [first_kept] = repair(disk).kept
    disk.files[FIRST] = bytearray(segment(1, CREATE, add(7)))
    disk.files[FIRST][40] ^= 1
    lost_again = bytes(disk.files[FIRST][HEADER_BYTES:])
    [second_kept] = repair(disk).kept
    assert [disk.files[name] for name in (first_kept, second_kept)] == [lost, lost_again]


async def test_a_repair_that_was_interrupted_begins_again() -> None:
    disk = MemoryDisk({FIRST: segment(1, CREATE, add(1))})
    disk.files[FIRST][40] ^= 1
    lost = bytes(disk.files[FIRST][HEADER_BYTES:])
    disk.append(f"aside-{FIRST}-{HEADER_BYTES}", lost[:7])
    assert repair(disk).kept == [f"aside-{FIRST}-{HEADER_BYTES}"]
    assert disk.files[f"aside-{FIRST}-{HEADER_BYTES}"] == lost


def test_a_newer_format_is_not_touched() -> None:
    disk = MemoryDisk({FIRST: newer(segment(1, CREATE))})
    before = dict(disk.copy().files)
    with pytest.raises(NewerFormat, match=f"its format has version {VERSION + 1}"):
        repair(disk)
    assert disk.files == before


# Ids


@pytest.mark.parametrize("forget", [lambda disk: None, lambda disk: recovery.rewrite(disk, 2)])
async def test_ids_grow_on_with_an_earlier_clock(forget: Callable[[MemoryDisk], None]) -> None:
    """Also when everything was deleted, and when only a snapshot remembers."""
    storage = MemoryStorage()
    before = Engine(storage, clock=ManualClock(5_000))
    [entry_id] = (await before.perform(Add(b"s", [Draft(None, (b"f", b"v"))]))).ids
    await before.perform(Delete(b"s", [entry_id]))
    disk = MemoryDisk({FIRST: segment(1, *map(commands.decode, storage.records))})
    disk.append(journal_name(3), segment(3))
    forget(disk)

    clock = ManualClock(10)
    engine = Engine(MemoryStorage(), keyspace=recovery.recover(disk).keyspace, clock=clock)
    ids = [entry_id]
    for clock.now_ms in (10, 11, 4_999, 5_000, 6_000):
        ids += (await engine.perform(Add(b"s", [Draft(None, (b"f", b"v"))] * 2))).ids
    assert ids == sorted(set(ids))
    assert ids[1:3] == [EntryId(5_000, 1), EntryId(5_000, 2)]


async def test_a_new_life_of_a_stream_is_told_from_the_old_one_with_an_earlier_clock() -> None:
    disk = MemoryDisk({FIRST: segment(1, [StreamCreated(b"s", 5_000, StreamConfig())])})
    disk.append(
        FIRST, pack_block(HEADER, 2, 1, commands.join([commands.encode([StreamDeleted(b"s")])]))
    )
    keyspace = recovery.recover(disk).keyspace
    engine = Engine(MemoryStorage(), keyspace=keyspace, clock=ManualClock(10))
    await engine.perform(CreateStream(b"s", StreamConfig()))
    assert (await engine.perform(DescribeStream(b"s"))).epoch == 5_001


class Busy(MemoryDisk):
    """A disk on which a segment begins between any two calls of somebody else."""

    first = 0

    def names(self) -> list[str]:
        names = super().names()
        self.append(journal_name(self.first), pack_header(Header(Kind.JOURNAL, self.first)))
        return names


async def test_a_segment_that_begins_while_old_files_go_stays() -> None:
    history = await written((await recorded(1, 40))[:20], restart_at=10)
    disk = Busy({name: bytes(data) for name, data in history.disk.files.items()})
    recovery.save(history.disk, recovery.load(history.disk, through=10).keyspace, 10)
    disk.files[snapshot_name(10)] = history.disk.files[snapshot_name(10)]
    disk.first = 21
    sizes = recovery.clean(disk)
    assert list(disk.files) == [journal_name(11), snapshot_name(10), journal_name(21)]
    assert sizes == {name: len(disk.files[name]) for name in [snapshot_name(10), journal_name(11)]}
    assert recovery.recover(MemoryDisk({n: bytes(d) for n, d in disk.files.items()})).position == 20


@pytest.mark.parametrize("name", ["journal-1", "notes", "aside-journal-00000000000000000001-32"])
def test_files_that_are_nobodys_stay(name: str) -> None:
    files: dict[str, Any] = {name: b"x", snapshot_name(3) + ".new": b"y"}
    disk = MemoryDisk(files)
    recovery.clean(disk)
    assert disk.names() == [name]
