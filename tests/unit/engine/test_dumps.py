"""Streams as one value: their records and snapshots, their counts, and wake-ups."""

import asyncio
from typing import Any

import pytest

from headgate.engine import commands
from headgate.engine.config import GroupPolicy, StreamConfig
from headgate.engine.decisions.dumps import Dump
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Entry, EntryId
from headgate.engine.errors import (
    LimitReached,
    MemoryFull,
    StreamExists,
    StreamNotFound,
    StreamTooLarge,
    TransactionTooLong,
)
from headgate.engine.images import (
    ConsumerImage,
    CountersImage,
    EntriesImage,
    GroupImage,
    KeysImage,
    PendingImage,
    StreamImage,
    unpacked,
)
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.limits import COPIED_MAX, RESTORED_AT_ONCE_MAX
from headgate.engine.requests.deliveries import Ack, Nack, NackMode
from headgate.engine.requests.entries import Delete, Read, StreamCursor, Trim, TrimTo
from headgate.engine.requests.groups import CreateConsumer, CreateGroup, GroupStart
from headgate.engine.requests.keyspace import (
    CopyStream,
    DumpStream,
    ExpireStream,
    MeasureStream,
    RememberKey,
    RenameStream,
    RestoreStream,
)
from headgate.engine.requests.streams import CreateStream, DeleteStream, DescribeStream
from headgate.engine.state import restoring
from headgate.engine.state.bounds import KeyspaceBounds
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import Memory, MemoryBounds
from headgate.engine.state.stream import Stream
from tests.journals.records import reloaded, replayed
from tests.model.snapshot import snapshot as everything_in
from tests.unit.driver import Driver, G, S, entry_id

T = b"t"


def image(count: int = 250, *, pending: int = 0, keys: KeysImage | None = None) -> StreamImage:
    """Return a stream of so many entries, some of them pending."""
    entries = [Entry(EntryId(n, 5), (b"n", b"%d" % n)) for n in range(1, count + 1)]
    chunks = [EntriesImage.of(entries[at : at + 100]) for at in range(0, count, 100)]
    held = [
        PendingImage(EntryId(n, 5), n % 3 - 1, n * 7 % 50 if n % 3 else 0, n)
        for n in range(1, pending + 1)
    ]
    consumers = [ConsumerImage(b"a", 900, None), ConsumerImage(b"b", 800, 700)]
    groups = [GroupImage(G, EntryId(9, 5), 9, consumers, held)]
    return StreamImage(
        chunks, CountersImage(EntryId(count + 9, 0), MIN_ID, count + 3), groups, keys
    )


def content(value: StreamImage) -> Any:
    entries = [entry for each in unpacked(value.chunks) for entry in each]
    return entries, value.counters, value.groups


async def dumped(engine: Engine, stream: bytes) -> StreamImage:
    return await engine.perform(DumpStream(stream, 2**24))


def check_records(engine: Engine) -> None:
    """Check that records and a snapshot lead to the state, memory included."""
    state = everything_in(engine.keyspace)
    assert everything_in(replayed(engine)) == state
    assert everything_in(reloaded(engine.keyspace)) == state
    assert not engine.keyspace.prepared


@pytest.fixture
def engine() -> Driver:
    return Driver()


@pytest.mark.parametrize("pending", [0, 200, 3 * RESTORED_AT_ONCE_MAX])
async def test_what_is_restored_is_one_record_and_dumped(engine: Driver, pending: int) -> None:
    engine.clock.now_ms = 100_000
    value = image(4_000, pending=pending)
    before = engine.storage.position
    await engine.perform(RestoreStream(S, value))
    assert engine.storage.position == before + 1
    assert content(await dumped(engine, S)) == content(value)
    check_records(engine)


async def test_times_follow_a_clock_that_was_set(engine: Driver) -> None:
    engine.clock.now_ms = 1_000_000
    value = image(10, pending=5)
    await engine.perform(RestoreStream(S, value))
    engine.clock.step(-300_000)
    await engine.perform(RestoreStream(T, value))
    assert content(await dumped(engine, T)) == content(value)
    check_records(engine)


async def test_keys_of_redis_come_with_their_settings(engine: Driver) -> None:
    used = [(b"%d" % n, EntryId(n, 5)) for n in (3, 4)]
    keys = KeysImage(50_000, 7, {b"p": used, b"none": []}, 11, 2)
    await engine.perform(RestoreStream(S, image(10, keys=keys)))
    stream = engine.keyspace.stream(S)
    assert [*stream.keys.by_producer] == [b"p"]
    assert stream.keys.by_producer[b"p"][b"4"].first_id == EntryId(4, 5)
    assert (stream.keys.added, stream.keys.duplicates) == (11, 2)
    assert stream.config == StreamConfig(idempotency_window_ms=50_000, idempotency_max=7)
    check_records(engine)


