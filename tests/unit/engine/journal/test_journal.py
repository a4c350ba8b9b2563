"""The journal as a whole: its end, its next start, and the engine on it."""

import asyncio
import errno

import pytest

from headgate.engine.engine import Engine
from headgate.engine.journal import names, recovery
from headgate.engine.journal.faults import PATIENCE_S, PAUSE_S_MAX
from headgate.engine.journal.writer import FsyncPolicy
from tests.journals.memory_disk import MemoryDisk
from tests.journals.running_journal import CREATE, Running, adding, length, running
from tests.journals.workload import Workload
from tests.virtual_time import ManualClock

SYNC_S = 0.01


@pytest.mark.parametrize("policy", list(FsyncPolicy))
async def test_what_nobody_waits_for_is_written_and_forced_to_disk_at_the_end(
    policy: FsyncPolicy,
) -> None:
    disk = MemoryDisk(sync_s=SYNC_S)
    async with running(disk, policy) as run:
        run.journal.append(CREATE)
        run.journal.append(adding(1))
        segment = disk.names()[-1]
        before = len(disk.synced)
    assert disk.synced[before:] == [segment]
    assert recovery.load(disk).position == 2
    assert disk.is_closed


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
async def test_what_a_killed_process_wrote_is_safe_before_anything_is_built_on_it(
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


# Together with the engine


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
