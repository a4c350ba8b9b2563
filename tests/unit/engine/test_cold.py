"""Entries that are on disk alone: damage, rewrites while something changes, memory that is full."""

import asyncio
import errno
import gc
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import pytest

from headgate.engine.config import Patch, StreamConfig
from headgate.engine.eager import EagerCall
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, Entry, EntryId
from headgate.engine.errors import MemoryFull, Unavailable
from headgate.engine.journal import recovery
from headgate.engine.journal.extents import ExtentReader, Freezing
from headgate.engine.journal.names import extents_name
from headgate.engine.journal.rewrites import Growth
from headgate.engine.limits import COLD_READS_MAX
from headgate.engine.replies import Deletion, Gap
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import BulkCursor, CommitBatch, PlanRead
from headgate.engine.requests.deliveries import (
    AckAndDelete,
    Autoclaim,
    Claim,
    GroupCursor,
    ReadGroup,
)
from headgate.engine.requests.entries import (
    Add,
    Delete,
    OpenRanges,
    Range,
    RangeMatching,
    Read,
    ReadOn,
    Span,
    StreamCursor,
    Trim,
    TrimTo,
)
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.requests.keyspace import ChangeDefaults, DumpStream, RenameStream
from headgate.engine.requests.streams import (
    CreateStream,
    DeleteStream,
    DescribeStream,
    UpdateStream,
)
from headgate.engine.state.entries.packed import NodeLimits
from headgate.engine.state.extent import OpenedExtent
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import MemoryBounds, WhenFull
from headgate.engine.state.stream import Stream
from tests.journals.life import CHUNK, Life, living
from tests.journals.memory_disk import MemoryDisk
from tests.virtual_time import now_ms, settle

T = TypeVar("T")
FILE = "extents-00000000000000000001"