async def test_a_copy_is_one_record_with_both_names(engine: Driver) -> None:
    config = StreamConfig(max_length=90, max_age_ms=10**9, idempotency_window_ms=5_000)
    await engine.perform(CreateStream(S, config))
    await engine.start(*range(1, 121))
    await engine.take(limit=40)
    await engine.perform(Nack(S, G, [entry_id(35), entry_id(36)], NackMode.FAIL, 900))
    await engine.perform(Nack(S, G, [entry_id(37)], NackMode.SILENT))
    await engine.perform(Ack(S, G, [entry_id(38)]))
    await engine.perform(Delete(S, [entry_id(50)]))
    await engine.perform(Trim(S, TrimTo(max_length=70)))
    await engine.perform(RememberKey(S, b"p", b"k", entry_id(100)))
    await engine.perform(ExpireStream(S, 500_000))
    policy = GroupPolicy(claim_idle_ms=7, consumer_ttl_ms=10**9)
    await engine.perform(CreateGroup(S, b"ruled", GroupStart(MIN_ID), policy=policy))
    await engine.perform(CreateConsumer(S, b"ruled", b"c"))
    before = engine.storage.position
    assert await engine.perform(CopyStream(S, T))
    assert engine.storage.position == before + 1
    check_records(engine)
    source, copy = everything_in(engine.keyspace)["streams"]
    for each in (source, copy):
        del each["info"]
    assert copy == source
    size_bytes = engine.keyspace.memory.size_bytes
    await engine.perform(DeleteStream(S))
    await engine.perform(DeleteStream(T))
    assert engine.keyspace.memory.size_bytes == 0 < size_bytes


async def test_what_replaces_a_stream_is_one_record_as_well(engine: Driver) -> None:
    await engine.start(1, 2)
    await engine.put(1, stream=T)
    for request in (RestoreStream(T, image(5), replace=True), CopyStream(S, T, replace=True)):
        changes, before = engine.unsaved_count, engine.storage.position
        await engine.perform(request)
        assert (engine.unsaved_count, engine.storage.position) == (changes + 1, before + 1)
    check_records(engine)


async def test_what_is_refused_leaves_nothing(engine: Driver) -> None:
    await engine.put(1)
    before = everything_in(engine.keyspace)
    for request, error in [
        (RestoreStream(S, image()), StreamExists),
        (CopyStream(T, S), StreamNotFound),
        (DumpStream(S, 3), StreamTooLarge),
        (MeasureStream(T), StreamNotFound),
    ]:
        with pytest.raises(error):
            await engine.perform(request)
    small = Driver(bounds=KeyspaceBounds(groups_max=0))
    with pytest.raises(LimitReached, match="groups"):
        await small.perform(RestoreStream(S, image()))
    small = Driver(bounds=KeyspaceBounds(consumers_max=1))
    with pytest.raises(LimitReached, match="consumers"):
        await small.perform(RestoreStream(S, image()))
    small = Driver(bounds=KeyspaceBounds(streams_max=1))
    await small.put(1, stream=T)
    with pytest.raises(LimitReached, match="streams"):
        await small.perform(RestoreStream(S, image()))
    with pytest.raises(LimitReached, match="streams"):
        await small.perform(CopyStream(T, S))
    await small.perform(RestoreStream(T, image(), replace=True))
    assert everything_in(engine.keyspace) == before


async def test_a_stream_that_was_created_meanwhile_is_not_replaced(engine: Driver) -> None:
    restoring = asyncio.create_task(engine.perform(RestoreStream(S, image(9_000, pending=3_000))))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not restoring.done()
    await engine.put(1)
    with pytest.raises(StreamExists):
        await restoring
    assert (await engine.perform(DescribeStream(S))).length == 1
    check_records(engine)


async def test_a_restore_that_is_cancelled_leaves_nothing(engine: Driver) -> None:
    restoring = asyncio.create_task(engine.perform(RestoreStream(S, image(9_000, pending=3_000))))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert engine.keyspace.memory.size_bytes > 0
    restoring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await restoring
    assert engine.keyspace.memory.size_bytes == 0
    check_records(engine)


