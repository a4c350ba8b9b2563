"""The rewrites: when one begins, and what it leaves."""

import asyncio
import errno
from itertools import pairwise
from typing import Any

import pytest

from headgate.engine.commands import Command, EntriesAcked, GroupCreated
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import Unavailable
from headgate.engine.journal import names, recovery
from headgate.engine.journal.faults import PAUSE_S_MAX
from headgate.engine.journal.rewrites import (
    LOADED_BYTES,
    REPLAY_US_MAX,
    REWRITE_PAUSE_S_MIN,
    REWRITE_SHARE,
    STUCK_S,
    Growth,
    OnProgress,
)
from headgate.engine.journal.room import DiskBounds
from headgate.engine.limits import SEGMENT_BYTES_MAX
from tests.journals.memory_disk import MemoryDisk
from tests.journals.running_journal import CREATE, Running, adding, length, rewritten, running
from tests.virtual_time import now_ms

SYNC_S = 0.01


async def test_a_rewrite_leaves_a_snapshot_and_the_segment_behind_it() -> None:
    disk = MemoryDisk(sync_s=SYNC_S)
    async with running(disk) as run:
        for number in range(5):
            await run.put(adding(number) if number else CREATE)
        assert run.journal.start_rewrite()
        assert not run.journal.start_rewrite()
        await run.put(adding(5))
        await rewritten(run)
        await run.put(adding(6))
        status = run.journal.status
    assert disk.names() == [names.journal_name(6), names.snapshot_name(5)]
    assert (status.rewrite_count, status.rewrite_failure) == (1, None)
    assert status.size_bytes == sum(map(disk.size_bytes, disk.names()))
    assert [event for event, _ in run.events] == ["rewrite begins", "rewrite done"]
    assert length(recovery.load(disk).keyspace) == 6


async def test_a_rewrite_saves_the_changes_that_were_written_when_it_began() -> None:
    async with running(MemoryDisk(sync_s=SYNC_S)) as run:

        async def put(number: int) -> None:
            run.journal.change_count += 1  # as the engine does
            await run.put(adding(number) if number else CREATE)

        for number in range(5):
            await put(number)
        assert run.journal.unsaved_count == 5
        run.journal.start_rewrite()
        await put(5)
        await rewritten(run)
        assert run.journal.unsaved_count == 1
        run.journal.start_rewrite()
        await rewritten(run)
        assert run.journal.unsaved_count == 0


