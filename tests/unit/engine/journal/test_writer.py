"""The writer: when it says that something is safe, it is; and records go down together."""

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TypeVar

import pytest

from headgate.engine.eager import EagerCall
from headgate.engine.errors import Unavailable
from headgate.engine.journal import names, recovery
from headgate.engine.journal.faults import PAUSE_S_MAX
from headgate.engine.journal.rewrites import Growth
from headgate.engine.journal.storage import MemoryStorage, Storage
from headgate.engine.journal.writer import SYNC_INTERVAL_S, SYNC_PATIENCE_S, FsyncPolicy
from headgate.engine.limits import SEGMENT_BYTES_MAX, SERVED_AT_ONCE_MAX
from tests.journals.memory_disk import MemoryDisk
from tests.journals.running_journal import (
    CREATE,
    Running,
    adding,
    failing,
    length,
    rewritten,
    running,
)
from tests.virtual_time import now_ms, settle

T = TypeVar("T")

SYNC_S = 0.01


@pytest.mark.parametrize("policy", list(FsyncPolicy))
async def test_a_policy_says_what_an_answer_waits_for(policy: FsyncPolicy) -> None:
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


# Segments


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
    assert (first, second) == (names.journal_name(1), names.journal_name(6))
    assert length(recovery.load(disk).keyspace) == 6


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
    assert disk.names() == [names.journal_name(3), names.snapshot_name(2)]
    assert length(recovery.load(disk).keyspace) == 2


async def test_a_segment_that_cannot_follow_a_full_one_lets_that_grow_on() -> None:
    disk = MemoryDisk()
    async with running(disk, FsyncPolicy.NO, growth=Growth(0)) as run:
        await run.put(CREATE)
        disk.faults["rename"] = errno.EMFILE
        for number in range(1, 6):
            putting = asyncio.create_task(run.put(adding(number, bytes(SEGMENT_BYTES_MAX // 4))))
            for _ in range(100):  # without an end to wait for, if it is tried again and again
                await asyncio.sleep(0)
            assert putting.done()
        assert [event for event, _ in run.events] == ["segment not begun"]
    assert disk.names() == [names.journal_name(1)]


async def test_a_file_that_may_not_be_larger_is_followed_by_another() -> None:
    disk = MemoryDisk()
    async with running(disk) as run:
        await run.put(CREATE)
        disk.faults["append"] = errno.EFBIG
        putting = asyncio.create_task(run.put(adding(1)))
        await settle()
        disk.faults.clear()
        await putting
    assert disk.names() == [names.journal_name(1), names.journal_name(2)]
    assert length(recovery.load(disk).keyspace) == 1


async def test_a_block_that_tries_the_disk_is_safe_under_every_policy() -> None:
    disk = MemoryDisk()
    async with running(disk, FsyncPolicy.NO) as run:
        await run.put(CREATE)
        disk.faults["append"] = errno.EIO
        with pytest.raises(Unavailable):
            await run.put(adding(1))
        disk.faults.clear()
        await asyncio.sleep(2 * PAUSE_S_MAX)
        [segment] = disk.names()
        before = disk.size_bytes(segment)
        disk.lose_power()
        assert disk.size_bytes(segment) == before


class SlowDisk(MemoryDisk):
    """A disk that takes a second before it does anything."""

    async def in_thread(self, act: Callable[[], T]) -> T:
        await asyncio.sleep(1)
        return await super().in_thread(act)


async def test_what_was_given_up_during_a_write_that_fails_is_not_written_later() -> None:
    disk = SlowDisk()
    async with failing(disk) as run:
        await asyncio.sleep(10)
        await run.put(CREATE)
        putting = asyncio.create_task(run.put(adding(1)))
        await asyncio.sleep(0.5)
        run.journal.abandon("the state is not what the records lead to")
        disk.faults["append"] = errno.EIO
        with pytest.raises(Unavailable, match="the state is not"):
            await putting
        await asyncio.sleep(1)
        disk.faults.clear()
        await asyncio.sleep(10)
        closing = asyncio.create_task(run.journal.close())
    await closing
    assert recovery.recover(disk).position == 1


async def test_those_who_wait_for_one_sync_are_told_in_turns() -> None:
    async with running(MemoryDisk(sync_s=SYNC_S)) as run:
        position = run.journal.append(CREATE)
        waits = [asyncio.create_task(run.journal.wait_durable(position)) for _ in range(350)]
        await waits[0]
        assert sum(wait.done() for wait in waits) == SERVED_AT_ONCE_MAX
        await asyncio.gather(*waits)


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


async def test_a_block_takes_what_is_waiting_up_to_a_size() -> None:
    disk = MemoryDisk()
    async with running(disk) as run:
        await run.put(CREATE)
        before = len(disk.appended)
        await asyncio.gather(*(run.put(adding(number, bytes(2**20))) for number in range(1, 13)))
        assert len(disk.appended) - before == 3


async def test_a_journal_goes_on_where_it_ended() -> None:
    disk = MemoryDisk()
    for number in range(5):
        async with running(disk) as run:
            assert run.journal.position == number
            await run.put(adding(number) if number else CREATE)
        async with running(disk):
            pass  # a start that records nothing leaves no segment behind
    assert disk.names() == [names.journal_name(number) for number in range(1, 7)]
    assert length(recovery.load(disk).keyspace) == 4


@pytest.mark.parametrize("policy", list(FsyncPolicy))
async def test_what_a_killed_process_wrote_is_safe_before_it_is_built_on(
    policy: FsyncPolicy,
) -> None:
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


@pytest.fixture(params=["memory", "journal"])
async def storage(request: pytest.FixtureRequest) -> AsyncIterator[Storage]:
    is_journal = request.param == "journal"
    opened: Storage = Running(MemoryDisk()).journal if is_journal else MemoryStorage()
    running = asyncio.create_task(opened.run(lambda keyspace: None))
    await asyncio.sleep(0)
    yield opened
    await opened.close()
    with suppress(Unavailable):  # a storage that was abandoned says so
        await running


async def test_parts_are_one_record_taken_once_and_no_parts_are_none(storage: Storage) -> None:
    storage.stage([])
    storage.append_staged()
    assert storage.position == 0
    storage.stage(CREATE)
    storage.stage(adding(1))
    for _ in range(2):
        storage.append_staged()
        assert storage.position == 1


async def test_nothing_is_taken_once_abandoned_and_a_part_of_nothing_is_fine(
    storage: Storage,
) -> None:
    storage.stage(CREATE)
    storage.abandon("the end")
    with pytest.raises(Unavailable, match="the end"):
        storage.stage(adding(1))
    storage.stage([])
    storage.append_staged()
    assert storage.position == 0
