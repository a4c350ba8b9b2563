"""The journal: when it says that something is safe, it is; and what it does when nothing can be."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from headgate.engine.commands import (
    Command,
    EntriesAcked,
    EntriesAdded,
    EntriesDeleted,
    GroupCreated,
    StreamCreated,
    StreamDeleted,
)
from headgate.engine.config import StreamConfig
from headgate.engine.eager import EagerCall
from headgate.engine.engine import Engine
from headgate.engine.entry import MAX_ID, MIN_ID, Entry, EntryId
from headgate.engine.errors import Unavailable
from headgate.engine.journal import recovery
from headgate.engine.journal.blocks import Header, Kind, pack_header
from headgate.engine.journal.journal import (
    LOOK_INTERVAL_S,
    PATIENCE_S,
    PAUSE_S_MAX,
    REDIS_GROWTH,
    REPLAY_US_MAX,
    SYNC_INTERVAL_S,
    SYNC_PATIENCE_S,
    FsyncPolicy,
    Growth,
    Journal,
    Rewriter,
)
from headgate.engine.journal.room import DiskBounds
from headgate.engine.limits import SEGMENT_BYTES_MAX, SERVED_AT_ONCE_MAX
from headgate.engine.state.keyspace import Keyspace
from tests.journals.memory_disk import MemoryDisk
from tests.journals.workload import Workload
from tests.virtual_time import ManualClock, in_virtual_time, now_ms, settle

SYNC_S = 0.01
CREATE: list[Command] = [StreamCreated(b"s", 1, StreamConfig())]


def adding(number: int, value: bytes = b"v") -> list[Command]:
    return [EntriesAdded(b"s", [Entry(EntryId(number, 0), (b"f", value))])]


def rewriting(disk: MemoryDisk) -> Rewriter:
    """Return a rewriter like the process of its own, in no time."""

    async def rewrite(through: int) -> None:
        recovery.rewrite(disk, through)

    return rewrite


class Running:
    """A journal that runs, and what it events."""

    def __init__(
        self,
        disk: MemoryDisk,
        policy: FsyncPolicy = FsyncPolicy.ALWAYS,
        *,
        growth: Growth = REDIS_GROWTH,
        rewriter: Rewriter | None = None,
        bounds: DiskBounds = DiskBounds(),  # noqa: B008
    ) -> None:
        self.disk = disk
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.went_back: list[Keyspace] = []
        self.journal = Journal(
            disk,
            policy,
            rewriter or rewriting(disk),
            position=recovery.recover(disk).position,
            growth=growth,
            bounds=bounds,
            on_event=self._note_event,
        )

    def _note_event(self, event: str, facts: Mapping[str, object]) -> None:
        self.events.append((event, dict(facts)))

    def go_back(self, keyspace: Keyspace | None) -> None:
        if keyspace is not None:
            self.went_back.append(keyspace)

    async def put(self, record: list[Command]) -> None:
        await self.journal.wait_durable(self.journal.append(record))


@asynccontextmanager
async def running(disk: MemoryDisk, *args: Any, **options: Any) -> AsyncIterator[Running]:
    """Run a journal that nothing happens to."""
    started = Running(disk, *args, **options)
    run = asyncio.create_task(started.journal.run(started.go_back))
    await asyncio.sleep(disk.sync_s)  # the first segment is open by then
    await settle()
    yield started
    await started.journal.close()
    await run


@asynccontextmanager
async def failing(disk: MemoryDisk, *args: Any, **options: Any) -> AsyncIterator[Running]:
    """Run a journal that will fail."""
    started = Running(disk, *args, **options)
    run = asyncio.create_task(started.journal.run(started.go_back))
    await settle()
    yield started
    with pytest.raises(Unavailable):
        await run
    await started.journal.close()


def length(keyspace: Keyspace) -> int:
    return keyspace.streams[b"s"].log.length


# Group commit


@in_virtual_time
async def test_those_who_wait_for_one_sync_are_told_in_turns() -> None:
    async with running(MemoryDisk(sync_s=SYNC_S)) as run:
        position = run.journal.append(CREATE)
        waits = [asyncio.create_task(run.journal.wait_durable(position)) for _ in range(350)]
        await waits[0]
        assert sum(wait.done() for wait in waits) == SERVED_AT_ONCE_MAX
        await asyncio.gather(*waits)


@in_virtual_time
async def test_calls_without_a_task_go_on_in_turns_too() -> None:
    loop, ended, counts = asyncio.get_running_loop(), list[EagerCall](), list[int]()

    def count() -> None:
        counts.append(len(ended))
        if len(ended) < 350:
            loop.call_soon(count)

    def end(call: EagerCall) -> None:
        ended.append(call)
        if len(ended) == 1:
            loop.call_soon(count)

    async with running(MemoryDisk(sync_s=SYNC_S)) as run:
        position = run.journal.append(CREATE)
        for _ in range(350):
            EagerCall(run.journal.wait_durable(position), end).start()
        await asyncio.sleep(SYNC_S)
        await settle()
    assert counts == [100, 200, 300, 350]


@in_virtual_time
async def test_what_was_safe_before_the_disk_failed_is_told_so_even_then() -> None:
    disk = MemoryDisk(sync_s=SYNC_S)
    async with failing(disk) as run:
        await asyncio.sleep(SYNC_S)
        position = run.journal.append(CREATE)
        waits = [asyncio.create_task(run.journal.wait_durable(position)) for _ in range(350)]
        await waits[0]
        disk.sync_failure = OSError(errno.EIO, "Input/output error")
        late = asyncio.create_task(run.put(adding(1)))
        assert await asyncio.gather(*waits) == [None] * 350
        with pytest.raises(Unavailable):
            await late


@in_virtual_time
async def test_a_thousand_waits_are_served_by_two_syncs() -> None:
    disk = MemoryDisk(sync_s=SYNC_S)
    async with running(disk) as run:
        await run.put(CREATE)
        before, began_ms = len(disk.synced), now_ms()
        await asyncio.gather(*(run.put(adding(number)) for number in range(1, 1001)))
        assert len(disk.synced) - before <= 2
        assert now_ms() - began_ms <= 2 * SYNC_S * 1000
        assert run.journal.durable_position == run.journal.position == 1001
    assert length(recovery.load(disk).keyspace) == 1000


@in_virtual_time
async def test_what_arrives_while_the_disk_is_busy_goes_down_together() -> None:
    disk = MemoryDisk(sync_s=SYNC_S)
    async with running(disk) as run:
        first = asyncio.create_task(run.put(CREATE))
        await asyncio.sleep(SYNC_S / 2)
        before = len(disk.appended)
        later = [asyncio.create_task(run.put(adding(number))) for number in range(1, 51)]
        await first
        assert not any(task.done() for task in later)
        await asyncio.gather(*later)
        assert len(disk.appended) - before == 1


@in_virtual_time
async def test_nobody_is_told_before_what_came_before_is_safe() -> None:
    disk = MemoryDisk(sync_s=SYNC_S)
    async with running(disk) as run:
        order: list[int] = []
        positions = [run.journal.append(record) for record in (CREATE, adding(1), adding(2))]

        async def wait(position: int) -> None:
            await run.journal.wait_durable(position)
            assert recovery.load(disk.copy()).position >= position
            order.append(position)

        await asyncio.gather(*map(wait, positions))
        assert order == [1, 2, 3]
        await run.journal.wait_durable(2)  # is known, and returns at once


@in_virtual_time
async def test_a_wait_that_is_given_up_is_in_nobodys_way() -> None:
    async with running(MemoryDisk(sync_s=SYNC_S)) as run:
        waits = [asyncio.create_task(run.put(record)) for record in (CREATE, adding(1))]
        await settle()
        waits[0].cancel()
        await waits[1]


# Policies


@pytest.mark.parametrize("policy", list(FsyncPolicy))
def test_a_policy_says_what_an_answer_waits_for(policy: FsyncPolicy) -> None:
    @in_virtual_time
    async def test() -> None:
        disk = MemoryDisk(sync_s=SYNC_S)
        async with running(disk, policy) as run:
            await asyncio.sleep(SYNC_S)
            before, began_ms = len(disk.synced), now_ms()
            await run.put(CREATE)
            assert len(disk.synced) - before == (policy is FsyncPolicy.ALWAYS)
            assert (now_ms() - began_ms > 0) == (policy is FsyncPolicy.ALWAYS)
            await asyncio.sleep(10 * SYNC_INTERVAL_S)
            assert len(disk.synced) - before == (policy is not FsyncPolicy.NO)
        assert recovery.load(disk).position == 1

    test()


@in_virtual_time
async def test_every_second_what_was_written_is_forced_to_disk_and_nothing_else() -> None:
    disk = MemoryDisk(sync_s=SYNC_S)
    async with running(disk, FsyncPolicy.EVERYSEC) as run:
        await run.put(CREATE)
        before = len(disk.synced)
        for number in range(1, 41):
            await run.put(adding(number))
            await asyncio.sleep(0.1)
        assert 3 <= len(disk.synced) - before <= 4
        await asyncio.sleep(2 * SYNC_INTERVAL_S)
        before = len(disk.synced)
        await asyncio.sleep(100 * SYNC_INTERVAL_S)
        assert len(disk.synced) == before


@in_virtual_time
async def test_writes_go_on_beside_a_slow_sync_for_a_while_and_then_wait_for_it() -> None:
    disk = MemoryDisk()
    async with running(disk, FsyncPolicy.EVERYSEC) as run:
        disk.sync_s = 10.0
        await run.put(CREATE)
        await asyncio.sleep(SYNC_INTERVAL_S + SYNC_PATIENCE_S / 2)
        began_ms = now_ms()
        await run.put(adding(1))
        assert now_ms() == began_ms
        await asyncio.sleep(SYNC_PATIENCE_S)
        await run.put(adding(2))
        assert now_ms() == (SYNC_INTERVAL_S + disk.sync_s) * 1000


# The end


@pytest.mark.parametrize("policy", list(FsyncPolicy))
def test_what_nobody_waits_for_is_written_and_forced_to_disk_at_the_end(
    policy: FsyncPolicy,
) -> None:
    @in_virtual_time
    async def test() -> None:
        disk = MemoryDisk(sync_s=SYNC_S)
        async with running(disk, policy) as run:
            run.journal.append(CREATE)
            run.journal.append(adding(1))
            segment = disk.names()[-1]
            before = len(disk.synced)
        assert disk.synced[before:] == [segment]
        assert recovery.load(disk).position == 2
        assert disk.is_closed

    test()


@in_virtual_time
async def test_a_journal_goes_on_where_it_ended() -> None:
    disk = MemoryDisk()
    for number in range(5):
        async with running(disk) as run:
            assert run.journal.position == number
            await run.put(adding(number) if number else CREATE)
        async with running(disk):
            pass  # a start that records nothing leaves no segment behind
    assert disk.names() == [recovery.journal_name(number) for number in range(1, 7)]
    assert length(recovery.load(disk).keyspace) == 4


@pytest.mark.parametrize("policy", list(FsyncPolicy))
def test_what_a_killed_process_wrote_is_safe_before_anything_is_built_on_it(
    policy: FsyncPolicy,
) -> None:
    @in_virtual_time
    async def test() -> None:
        disk = MemoryDisk(sync_s=SYNC_S)
        killed = Running(disk, policy)
        run = asyncio.create_task(killed.journal.run(killed.go_back))
        await asyncio.sleep(2 * SYNC_S)
        disk.sync_failure = OSError(errno.EINTR, "killed before that")
        killed.journal.append(CREATE)
        await asyncio.wait([run], timeout=SYNC_S)
        run.cancel()
        await asyncio.wait([run])
        disk.sync_failure = None

        async with running(disk) as journal:
            assert journal.journal.position == 1
            await journal.put(adding(1))
        disk.lose_power()
        assert recovery.recover(disk).position == 2

    test()


# Segments


@in_virtual_time
async def test_a_segment_that_is_full_is_followed_by_another() -> None:
    disk = MemoryDisk()
    large = bytes(SEGMENT_BYTES_MAX // 4)
    async with running(disk, FsyncPolicy.NO, growth=Growth(0)) as run:
        await run.put(CREATE)
        for number in range(1, 7):
            await run.put(adding(number, large))
        first, second = disk.names()
        # The full one is safe before the next begins.
        assert disk.synced == [f"{first}.new", first, f"{second}.new"]
    assert (first, second) == (recovery.journal_name(1), recovery.journal_name(6))
    assert length(recovery.load(disk).keyspace) == 6


@in_virtual_time
async def test_a_block_takes_what_is_waiting_up_to_a_size() -> None:
    disk = MemoryDisk()
    async with running(disk) as run:
        await run.put(CREATE)
        before = len(disk.appended)
        await asyncio.gather(*(run.put(adding(number, bytes(2**20))) for number in range(1, 13)))
        assert len(disk.appended) - before == 3


# Rewrites


async def rewritten(run: Running) -> None:
    """Return once the rewrite that was begun is over."""
    while run.journal.status.is_rewriting:
        await asyncio.sleep(0.001)


@in_virtual_time
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
    assert disk.names() == [recovery.journal_name(6), recovery.snapshot_name(5)]
    assert (status.rewrite_count, status.rewrite_failure) == (1, None)
    assert status.size_bytes == sum(map(disk.size_bytes, disk.names()))
    assert [event for event, _ in run.events] == ["rewrite begins", "rewrite done"]
    assert length(recovery.load(disk).keyspace) == 6


@in_virtual_time
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


@in_virtual_time
async def test_a_rewrite_of_nothing_new_changes_nothing() -> None:
    disk = MemoryDisk()
    async with running(disk) as run:
        await run.put(CREATE)
        for _ in range(3):
            run.journal.start_rewrite()
            await rewritten(run)
        assert disk.names() == [recovery.journal_name(2), recovery.snapshot_name(1)]
        await run.put(adding(1))
    assert recovery.load(disk).position == 2


@in_virtual_time
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


@in_virtual_time
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


@in_virtual_time
async def test_a_rewrite_that_fails_is_told_and_tried_again_after_ever_longer_pauses() -> None:
    disk = MemoryDisk()
    begun_s: list[float] = []

    async def rewriter(through: int) -> None:
        begun_s.append(now_ms() / 1000)
        raise OSError(errno.EMFILE, f"no rewrite through {through}")

    async with running(disk, growth=Growth(100, 1000), rewriter=rewriter) as run:
        await run.put(CREATE)
        for number in range(1, 600):
            await run.put(adding(number, bytes(100)))
            await asyncio.sleep(0.1)
        status = run.journal.status
        failures = [facts for event, facts in run.events if event == "rewrite failed"]
        assert len(failures) == len(begun_s) == 6
        pauses_s = [after - before for before, after in pairwise(begun_s)]
        assert all(1.8 * short < long for short, long in pairwise(pauses_s))
        assert status.rewrite_failure == failures[-1]["reason"]
        assert "no rewrite through" in failures[-1]["reason"]
        assert (status.rewrite_count, status.failure, status.fault) == (0, None, None)
    assert length(recovery.load(disk).keyspace) == 599


@in_virtual_time
async def test_a_rewrite_that_does_not_fit_gives_back_its_room() -> None:
    disk = MemoryDisk()
    async with running(disk) as run:
        await run.put(CREATE)
        for number in range(1, 60):
            await run.put(adding(number, b"%d" % 7**number * 5))
        used = disk.size_bytes_max - disk.free_bytes()
        disk.size_bytes_max = used + 300
        run.journal.start_rewrite()
        await rewritten(run)
        assert run.journal.status.rewrite_failure is not None
        assert "No space left on device" in run.journal.status.rewrite_failure
        assert disk.size_bytes_max - disk.free_bytes() < used + 100
        await run.put(adding(60))
    assert length(recovery.load(disk).keyspace) == 60


@in_virtual_time
async def test_a_journal_that_ends_does_not_wait_for_a_rewrite() -> None:
    disk = MemoryDisk()
    ended: list[bool] = []

    async def rewriter(through: int) -> None:
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


# Failure


async def put_on(run: Running) -> None:
    """EntriesAdded entries until that fails."""
    while True:
        await run.put(adding(run.journal.position, bytes(100)))
        await asyncio.sleep(0.3)


@pytest.mark.parametrize("policy", [FsyncPolicy.ALWAYS, FsyncPolicy.EVERYSEC])
def test_after_a_failed_sync_nothing_is_taken_and_none_is_tried_again(
    policy: FsyncPolicy,
) -> None:
    @in_virtual_time
    async def test() -> None:
        disk = MemoryDisk()
        async with failing(disk, policy) as run:
            await run.put(CREATE)
            await asyncio.sleep(2 * SYNC_INTERVAL_S)
            disk.sync_failure = OSError(errno.EIO, "Input/output error")
            before = len(disk.synced)
            with pytest.raises(Unavailable, match="Input/output error"):
                await put_on(run)
            assert len(disk.synced) - before == 1
            disk.sync_failure = None  # a second try would say that all is well
            with pytest.raises(Unavailable, match="the journal cannot be written: Input/output"):
                run.journal.append(adding(99))
            with pytest.raises(Unavailable, match="Input/output error"):
                await run.journal.wait_durable(run.journal.durable_position + 1)
            with pytest.raises(Unavailable, match="Input/output error"):
                run.journal.start_rewrite()
            await run.journal.wait_durable(run.journal.durable_position)
            await asyncio.sleep(10 * SYNC_INTERVAL_S)
        assert len(disk.synced) - before == 1
        assert run.journal.status.failure == run.journal.failure
        [(event, facts)] = run.events
        assert (event, facts["reason"]) == ("journal failed", run.journal.failure)

    test()


@in_virtual_time
async def test_everyone_who_waits_is_told_of_a_failure() -> None:
    disk = MemoryDisk(sync_s=SYNC_S)
    async with failing(disk) as run:
        await run.put(CREATE)
        disk.sync_failure = OSError(errno.EIO, "Input/output error")
        waits = [asyncio.create_task(run.put(adding(number))) for number in range(1, 20)]
        await asyncio.sleep(SYNC_S / 2)
        waits += [asyncio.create_task(run.put(adding(number))) for number in range(20, 30)]
        outcomes = await asyncio.gather(*waits, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {Unavailable}


@in_virtual_time
async def test_a_failed_sync_is_followed_by_what_is_durable() -> None:
    disk = MemoryDisk()
    async with failing(disk) as run:
        await run.put(CREATE)
        disk.sync_failure = OSError(errno.EIO, "Input/output error")
        with pytest.raises(Unavailable):
            await run.put(adding(1))
        await settle()
        [durable] = run.went_back
        assert length(durable) == 0
        assert run.journal.position == run.journal.durable_position == 1


@in_virtual_time
async def test_what_cannot_be_read_again_is_tried_until_it_can_be() -> None:
    disk = MemoryDisk()
    async with failing(disk) as run:
        await run.put(CREATE)
        disk.sync_failure = OSError(errno.EIO, "Input/output error")
        disk.faults["open"] = errno.EMFILE
        with pytest.raises(Unavailable):
            await run.put(adding(1))
        await asyncio.sleep(10)
        assert [event for event, _ in run.events] == ["journal failed", "journal cannot be read"]
        with pytest.raises(Unavailable):  # it never was promised
            await run.journal.wait_durable(2)
        disk.faults.clear()
        await asyncio.sleep(PAUSE_S_MAX)
        assert len(run.went_back) == 1


# What ends by itself


@pytest.mark.parametrize("policy", list(FsyncPolicy))
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EINTR])
def test_a_write_that_does_not_work_for_a_moment_is_tried_again(
    number: int, policy: FsyncPolicy
) -> None:
    @in_virtual_time
    async def test() -> None:
        disk = MemoryDisk()
        async with running(disk, policy) as run:
            await run.put(CREATE)
            disk.faults["append"] = number
            putting = [asyncio.create_task(run.put(adding(value))) for value in (1, 2, 3)]
            await asyncio.sleep(PATIENCE_S / 2)
            assert not any(task.done() for task in putting)
            with pytest.raises(Unavailable, match=os.strerror(number)):
                run.journal.append(adding(9))
            assert run.journal.refusal == run.journal.status.fault
            assert run.journal.failure is None
            disk.faults.clear()
            await asyncio.gather(*putting)
            assert run.journal.refusal is None
            await run.put(adding(4))
            assert run.went_back == []
            events = [event for event, _ in run.events]
            assert events == ["journal not written for now", "journal written again"]
        assert length(recovery.load(disk).keyspace) == 4

    test()


@in_virtual_time
async def test_what_the_disk_does_not_take_for_long_is_given_up_and_then_all_goes_on() -> None:
    disk = MemoryDisk()
    async with running(disk) as run:
        await run.put(CREATE)
        await run.put(adding(1))
        disk.faults |= {"append": errno.ENOSPC, "truncate": errno.EIO}
        began_ms = now_ms()
        with pytest.raises(Unavailable, match="No space left on device"):
            await run.put(adding(2))
        assert PATIENCE_S * 1000 <= now_ms() - began_ms <= (PATIENCE_S + PAUSE_S_MAX) * 1000
        await settle()
        assert [length(keyspace) for keyspace in run.went_back] == [1]
        assert run.journal.position == run.journal.durable_position == 2
        await run.journal.wait_durable(2)
        await asyncio.sleep(100)
        assert run.journal.refusal is not None
        disk.faults.clear()
        await asyncio.sleep(PAUSE_S_MAX)
        assert run.journal.refusal is None
        await run.put(adding(3))
    loaded = recovery.load(disk).keyspace
    assert [entry.id.ms for entry in loaded.streams[b"s"].log.range(MIN_ID, MAX_ID)] == [1, 3]


@in_virtual_time
async def test_a_fault_that_lasts_until_the_end_is_a_failure_then() -> None:
    disk = MemoryDisk()
    async with failing(disk) as run:
        await run.put(CREATE)
        disk.faults["append"] = errno.EIO
        putting = asyncio.create_task(run.put(adding(1)))
        await asyncio.sleep(0.5)
        closing = asyncio.create_task(run.journal.close())
        with pytest.raises(Unavailable, match="Input/output error"):
            await putting
        await closing
    disk.faults.clear()
    assert recovery.recover(disk).position == 1


@pytest.mark.parametrize("call", ["append", "names", "rename"])
def test_a_journal_that_cannot_begin_does_so_as_soon_as_it_can(call: str) -> None:
    @in_virtual_time
    async def test() -> None:
        disk = MemoryDisk(
            {recovery.journal_name(1): begun(), "journal-00000000000000000001.new": b""}
        )
        journal = Running(disk)
        disk.faults[call] = errno.ENOSPC
        run = asyncio.create_task(journal.journal.run(journal.go_back))
        await asyncio.sleep(60)
        assert journal.journal.refusal == "the journal cannot be written: No space left on device"
        with pytest.raises(Unavailable, match="No space left on device"):
            journal.journal.append(CREATE)
        await journal.journal.wait_durable(0)
        disk.faults.clear()
        await asyncio.sleep(PAUSE_S_MAX)
        await journal.put(CREATE)
        await journal.journal.close()
        await run
        assert recovery.load(disk).position == 1

    test()


def begun() -> bytes:
    return pack_header(Header(Kind.JOURNAL, 1))


@in_virtual_time
async def test_a_segment_that_cannot_begin_is_none_and_the_old_one_goes_on() -> None:
    disk = MemoryDisk()
    async with running(disk) as run:
        await run.put(CREATE)
        disk.faults["rename"] = errno.EMFILE
        run.journal.start_rewrite()
        await rewritten(run)
        await run.put(adding(1))
        assert run.journal.status.rewrite_failure is not None
        assert run.journal.refusal is None
        disk.faults.clear()
        run.journal.start_rewrite()
        await rewritten(run)
        await run.put(adding(2))
    assert disk.names() == [recovery.journal_name(3), recovery.snapshot_name(2)]
    assert length(recovery.load(disk).keyspace) == 2


# Room

DELETE: list[Command] = [EntriesDeleted(b"s", [EntryId(1, 0)])]


@in_virtual_time
async def test_a_journal_that_is_as_large_as_it_may_be_takes_only_what_makes_room() -> None:
    disk = MemoryDisk()
    async with running(disk, growth=Growth(0), bounds=DiskBounds(size_bytes_max=3000)) as run:
        await run.put(CREATE)
        with pytest.raises(Unavailable, match=r"the journal is full: it has 3\d* bytes"):
            await put_on(run)
        await rewritten(run)  # it makes room, as much is alike
        await asyncio.sleep(LOOK_INTERVAL_S)
        await run.put(adding(run.journal.position, b"%d" % 7**4500))
        with pytest.raises(Unavailable, match="the journal is full"):
            run.journal.append(adding(run.journal.position))
        await run.put(DELETE)
        await run.put([StreamDeleted(b"s")])
        await asyncio.sleep(60)
        assert run.journal.refusal is None
        await run.put(CREATE)
        events = [event for event, _ in run.events if "room" in event]
        assert events == ["room is short", "there is room again"] * 2
    assert list(recovery.load(disk).keyspace.streams) == [b"s"]


@in_virtual_time
async def test_a_disk_that_is_full_takes_what_makes_room_out_of_its_reserve() -> None:
    disk = MemoryDisk()
    bounds = DiskBounds(free_bytes_min=4000)
    async with running(disk, growth=Growth(0), bounds=bounds, rewriter=no_rewriter) as run:
        await run.put([*CREATE, GroupCreated(b"s", b"g", MIN_ID, 0)])
        await run.put(adding(1))
        assert disk.reserved_bytes == 2000
        disk.size_bytes_max = disk.size_bytes_max - disk.free_bytes() + 2000  # by somebody else
        await run.put(adding(2, bytes(1000)))  # nobody has looked yet
        assert disk.reserved_bytes == 0
        with pytest.raises(Unavailable, match="the disk is full: No space left on device"):
            run.journal.append(adding(3))
        await run.put(DELETE)
        await asyncio.sleep(LOOK_INTERVAL_S)
        with pytest.raises(Unavailable, match=r"the disk is full: \d+ bytes are free, and 4000"):
            run.journal.append(adding(3))
        await run.put([EntriesAcked(b"s", b"g", [])])
        disk.size_bytes_max += 10_000
        await asyncio.sleep(LOOK_INTERVAL_S)
        await run.put(adding(3))
        assert disk.reserved_bytes == 2000
        assert run.went_back == []
        events = [event for event, _ in run.events if "room" in event]
        assert events == ["room is short", "there is room again"]
    assert recovery.load(disk).position == 6


async def no_rewriter(through: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


# Together with the engine


@in_virtual_time
async def test_after_a_failure_the_engine_knows_what_was_durable_and_nothing_else() -> None:
    disk, clock = MemoryDisk(sync_s=SYNC_S), ManualClock()
    engine = Engine(Running(disk).journal, clock=clock)
    run = asyncio.create_task(engine.run())
    workload = Workload(engine, clock, 1)
    await workload.begin()
    await workload.run(300)
    expected = recovery.load(disk.copy()).keyspace
    disk.faults["append"] = errno.EIO
    while engine.refusal is None:
        await workload.step()
    await asyncio.sleep(PATIENCE_S + PAUSE_S_MAX)
    assert list(engine.keyspace.streams) == list(expected.streams)
    for name, stream in expected.streams.items():
        assert list(engine.keyspace.streams[name].log.dump()) == list(stream.log.dump())
    await engine.close()
    await run