async def test_a_segment_that_becomes_full_during_a_rewrite_is_not_saved() -> None:
    disk, may_end = MemoryDisk(), asyncio.Event()

    async def rewriter(through: int, _: object) -> None:
        await may_end.wait()
        recovery.rewrite(disk, through)

    async with running(disk, growth=Growth(0), rewriter=rewriter) as run:
        await run.put(CREATE)
        run.journal.start_rewrite()
        for number in range(1, 6):
            run.journal.change_count += 1  # as the engine does
            await run.put(adding(number, bytes(SEGMENT_BYTES_MAX // 4)))
        may_end.set()
        await rewritten(run)
        assert run.journal.unsaved_count == 5
    assert disk.names()[-1] == names.snapshot_name(1)


async def test_a_rewrite_of_nothing_new_changes_nothing() -> None:
    disk = MemoryDisk()
    async with running(disk) as run:
        await run.put(CREATE)
        for _ in range(3):
            run.journal.start_rewrite()
            await rewritten(run)
        assert disk.names() == [names.journal_name(2), names.snapshot_name(1)]
        await run.put(adding(1))
    assert recovery.load(disk).position == 2


async def test_a_rewrite_starts_when_a_start_would_take_long() -> None:
    async with running(MemoryDisk()) as run:
        await run.put(CREATE)
        for number in range(1, 4):
            run.journal.replay_us += REPLAY_US_MAX + 1  # as the engine does
            await run.put(adding(2 * number))
            await rewritten(run)
            assert run.journal.status.rewrite_count == number
            await run.put(adding(2 * number + 1))
            assert run.journal.status.rewrite_count == number


async def test_a_rewrite_starts_when_the_files_have_doubled() -> None:
    disk = MemoryDisk()
    async with running(disk, growth=Growth(100, 4000)) as run:
        await run.put(CREATE)
        counts = []
        for number in range(1, 101):
            await run.put(adding(number, bytes(100)))
            await rewritten(run)
            counts.append(run.journal.status.rewrite_count)
    # 4000 bytes are reached after 27 entries; they are packed well, so it is the minimum again.
    assert counts[20] == 0
    assert counts[-1] >= 2
    assert length(recovery.load(disk).keyspace) == 100


async def test_a_rewrite_that_fails_is_told_and_tried_again_after_ever_longer_pauses() -> None:
    disk = MemoryDisk()
    begun_s: list[float] = []

    async def rewriter(through: int, _: object) -> None:
        begun_s.append(now_ms() / 1000)
        if len(begun_s) != 4:
            raise OSError(errno.EMFILE, f"no rewrite through {through}")
        recovery.rewrite(disk, through)

    async with running(disk, growth=Growth(100, 1000), rewriter=rewriter) as run:
        await run.put(CREATE)
        for number in range(1, 600):
            await run.put(adding(number, bytes(100)))
            await asyncio.sleep(0.1)
        status = run.journal.status
    failures = [facts["reason"] for event, facts in run.events if event == "rewrite failed"]
    assert status.rewrite_failure == failures[-1]
    assert all("no rewrite through" in reason for reason in failures)
    assert (status.rewrite_count, status.failure, status.fault) == (1, None, None)
    pauses_s = [after - before for before, after in pairwise(begun_s)]
    assert all(1.8 * short < long for short, long in pairwise(pauses_s[:3]))
    assert (
        REWRITE_PAUSE_S_MIN <= pauses_s[4] < 2 * REWRITE_PAUSE_S_MIN
    )  # behind the one that worked
    assert length(recovery.load(disk).keyspace) == 599


async def test_a_journal_that_ends_does_not_wait_for_a_rewrite() -> None:
    disk = MemoryDisk()
    ended: list[bool] = []

    async def rewriter(through: int, _: object) -> None:
        try:
            await asyncio.sleep(10**6)
        finally:
            ended.append(True)

    async with running(disk, rewriter=rewriter) as run:
        await run.put(CREATE)
        run.journal.start_rewrite()
        await asyncio.sleep(1)
    assert ended == [True]
    assert now_ms() < 10_000
    with pytest.raises(Unavailable, match="the journal is closed"):
        run.journal.start_rewrite()


async def test_after_going_back_the_time_of_a_start_counts_from_the_snapshot() -> None:
    disk = MemoryDisk()
    async with running(disk) as run:
        await run.put(CREATE)
        run.journal.replay_us += 3 * REPLAY_US_MAX  # as the engine does
        await run.put(adding(1))
        await rewritten(run)
        disk.faults["append"] = errno.EIO
        with pytest.raises(Unavailable):
            await run.put(adding(2))
        disk.faults.clear()
        await asyncio.sleep(2 * PAUSE_S_MAX)
        run.journal.replay_us += REPLAY_US_MAX + 1
        await run.put(adding(3))
        await rewritten(run)
        assert run.journal.status.rewrite_count == 2


class LargeDisk(MemoryDisk):
    """A disk whose first segment is said to have a gigabyte."""

    def size_bytes(self, name: str) -> int:
        return 10**9 if name == names.journal_name(1) else super().size_bytes(name)


async def test_a_start_may_take_as_long_for_the_records_as_for_a_large_snapshot() -> None:
    disk = LargeDisk()
    async with running(disk) as run:
        await run.put(CREATE)
    async with running(disk) as run:
        run.journal.replay_us += REPLAY_US_MAX + 1
        await run.put(adding(1))
        assert not run.journal.status.is_rewriting
        run.journal.replay_us = 10**9 // LOADED_BYTES + 1
        await run.put(adding(2))
        assert run.journal.status.is_rewriting
        await rewritten(run)


# Room is short, and a snapshot does not help

ACK: list[Command] = [EntriesAcked(b"s", b"g", [])]
FULL: dict[str, Any] = {"growth": Growth(0), "bounds": DiskBounds(size_bytes_max=1000)}


async def fill(run: Running) -> None:
    """Append an entry that is too large in a snapshot as well."""
    await run.put([*CREATE, GroupCreated(b"s", b"g", MIN_ID, 0)])
    await run.put(adding(1, b"%d" % 7**4500))


async def test_a_shortage_begins_no_rewrite_of_what_a_snapshot_has_already() -> None:
    async with running(MemoryDisk(), **FULL) as run:
        await fill(run)
        await asyncio.sleep(60)
        assert run.journal.refusal is not None
        assert run.journal.status.rewrite_count == 1
        await run.put(ACK)
        await asyncio.sleep(60)
        assert run.journal.status.rewrite_count == 2


async def test_rewrites_take_a_part_of_the_time_only_while_room_is_short() -> None:
    disk = MemoryDisk()
    begun_s: list[float] = []

    async def rewriter(through: int, _: object) -> None:
        begun_s.append(now_ms() / 1000)
        await asyncio.sleep(2)
        recovery.rewrite(disk, through)

    async with running(disk, rewriter=rewriter, **FULL) as run:
        await fill(run)
        for _ in range(100):
            await run.put(ACK)
            await asyncio.sleep(0.5)
        await rewritten(run)
        pauses_s = [after - before for before, after in pairwise(begun_s)]
        assert len(pauses_s) >= 2
        assert min(pauses_s) >= 2 + REWRITE_SHARE * 2


async def test_a_rewrite_without_progress_is_ended_and_tried_again_later() -> None:
    disk, begun_s, ended_s = MemoryDisk(), list[float](), list[float]()

    async def rewriter(through: int, on_progress: OnProgress) -> None:
        disk.append(names.snapshot_name(through) + ".tmp", b"a part")
        begun_s.append(now_ms() / 1000)
        try:
            for _ in range(3):
                await asyncio.sleep(40)
                on_progress()
            await asyncio.Event().wait()  # as a process that hangs
        finally:
            ended_s.append(now_ms() / 1000)

    async with running(disk, growth=Growth(100, 1000, patience_s=60), rewriter=rewriter) as run:
        await run.put(CREATE)
        for number in range(1, 2_000):
            await run.put(adding(number, b"v" * 100))
            await asyncio.sleep(1)
        status = run.journal.status

    assert status.rewrite_failure == "the rewrite made no progress for 60 s"
    assert [round(end - begin) for begin, end in zip(begun_s, ended_s, strict=True)][:3] == [
        180
    ] * 3
    pauses = [round(begin - end) for end, begin in zip(ended_s, begun_s[1:], strict=False)]
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[3]
    assert length(recovery.load(disk).keyspace) == 2_000 - 1


async def test_nobody_waits_long_for_the_room_that_a_stuck_rewrite_makes() -> None:
    async def rewriter(through: int, _: object) -> None:
        await asyncio.Event().wait()

    async with running(MemoryDisk(), growth=Growth(0), rewriter=rewriter) as run:
        await run.put(CREATE)
        assert run.journal.start_rewrite()
        began_ms = now_ms()
        while await run.journal.until_frozen():
            pass
        assert now_ms() - began_ms <= 1_000 * (STUCK_S + 1)
        assert not await run.journal.until_frozen()
        assert now_ms() - began_ms <= 1_000 * (STUCK_S + 1)