async def test_memory_that_is_full_takes_no_copy_and_nothing_restored() -> None:
    engine = Engine(MemoryStorage(), memory=MemoryBounds(100_000))
    await engine.perform(RestoreStream(S, image(2_000)))
    size_bytes = engine.keyspace.memory.size_bytes
    while size_bytes <= 100_000:
        await engine.perform(CopyStream(S, b"%d" % size_bytes))
        size_bytes = engine.keyspace.memory.size_bytes
    for request in (RestoreStream(T, image(10)), CopyStream(S, T)):
        with pytest.raises(MemoryFull):
            await engine.perform(request)
    assert engine.keyspace.memory.size_bytes == size_bytes


async def test_a_dump_shows_one_moment(engine: Driver) -> None:
    await engine.perform(RestoreStream(S, image(60_000, pending=2_000)))
    before = content(await dumped(engine, S))
    dumping = asyncio.create_task(dumped(engine, S))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not dumping.done()
    await engine.perform(Ack(S, G, [EntryId(n, 5) for n in range(1, 900)]))
    await engine.perform(Trim(S, TrimTo(max_length=5)))
    assert content(await dumping) == before


async def test_who_waits_for_a_stream_reads_what_is_restored_and_copied(engine: Driver) -> None:
    for request in (RestoreStream(S, image(3)), CopyStream(S, T)):
        name = S if isinstance(request, RestoreStream) else T
        cursor = StreamCursor(name, EntryId(2, 0))
        reading = asyncio.create_task(
            engine.perform(Read([cursor], wait_ms=10_000, missing_ok=True))
        )
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not reading.done()
        await engine.perform(request)
        [read] = await reading
        assert [entry.id.ms for entry in read.entries] == [2, 3]


async def test_a_large_stream_is_refused_where_all_happens_at_once(engine: Driver) -> None:
    large = image(10, pending=COPIED_MAX)
    with pytest.raises(TransactionTooLong):
        await engine.perform_all([RestoreStream(S, large)])
    await engine.perform(RestoreStream(S, large))
    with pytest.raises(TransactionTooLong):
        await engine.perform_all([DumpStream(S, 2**24)])
    with pytest.raises(StreamTooLarge):
        await engine.perform(CopyStream(S, T))
    check_records(engine)


async def test_short_records_that_take_long_to_apply_count_for_a_rewrite(engine: Driver) -> None:
    await engine.perform(RestoreStream(S, image(3)))
    for at in range(500):
        await engine.perform(CreateGroup(S, b"%d" % at, GroupStart(MIN_ID)))
    before = engine.storage.replay_us
    for request in (CopyStream(S, T), CopyStream(S, T, replace=True), RenameStream(T, b"u")):
        await engine.perform(request)

    assert engine.storage.replay_us - before > 2 * 500 * 5
    replayed = Keyspace()
    assert isinstance(engine.storage, MemoryStorage)
    for record in engine.storage.records:
        for command in commands.decode(record):
            replayed.apply(command)
    assert replayed.replay_us == engine.storage.replay_us


def crowded(consumers: int, pending: int) -> Stream:
    """Return a stream with a group of so many consumers and pending entries."""
    held = [PendingImage(EntryId(n, 5), n % consumers, n * 7 % 50, 1) for n in range(1, pending)]
    named = [ConsumerImage(b"c%d" % n, 900, 700) for n in range(consumers)]
    groups = [GroupImage(G, EntryId(9, 5), 9, named, held)]
    value = StreamImage([], CountersImage(EntryId(pending, 9), MIN_ID, pending), groups, None)
    keyspace = Keyspace()
    keyspace.apply(commands.StreamRestored(S, 1, StreamConfig(), value))
    return keyspace.streams[S]


def test_no_step_of_a_dump_makes_more_than_a_few() -> None:
    stream = crowded(3_000, 2_000)
    keyspace = Keyspace()
    keyspace.streams[S] = stream
    dump, made, step_max = Dump(keyspace, DumpStream(S, 2**24)), 0, 0
    for _ in dump.steps():
        before, made = made, sum(len(g.consumers) + len(g.pending) for g in dump.image.groups)
        step_max = max(step_max, made - before)
    assert made == 3_000 + 1_999
    assert step_max <= RESTORED_AT_ONCE_MAX


def test_no_step_of_a_restore_makes_more_than_a_few() -> None:
    value = image(100, pending=2_000)
    stream = Stream(S, 0, StreamConfig(), Memory())
    pending, step_max = 0, 0
    for _ in restoring.fill(stream, value, 0):
        before, pending = pending, sum(len(group.pel) for group in stream.groups.values())
        step_max = max(step_max, pending - before)
    assert pending == 2_000
    assert step_max <= RESTORED_AT_ONCE_MAX <= 250
