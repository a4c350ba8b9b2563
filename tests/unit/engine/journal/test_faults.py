"""The faults: what the journal does when nothing can be safe, and when it goes on."""

import asyncio
import errno
import os
from itertools import pairwise

import pytest

from headgate.engine.commands import (
    Command,
    EntriesAcked,
    EntriesDeleted,
    GroupCreated,
    StreamDeleted,
)
from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.errors import Unavailable
from headgate.engine.journal import names, recovery
from headgate.engine.journal.faults import PATIENCE_S, PAUSE_S_MAX
from headgate.engine.journal.journal import LOOK_INTERVAL_S
from headgate.engine.journal.records import Header, Kind, pack_header
from headgate.engine.journal.rewrites import Growth
from headgate.engine.journal.room import DiskBounds
from headgate.engine.journal.writer import SYNC_INTERVAL_S, FsyncPolicy
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


async def put_on(run: Running) -> None:
    """EntriesAdded entries until that fails."""
    while True:
        await run.put(adding(run.journal.position, bytes(100)))
        await asyncio.sleep(0.3)


@pytest.mark.parametrize("policy", [FsyncPolicy.ALWAYS, FsyncPolicy.EVERYSEC])
async def test_after_a_failed_sync_nothing_is_taken_or_synced_again(policy: FsyncPolicy) -> None:
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
async def test_a_write_that_fails_for_a_moment_is_tried_again(
    number: int, policy: FsyncPolicy
) -> None:
    disk = MemoryDisk()
    async with running(disk, policy) as run:
        await run.put(CREATE)
        disk.faults["append"] = number
        putting = [asyncio.create_task(run.put(adding(value))) for value in (1, 2, 3)]
        await asyncio.sleep(PATIENCE_S / 2)
        assert not any(task.done() for task in putting)
        for record in (adding(9), DELETE):  # also what takes no room
            with pytest.raises(Unavailable, match=os.strerror(number)):
                run.journal.append(record)
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


async def test_a_fault_is_borne_with_ever_longer_pauses_and_the_next_one_begins_anew() -> None:
    disk, appended_s = MemoryDisk(), list[float]()

    def note(call: str, _: str) -> None:
        if call == "append":
            appended_s.append(now_ms() / 1000)

    disk.on_call = note
    async with running(disk) as run:
        await run.put(CREATE)
        for number in (1, 2):
            await asyncio.sleep(100)
            appended_s.clear()
            disk.faults["append"] = errno.EIO
            with pytest.raises(Unavailable):
                await run.put(adding(number))
            await asyncio.sleep(3)
            pauses_s = [after - before for before, after in pairwise(appended_s)]
            assert pauses_s[:6] == pytest.approx([0.1, 0.2, 0.4, 0.8, PAUSE_S_MAX, PAUSE_S_MAX])
            disk.faults.clear()
            await asyncio.sleep(PAUSE_S_MAX)


@pytest.mark.parametrize("call", ["append", "names", "rename"])
async def test_a_journal_that_cannot_begin_does_so_as_soon_as_it_can(call: str) -> None:
    disk = MemoryDisk({names.journal_name(1): begun(), "journal-00000000000000000001.new": b""})
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


def begun() -> bytes:
    return pack_header(Header(Kind.JOURNAL, 1))


# Room

DELETE: list[Command] = [EntriesDeleted(b"s", [EntryId(1, 0)])]


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


async def no_rewriter(through: int, _: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


async def test_room_that_becomes_scarce_is_known_without_a_look() -> None:
    bounds = DiskBounds(size_bytes_max=1000)
    async with running(MemoryDisk(), growth=Growth(0), bounds=bounds, rewriter=no_rewriter) as run:
        await run.put(CREATE)
        await run.put(adding(1, bytes(900)))
        assert run.journal.refusal is not None
        before_ms, was_scarce = now_ms(), run.journal.is_scarce
        for _ in range(5):
            await run.put(DELETE)
        assert (was_scarce, run.journal.is_scarce) == (False, True)
        assert now_ms() == before_ms
