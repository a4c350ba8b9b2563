"""A snapshot is the whole state: a loaded keyspace behaves as its original."""

import io

import msgspec
import pytest

from headgate.engine import commands as c
from headgate.engine.config import StreamConfig
from headgate.engine.engine import Engine
from headgate.engine.entry import Draft, EntryId
from headgate.engine.errors import Corrupt
from headgate.engine.journal import snapshot
from headgate.engine.journal.records import (
    Header,
    Kind,
    pack_block,
    pack_header,
    read_blocks,
    read_header,
)
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.limits import BLOCK_BYTES_MAX, COUNT_MAX, IDEMPOTENCY_ID_BYTES_MAX
from headgate.engine.requests.entries import Add
from headgate.engine.state.idempotency import Made
from headgate.engine.state.keyspace import Keyspace
from tests.journals.records import replayed
from tests.journals.workload import Workload
from tests.model.snapshot import snapshot as everything_in
from tests.unit.driver import Driver, S, entry_id
from tests.virtual_time import ManualClock

HEADER = Header(Kind.SNAPSHOT, 7)


def written(keyspace: Keyspace) -> bytes:
    return b"".join(snapshot.pieces(keyspace, 7))


def loaded(data: bytes) -> Keyspace:
    file = io.BytesIO(data)
    header = read_header(file, "x", Kind.SNAPSHOT)
    assert header.position == 7
    return snapshot.load(read_blocks(file, "x", header), "x")


def again(keyspace: Keyspace) -> Keyspace:
    return loaded(written(keyspace))


def hidden_in(keyspace: Keyspace) -> list[EntryId]:
    """Return the pending entries that only later commands bring to light."""
    groups = [group for stream in keyspace.streams.values() for group in stream.groups.values()]
    return [each.id for group in groups for each in group.pel.walk() if group.pel.is_hidden(each)]


@pytest.mark.parametrize("seed", range(40))
async def test_nothing_tells_a_loaded_state_from_its_original(seed: int) -> None:
    clock, later = ManualClock(), ManualClock()
    original = Engine(MemoryStorage(), clock=clock)
    workload = Workload(original, clock, seed)
    await workload.begin()
    await workload.run(600)

    assert everything_in(replayed(original)) == everything_in(original.keyspace)
    later.now_ms = clock.now_ms
    copy = Engine(MemoryStorage(), keyspace=again(original.keyspace), clock=later)
    assert everything_in(copy.keyspace) == everything_in(original.keyspace)
    assert hidden_in(copy.keyspace) == hidden_in(original.keyspace)
    assert written(copy.keyspace) == written(original.keyspace)

    replies = await Workload(original, clock, seed + 1000).run(300)
    assert await Workload(copy, later, seed + 1000).run(300) == replies
    assert everything_in(copy.keyspace) == everything_in(original.keyspace)


async def test_many_pending_entries_span_items() -> None:
    engine = Driver()
    await engine.start(*range(1, 9001))
    await engine.take()
    keyspace = again(engine.keyspace)
    assert everything_in(keyspace) == everything_in(engine.keyspace)


async def test_large_chunks_span_blocks() -> None:
    engine = Driver()
    noise = bytes(range(256)) * 4096
    for number in range(1, 8):
        await engine.perform(Add(S, [Draft(entry_id(number), (b"n", b"%d" % number + noise))]))
    data = written(engine.keyspace)
    assert everything_in(loaded(data)) == everything_in(engine.keyspace)


async def test_that_the_clock_was_set_is_remembered() -> None:
    engine = Driver()
    await engine.start(1)
    await engine.take()
    engine.clock.step(5_000)
    await engine.take()
    copy = again(engine.keyspace)
    assert (copy.clock_set_ms, copy.latest_ms) == (5_000, 1_000)
    assert everything_in(copy) == everything_in(engine.keyspace)


# Files that are not whole


def blocks_of(*lists: list[snapshot.Item]) -> bytes:
    data, count = pack_header(HEADER), 0
    for items in lists:
        data += pack_block(HEADER, count, 0, msgspec.msgpack.encode(items))
        count += len(items)
    return data


FIRST = snapshot.KeyspaceItem(0, Keyspace().defaults)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (pack_header(HEADER), "x, byte 0: the end is missing"),
        (blocks_of([FIRST]), "x, byte 32: the end is missing"),
        (blocks_of([FIRST, snapshot.EndItem(2)]), "the end is missing"),
        (blocks_of([FIRST, snapshot.EndItem(1)], [FIRST]), "items are missing before item 2"),
        (
            pack_header(HEADER) + pack_block(HEADER, 1, 0, b"\x90"),
            "items are missing before item 1",
        ),
        (
            pack_header(HEADER) + pack_block(HEADER, 0, 0, b"\x93"),
            "byte 32: an item makes no sense",
        ),
    ],
)
def test_a_file_without_all_its_items_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(Corrupt, match=text):
        loaded(data)


@pytest.mark.parametrize("error", [-1, 1, 2**40])
async def test_a_chunk_that_says_a_wrong_count_is_refused(error: int) -> None:
    engine = Driver()
    await engine.start(*range(1, 21))
    file = io.BytesIO(written(engine.keyspace))
    blocks = read_blocks(file, "x", read_header(file, "x", Kind.SNAPSHOT))
    items = [
        item
        for block in blocks
        for item in msgspec.msgpack.decode(block.payload, type=list[snapshot.Item])
    ]
    assert everything_in(loaded(blocks_of(items))) == everything_in(engine.keyspace)
    lies = [
        snapshot.ChunkItem(item.chunk._replace(entry_count=20 + error))
        if isinstance(item, snapshot.ChunkItem)
        else item
        for item in items
    ]
    with pytest.raises(Corrupt, match=f"a chunk that says it has {20 + error} entries"):
        loaded(blocks_of(lies))


def test_counters_of_a_file_stop_where_a_snapshot_can_still_hold_them() -> None:
    keyspace = Keyspace()
    keyspace.apply(c.StreamCreated(b"s", 1, StreamConfig()))
    keys = keyspace.streams[b"s"].keys
    keys.added = keys.duplicates = COUNT_MAX  # as a damaged file may have it
    keyspace.apply(c.DuplicateCounted(b"s"))
    keyspace.apply(c.KeyRemembered(b"s", b"p", b"k", Made(EntryId(1, 0), 1, b"", 1), 10))
    keyspace.apply(c.ClockSet(COUNT_MAX))
    keyspace.apply(c.ClockSet(COUNT_MAX))

    assert (keys.added, keys.duplicates, keyspace.clock_set_ms) == (COUNT_MAX,) * 3
    assert b"".join(snapshot.pieces(keyspace, 1))


async def test_long_keys_of_a_producer_are_written_in_blocks() -> None:
    engine = Driver()
    await engine.start(1)
    keyspace, count = engine.keyspace, 3 * BLOCK_BYTES_MAX // IDEMPOTENCY_ID_BYTES_MAX
    for at in range(count):
        made, key = Made(entry_id(1), 1, b"", at), b"%d" % at + bytes(IDEMPOTENCY_ID_BYTES_MAX - 9)
        keyspace.apply(c.KeyRemembered(S, b"p", key, made, count - 3))
    data = written(keyspace)
    blocks = list(read_blocks(io.BytesIO(data[len(pack_header(HEADER)) :]), "x", HEADER))
    assert len(blocks) >= 3
    copy = loaded(data).stream(S).keys
    assert list(copy.by_producer[b"p"].items()) == list(
        keyspace.stream(S).keys.by_producer[b"p"].items()
    )
    assert copy.memory_bytes == keyspace.stream(S).keys.memory_bytes
