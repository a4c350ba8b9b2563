"""Archives: what trims remove of a stream stays readable, in memory and on disk."""

import asyncio
from random import Random

import pytest

from headgate.engine.config import Patch, StreamConfig
from headgate.engine.engine import Engine
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, EntryId
from headgate.engine.journal import recovery
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.replies import Gap
from headgate.engine.requests.deliveries import Ack, GroupCursor, ReadGroup
from headgate.engine.requests.entries import (
    Add,
    Delete,
    OpenRanges,
    Range,
    Read,
    References,
    Span,
    StreamCursor,
    Trim,
    TrimArchive,
    TrimTo,
)
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.requests.keyspace import CopyStream, RenameStream, SetCounters
from headgate.engine.requests.streams import (
    CreateStream,
    DeleteStream,
    DescribeStream,
    UpdateStream,
)
from headgate.engine.state.memory import MemoryBounds, WhenFull
from tests.journals.life import Life, living
from tests.journals.memory_disk import MemoryDisk

S = b"s"
ARCHIVING = StreamConfig(archive=True)


async def archive(life: Life, count: int, kept: int) -> None:
    """Fill a stream that archives, and trim it."""
    await life.perform(CreateStream(S, ARCHIVING))
    await life.fill(count)
    await life.perform(Trim(S, TrimTo(max_length=kept)))


async def everything(life: Life, start: int = 0) -> list[int]:
    request = Range(S, EntryId(start, 0), archived=True)
    return [entry.id.ms for entry in await life.perform(request)]


async def test_a_cursor_goes_on_from_the_archive_into_the_stream_without_a_gap() -> None:
    async with living(MemoryDisk()) as life:
        await archive(life, 45, 12)
        came, after = list[int](), EntryId(20, 0)
        while True:
            request = Read([StreamCursor(S, after)], limit=10, archived=True)
            [read] = await life.perform(request)
            assert read.gap is None
            assert read.archived == bool(read.entries and read.entries[0].id.ms < 34)
            if not read.entries:
                break
            came += [entry.id.ms for entry in read.entries]
            after = read.next_after
        assert came == list(range(21, 46))
        [read] = await life.perform(Read([StreamCursor(S, EntryId(20, 0))], limit=1))
        assert (read.gap, read.archived) == (Gap(EntryId(20, 0), EntryId(33, 0)), False)


async def test_a_gap_is_what_no_archive_has() -> None:
    async with living(MemoryDisk()) as life:
        await life.fill(20)
        await life.perform(Trim(S, TrimTo(min_id=EntryId(6, 0))))
        await life.perform(UpdateStream(S, Patch.of(StreamConfig, archive=True)))
        await life.perform(Trim(S, TrimTo(min_id=EntryId(11, 0))))
        assert await everything(life) == list(range(6, 21))
        [read] = await life.perform(Read([StreamCursor(S, EntryId(2, 0))], archived=True))
        assert read.gap == Gap(EntryId(2, 0), EntryId(5, 0))

        assert await life.perform(TrimArchive(S, EntryId(8, 0))) == 2
        [read] = await life.perform(Read([StreamCursor(S, EntryId(6, 0))], archived=True))
        assert read.gap == Gap(EntryId(6, 0), EntryId(7, 0))
        await life.perform(UpdateStream(S, Patch.of(StreamConfig, archive=False)))
        await life.perform(Trim(S, TrimTo(min_id=EntryId(15, 0))))
        assert await everything(life) == [8, 9, 10, *range(15, 21)]
        assert await life.perform(TrimArchive(S)) == 3
        assert await everything(life) == list(range(15, 21))


async def test_a_rename_keeps_the_archive_and_a_copy_has_none() -> None:
    async with living(MemoryDisk()) as life:
        await archive(life, 45, 12)
        await life.perform(CopyStream(S, b"copy", replace=False))
        await life.perform(RenameStream(S, b"t"))
        counts = {
            name: (await life.perform(DescribeStream(name))).archived_count
            for name in (b"t", b"copy")
        }
        assert counts == {b"t": 33, b"copy": 0}
        await life.perform(DeleteStream(b"t"))
        await life.perform(DeleteStream(b"copy"))
        assert life.engine.memory.data_bytes == 0


async def test_ids_that_come_again_are_in_the_archive_no_more() -> None:
    async with living(MemoryDisk()) as life:
        await archive(life, 45, 0)
        await life.perform(SetCounters(S, EntryId(25, 0), None, MIN_ID))
        assert await everything(life) == list(range(1, 26))
        await life.perform(Add(S, [Draft(EntryId(26, 0), (b"n", b"again"))]))
        entries = await life.perform(Range(S, EntryId(26, 0), archived=True))
        assert [entry.fields for entry in entries] == [(b"n", b"again")]


async def test_full_memory_frees_what_is_archived_first() -> None:
    memory = MemoryBounds(400_000, WhenFull.TRIM_OLDEST)
    engine = Engine(MemoryStorage(records_max=0), memory=memory, has_bucket=True)
    await engine.perform(CreateStream(S, StreamConfig(max_length=100, archive=True)))
    value = b"%0999d"
    for number in range(3_000):
        await engine.perform(Add(S, [Draft(None, (b"n", value % number))]))
    info = await engine.perform(DescribeStream(S))
    assert info.length == 100
    assert engine.memory.size_bytes < 400_000