class SlowDisk(MemoryDisk):
    """A disk whose reads end when they may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_read = asyncio.Event()
        self.reading_count = 0

    async def read_in_thread(self, act: Callable[[], T]) -> T:
        self.reading_count += 1
        try:
            await self.may_read.wait()
            return act()
        finally:
            self.reading_count -= 1


async def test_what_is_sealed_leaves_memory_and_is_there_after_a_start() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await life.fill(45)
        before = life.engine.memory.entries_bytes
        await life.freeze()
        assert life.engine.memory.entries_bytes < before
        assert await life.numbers() == list(range(1, 46))
        assert (await life.perform(DescribeStream(b"s"))).chunk_count == 5

    async with living(disk) as life:
        assert life.engine.memory.cold_bytes
        assert await life.numbers() == list(range(1, 46))


async def test_a_stream_that_was_renamed_meanwhile_is_frozen_by_the_next_rewrite() -> None:
    async with living(MemoryDisk()) as life:
        await life.fill(35)
        await life.begin_rewrite()
        await life.perform(RenameStream(b"s", b"t"))
        life.may_end.set()
        await life.journal._rewrites.until_done(10)
        assert life.lines(b"t") == 0
        assert await life.numbers(b"t") == list(range(1, 36))

        await life.freeze()
        assert life.lines(b"t") > 0
        assert await life.numbers(b"t") == list(range(1, 36))


async def test_another_stream_of_the_name_keeps_its_own_entries() -> None:
    async with living(MemoryDisk()) as life:
        await life.fill(35)
        await life.begin_rewrite()
        await life.perform(DeleteStream(b"s"))
        drafts = [Draft(EntryId(number, 0), (b"n", b"new")) for number in range(1, 36)]
        for draft in drafts:
            await life.perform(Add(b"s", [draft]))
        life.may_end.set()
        await life.journal._rewrites.until_done(10)
        assert {entry.fields for entry in await life.perform(Range(b"s"))} == {(b"n", b"new")}


async def test_no_number_of_an_extent_file_comes_again() -> None:
    async with living(MemoryDisk()) as life:
        await life.fill(25)
        await life.freeze()
        await life.perform(DeleteStream(b"s"))
        await life.freeze()
        assert not [name for name in life.disk.names() if name.startswith("extents-")]
        await life.fill(25, b"t")
        await life.freeze()
        assert recovery.last_extent_file(life.disk) == 2


async def test_files_that_are_dead_go_and_an_open_range_keeps_what_it_reads() -> None:
    async with living(MemoryDisk()) as life:
        await life.fill(2_000)
        await life.freeze()
        [opened] = await life.perform(OpenRanges([Span(b"s", MIN_ID, MAX_ID)]))
        numbers = [entry.id.ms for entry in opened.entries]

        await life.perform(Trim(b"s", TrimTo(min_id=EntryId(1_995, 0))))
        await life.freeze()
        assert FILE in life.disk.names()

        while len(numbers) < 2_000:
            page: list[Entry] = await life.perform(ReadOn(b"s", opened.number))
            numbers += [entry.id.ms for entry in page]
        assert numbers == list(range(1, 2_001))
        await life.perform(Add(b"s", [Draft(None, (b"n", b"v"))]))
        await life.freeze()
        assert FILE not in life.disk.names()


async def test_a_filter_is_asked_about_what_is_cold() -> None:
    async with living(MemoryDisk()) as life:
        await life.fill(2_345)
        await life.freeze()
        filters, wanted = '{"suffix": {"n": "00"}}', list(range(100, 2_346, 100))

        up, low = list[int](), MIN_ID
        down, high = list[int](), MAX_ID
        while low < MAX_ID:
            page = await life.perform(RangeMatching(b"s", filters, low))
            up += [entry.id.ms for entry in page.entries]
            low = page.last_id.next()
        while high > MIN_ID:
            page = await life.perform(RangeMatching(b"s", filters, end=high, reverse=True))
            down += [entry.id.ms for entry in page.entries]
            high = page.last_id.previous()
        assert (up, down) == (wanted, wanted[::-1])

        after, came = MIN_ID, list[int]()
        while len(came) < len(wanted):
            request = Read([StreamCursor(b"s", after)], limit=3, wait_ms=None, filters=filters)
            [read] = await life.perform(request)
            came, after = came + [entry.id.ms for entry in read.entries], read.next_after
        assert came == wanted


async def test_a_damaged_chunk_is_a_gap_and_everything_else_goes_on() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await life.fill(45)
        await life.perform(CreateGroup(b"s", b"g", GroupStart(MIN_ID)))
        await life.freeze()
        line = life.engine.keyspace.stream(b"s").log.extents.line(0)
        disk.files[FILE][line.place.offset + line.place.size_bytes - 1] ^= 1  # of the last chunk

        left = [*range(1, 31), *range(41, 46)]
        assert await life.numbers() == left
        [facts] = [facts for event, facts in life.events if event == "entries lost"]
        assert facts["lost"] == ["31-0 to 40-0"]
        assert facts["file"] == FILE

        [read] = await life.perform(Read([StreamCursor(b"s", EntryId(25, 0))]))
        assert read.gap == Gap(EntryId(30, 2**64 - 1), EntryId(40, 0))
        assert [entry.id.ms for entry in read.entries] == left[25:]
        [read] = await life.perform(Read([StreamCursor(b"s", EntryId(41, 0))]))
        assert read.gap is None
        [read] = await life.perform(
            Read([StreamCursor(b"s", EntryId(25, 0))], filters='{"exact": {"n": "no"}}')
        )
        assert (read.gap, read.entries, read.next_after.ms) == (
            Gap(EntryId(30, 2**64 - 1), EntryId(40, 0)),
            [],
            45,
        )

        [delivered] = await life.perform(
            ReadGroup(b"g", b"c", [GroupCursor(b"s", None)], limit=100)
        )
        assert [delivery.id.ms for delivery in delivered.deliveries] == left
        assert (await life.perform(DescribeStream(b"s"))).length == len(left)

    async with living(disk) as life:  # the loss is recorded
        assert await life.numbers() == left
        assert not [event for event, _ in life.events if event == "entries lost"]


async def test_a_start_goes_on_though_what_was_deleted_behind_it_is_damaged() -> None:
    disk = MemoryDisk()
    async with living(disk) as life:
        await life.fill(45)
        await life.freeze()
        line = life.engine.keyspace.stream(b"s").log.extents.line(0)
        await life.perform(Delete(b"s", [EntryId(33, 0)]))
    disk.files[FILE][line.place.offset + 40] ^= 1  # of the table: nothing of it can be read

    async with living(disk) as life:
        assert await life.numbers() == [*range(41, 46)]


@pytest.mark.parametrize("is_damaged", [False, True])
async def test_a_cold_read_leaves_nothing_to_the_collector(is_damaged: bool) -> None:
    try:
        async with living(MemoryDisk()) as life:  # which keeps nothing that was read
            await life.fill(45)
            await life.freeze()
            if is_damaged:  # which is found out while what was read is at hand
                place = life.engine.keyspace.stream(b"s").log.extents.line(0).place
                life.disk.files[FILE][place.offset + 40] ^= 1
            gc.collect()
            others = opened_extents()  # of gateways that other tests share
            gc.disable()
            (read,) = await life.perform(Read([StreamCursor(b"s", MIN_ID)]))
            assert (len(read.entries) < 45) == is_damaged
        # The threads have ended: one that has just read still holds what it read.
        assert opened_extents().keys() <= others.keys()
    finally:
        gc.enable()


def opened_extents() -> dict[int, OpenedExtent]:
    return {id(each): each for each in gc.get_objects() if isinstance(each, OpenedExtent)}


@pytest.mark.parametrize("is_missing", [False, True])
async def test_what_cannot_be_read_now_is_refused_and_read_later(is_missing: bool) -> None:
    async with living(MemoryDisk()) as life:
        await life.fill(25)
        await life.freeze()
        data = life.disk.files.pop(FILE) if is_missing else None
        if data is None:
            life.disk.faults["read"] = errno.EIO
        with pytest.raises(Unavailable, match="No such file" if is_missing else "Input/output"):
            await asyncio.wait_for(life.numbers(), 5)
        await life.perform(Add(b"s", [Draft(EntryId(26, 0), (b"n", b"26"))]))
        await life.freeze()  # a rewrite does not need it
        life.disk.faults.clear()
        if data is not None:
            life.disk.files[FILE] = data
        assert await life.numbers() == list(range(1, 27))


def test_what_cannot_be_read_is_not_cleaned_and_stops_no_rewrite() -> None:
    disk, keyspace = MemoryDisk(), Keyspace()
    keyspace.memory.extents = ExtentReader(disk)
    stream = Stream(b"s", 1, StreamConfig(), keyspace.memory)
    keyspace.adopt(stream)
    entries = [Entry(EntryId(number, 0), (b"n", b"%d" % number)) for number in range(1, 46)]
    stream.extend(entries, NodeLimits(CHUNK, 0))
    freezing = Freezing(disk, keyspace)
    freezing.freeze(0)
    freezing.finish()
    for number in range(1, 41, 2):
        stream.delete(EntryId(number, 0))

    keyspace.memory.extents = ExtentReader(disk)  # which remembers nothing
    disk.faults["read"] = 5  # EIO
    freezing = Freezing(disk, keyspace)
    freezing.clean()
    freezing.finish()
    assert [line.place.file for line in stream.log.extents.lines()] == [1]

    del disk.faults["read"]
    freezing.clean()
    freezing.finish()
    assert [line.place.file for line in stream.log.extents.lines()] == [2]
    numbers = [entry.id.ms for entry in stream.log.range(MIN_ID, MAX_ID)]
    assert numbers == [*range(2, 41, 2), *range(41, 46)]


async def test_a_slow_disk_slows_those_who_read_what_is_cold_and_nobody_else() -> None:
    disk = SlowDisk()
    async with living(disk) as life:
        await life.fill(45)
        await life.fill(3, b"hot")
        await life.freeze()
        reads = [asyncio.create_task(life.numbers()) for _ in range(3 * COLD_READS_MAX)]
        await settle()
        assert 0 < disk.reading_count <= COLD_READS_MAX

        await life.perform(Add(b"hot", [Draft(EntryId(4, 0), (b"n", b"4"))]))
        assert await life.numbers(b"hot") == [1, 2, 3, 4]
        [read] = await life.perform(Read([StreamCursor(b"s", EntryId(40, 0))]))
        assert [entry.id.ms for entry in read.entries] == [*range(41, 46)]
        assert not any(read.done() for read in reads)

        disk.may_read.set()
        assert await asyncio.gather(*reads) == [list(range(1, 46))] * len(reads)


async def test_a_blocked_reader_is_given_what_is_cold_once_it_may_claim_it() -> None:
    async with living(MemoryDisk()) as life:
        await life.fill(45)
        await life.perform(CreateGroup(b"s", b"g", GroupStart(MIN_ID)))
        first = ReadGroup(b"g", b"gone", [GroupCursor(b"s", None)], limit=2)
        await life.perform(first)
        await life.perform(ReadGroup(b"g", b"c", [GroupCursor(b"s", None)], limit=100))
        await life.freeze()
        waiting = ReadGroup(
            b"g", b"d", [GroupCursor(b"s", None)], limit=2, claim_idle_ms=50, wait_ms=10_000
        )
        [read] = await life.perform(waiting)
        assert [delivery.id.ms for delivery in read.deliveries] == [1, 2]
        assert [delivery.fields for delivery in read.deliveries] == [(b"n", b"1"), (b"n", b"2")]


async def test_a_transaction_sees_what_is_cold_and_what_its_steps_have_done() -> None:
    async with living(MemoryDisk()) as life:
        await life.fill(45)
        await life.freeze()
        replies: list[Any] = await life.engine.perform_all(
            [Delete(b"s", [EntryId(1, 0)]), Trim(b"s", TrimTo(max_length=43)), Range(b"s", limit=1)]
        )
        deleted, trimmed, left = replies
        assert (deleted, trimmed) == ([Deletion.DELETED], 1)
        assert [entry.id for entry in left] == [EntryId(3, 0)]
        assert await life.numbers() == [*range(3, 46)]


async def test_a_stream_may_be_named_twice() -> None:
    async with living(MemoryDisk()) as life:
        await life.fill(25)
        await life.freeze()
        unexpected: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: unexpected.append(context)
        )
        reads = await life.perform(Read([StreamCursor(b"s", MIN_ID)] * 2))
        assert [len(read.entries) for read in reads] == [25, 25]
        assert not unexpected


async def test_requests_that_need_much_take_turns() -> None:
    async with living(MemoryDisk()) as life:
        value = bytes(range(256)) * 4_096  # 1 MiB
        for number in range(1, 31):
            fields = (b"%d" % number, value + bytes([number]))
            await life.perform(Add(b"s", [Draft(EntryId(number, 0), fields)]))
        await life.freeze()
        assert life.lines() == 30
        assert life.engine.memory.entries_bytes < 2**20
        reads = await asyncio.gather(*(life.numbers() for _ in range(4)))
        assert reads == [list(range(1, 31))] * 4


async def test_a_request_waits_until_a_rewrite_has_made_room_in_memory() -> None:
    memory, growth = MemoryBounds(100_000), Growth(0, 64 * 2**20, 10_000)
    async with living(MemoryDisk(), memory, growth) as life:
        value = bytes(range(256)) * 4

        async def fill() -> None:
            for number in range(1, 1_001):
                await life.perform(Add(b"s", [Draft(EntryId(number, 0), (b"%d" % number, value))]))

        done = asyncio.Event()
        EagerCall(fill(), lambda _: done.set()).start()  # as the gateway performs requests
        await done.wait()
        assert life.engine.memory.size_bytes < 100_000
        assert len(await life.numbers()) == 1_000


@pytest.mark.parametrize("when_full", WhenFull)
async def test_nobody_waits_for_failing_rewrites_and_nothing_is_trimmed(
    when_full: WhenFull,
) -> None:
    memory, growth = MemoryBounds(100_000, when_full), Growth(0, 64 * 2**20, 10_000)
    async with living(MemoryDisk(), memory, growth) as life:
        await life.fill(25)
        await life.freeze()
        life.disk.faults["open"] = errno.EIO
        add = Add(b"s", [Draft(None, (b"n", bytes(range(256)) * 4))])
        while life.engine.memory.size_bytes <= 100_000:
            await life.perform(add)
        with pytest.raises(MemoryFull):
            await life.perform(add)
        assert [event for event, _ in life.events].count("rewrite failed") == 1
        assert await life.perform(Range(b"s", limit=1)) == [Entry(EntryId(1, 0), (b"n", b"1"))]
        del life.disk.faults["open"]
        await life.freeze()
        await life.perform(add)


async def test_a_stream_of_which_most_is_cold_is_dumped_as_a_whole() -> None:
    async with living(MemoryDisk()) as life:
        await life.fill(45)
        before = await life.perform(DumpStream(b"s", 10**6))
        await life.freeze()
        assert await life.perform(DumpStream(b"s", 10**6)) == before


class LatentDisk(MemoryDisk):
    """A disk whose reads take a second each, however many there are at a time."""

    async def read_in_thread(self, act: Callable[[], T]) -> T:
        await asyncio.sleep(1)
        return act()


SPREAD = 30
"""Extents over which the entries of a test lie."""


async def spread_over_extents(life: Life) -> list[EntryId]:
    """Append an entry of 64 KiB to a stream for each extent; they are cold then."""
    random = Random(1)
    ids = [EntryId(number, 0) for number in range(1, SPREAD + 1)]
    for entry_id in ids:
        await life.perform(Add(b"s", [Draft(entry_id, (b"n", random.randbytes(2**16)))]))
    await life.perform(CreateGroup(b"s", b"g", GroupStart(MIN_ID)))
    return ids


async def spread_over_streams(life: Life) -> list[GroupCursor]:
    """Append to many streams, each with a group; they are cold then."""
    names = [b"t%d" % number for number in range(SPREAD)]
    for name in names:
        await life.perform(CreateStream(name, StreamConfig(max_length=25)))
        await life.fill(25, name)
        await life.perform(CreateGroup(name, b"g", GroupStart(MIN_ID)))
    return [GroupCursor(name, None) for name in names]


NEW = [GroupCursor(b"s", None)]
Deed = Callable[[list[EntryId], list[GroupCursor]], Request[Any]]
"""Returns the request that needs many extents, of ids of one stream, or of many streams."""

DEEDS: dict[str, Deed] = {
    "a read of many streams": lambda _, many: Read(
        [StreamCursor(name, MIN_ID) for name, _ in many]
    ),
    "ranges of many streams": lambda _, many: OpenRanges([Span(name) for name, _ in many]),
    "a group read of many streams": lambda _, many: ReadGroup(b"g", b"c", many, limit=10),
    "a plan for many streams": lambda _, many: PlanRead(
        [BulkCursor(name, EntryId(3, 0)) for name, _ in many]
    ),
    "a batch for many streams that are trimmed": lambda _, many: CommitBatch(
        b"w", 1, {name: [Draft(None, (b"n", b"x"))] for name, _ in many}
    ),
    "a deletion": lambda ids, _: Delete(b"s", ids),
}
DEEDS_ABOUT_PENDING: dict[str, Deed] = {
    "a read of what a consumer holds": lambda *_: ReadGroup(
        b"g", b"c", [GroupCursor(b"s", MIN_ID)], limit=100
    ),
    "a read that claims": lambda *_: ReadGroup(b"g", b"d", NEW, limit=100, claim_idle_ms=0),
    "a claim by ids": lambda ids, _: Claim(b"s", b"g", b"d", ids, 0),
    "a claim of what is idle": lambda *_: Autoclaim(b"s", b"g", b"d", 0, limit=100),
    "an acknowledgement that deletes": lambda ids, _: AckAndDelete(b"s", b"g", ids),
}


@pytest.mark.parametrize("deed", [*DEEDS, *DEEDS_ABOUT_PENDING])
async def test_what_a_request_needs_is_read_together(deed: str) -> None:
    async with living(LatentDisk()) as life:
        ids = await spread_over_extents(life)
        cursors = await spread_over_streams(life)
        if deed in DEEDS_ABOUT_PENDING:
            await life.perform(ReadGroup(b"g", b"c", NEW, limit=100))
        await life.freeze()
        assert life.lines() == SPREAD
        began_ms = now_ms()
        await life.perform((DEEDS | DEEDS_ABOUT_PENDING)[deed](ids, cursors))
        assert 1_000 <= now_ms() - began_ms < 4_000


async def test_the_files_with_the_newest_entries_of_a_stream_are_those_it_keeps_local() -> None:
    async with living(MemoryDisk()) as life:
        await life.perform(ChangeDefaults(node_entries_max=CHUNK))
        await life.perform(CreateStream(b"kept", StreamConfig(local_bytes=1)))
        for first in (1, 1001):
            for stream in (b"kept", b"s"):
                drafts = [Draft(EntryId(first + at, 0), (b"n", b"1")) for at in range(1000)]
                await life.perform(Add(stream, drafts))
                await life.freeze()
        files = [extents_name(number) for number in sorted(life.engine.memory.files)]
        assert len(files) == 4

        local_files = life.journal._rewrites.holder.local_files
        assert await local_files() == {files[2]}
        for local_bytes, expected in [(2**40, {files[0], files[2]}), (None, set())]:
            change = Patch.of(StreamConfig, local_bytes=local_bytes)
            await life.perform(UpdateStream(b"kept", change))
            assert await local_files() == expected