async def test_an_open_range_keeps_what_it_reads() -> None:
    async with living(MemoryDisk()) as life:
        await life.perform(CreateStream(S, ARCHIVING))
        await life.fill(45)
        [opened] = await life.perform(OpenRanges([Span(S, MIN_ID, MAX_ID)]))
        await life.perform(Trim(S, TrimTo(max_length=3)))
        await life.perform(Delete(S, [EntryId(5, 0)], archived=True))
        assert len(opened.entries) == 45
        assert await everything(life) == [*range(1, 5), *range(6, 46)]


class Story:
    """A stream that archives, and what it should have, through any events."""

    def __init__(self, seed: int) -> None:
        self.chance, self.disk = Random(seed), MemoryDisk()
        self.last = 0
        self.live: list[int] = []
        self.archived: list[int] = []
        self.acked: set[int] = set()

    async def add(self, life: Life) -> None:
        for _ in range(self.chance.randint(1, 25)):
            self.last += 1
            draft = Draft(EntryId(self.last, 0), (b"n", b"%d" % self.last))
            await life.perform(Add(S, [draft]))
            self.live.append(self.last)

    def _trim(self, gone: list[int]) -> None:
        self.live = [each for each in self.live if each not in set(gone)]
        self.archived = sorted([*self.archived, *gone])

    async def trim(self, life: Life) -> None:
        kept = self.chance.randint(0, len(self.live))
        await life.perform(Trim(S, TrimTo(max_length=kept)))
        self._trim(self.live[: len(self.live) - kept])

    async def trim_settled(self, life: Life) -> None:
        read = ReadGroup(b"g", b"c", [GroupCursor(S)], limit=1_000)
        await life.perform(read)
        acked = [each for each in self.live if self.chance.random() < 0.7]
        await life.perform(Ack(S, b"g", [EntryId(each, 0) for each in acked]))
        self.acked |= set(acked)
        await life.perform(Trim(S, TrimTo(max_length=0, references=References.ACKED)))
        self._trim([each for each in self.live if each in self.acked])

    async def delete(self, life: Life) -> None:
        there = [*self.live, *self.archived]
        doomed = self.chance.sample(there, min(len(there), self.chance.randint(1, 12)))
        await life.perform(Delete(S, [EntryId(each, 0) for each in doomed], archived=True))
        self.live = [each for each in self.live if each not in doomed]
        self.archived = [each for each in self.archived if each not in doomed]

    async def trim_archive(self, life: Life) -> None:
        before = self.chance.randint(0, self.last // 2 + 1)
        await life.perform(TrimArchive(S, EntryId(before, 0)))
        self.archived = [each for each in self.archived if each >= before]

    async def rewrite(self, life: Life) -> None:
        if life.may_end.is_set():
            life.may_end.clear()
            life.journal.start_rewrite()
            for _ in range(self.chance.randint(0, 40)):
                await asyncio.sleep(0)
        else:
            life.may_end.set()
            await life.journal._rewrites.until_done(10)
            assert life.journal.status.rewrite_failure is None

    async def check(self, life: Life) -> None:
        assert await life.numbers() == self.live
        assert await everything(life) == sorted([*self.live, *self.archived])
        info = await life.perform(DescribeStream(S))
        assert (info.length, info.archived_count) == (len(self.live), len(self.archived))
        start = self.chance.randint(0, self.last)
        there = sorted([*self.live, *self.archived])
        at = EntryId(start, 0)
        for request, wanted in (
            (Range(S, at, limit=3, archived=True), [each for each in there if each >= start]),
            (
                Range(S, end=at, limit=3, reverse=True, archived=True),
                [each for each in there[::-1] if each <= start],
            ),
        ):
            numbers = [entry.id.ms for entry in await life.perform(request)]
            assert numbers == wanted[: len(numbers)]
            assert numbers or not wanted

    async def live_on(self, life: Life) -> None:
        acts = [
            *[self.add] * 4,
            *[self.trim] * 3,
            *[self.rewrite] * 4,
            *[self.delete] * 2,
            self.trim_settled,
            self.trim_archive,
        ]
        for _ in range(25):
            await self.chance.choice(acts)(life)
            await self.check(life)
        life.may_end.set()
        await life.journal._rewrites.until_done(10)
        await self.check(life)


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_happens_nothing_is_lost_and_nothing_comes_twice(seed: int) -> None:
    story = Story(seed)
    async with living(story.disk) as life:
        await life.fill(0)
        await life.perform(CreateStream(S, ARCHIVING))
        await life.perform(CreateGroup(S, b"g", GroupStart(MIN_ID)))
        await story.live_on(life)
    for _ in range(3):
        async with living(story.disk) as life:
            await story.check(life)
            await story.live_on(life)
    streams = recovery.load(story.disk).keyspace.streams
    log = streams[S].everything
    assert [each.id.ms for each in log.range(MIN_ID, MAX_ID)] == sorted(
        [*story.live, *story.archived]
    )
