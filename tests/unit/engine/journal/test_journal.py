"""The journal as a whole: its end, its next start, and the engine on it."""

import asyncio
import errno

import pytest

from headgate.engine.journal import names, recovery
from headgate.engine.journal.writer import FsyncPolicy
from tests.journals.memory_disk import MemoryDisk
from tests.journals.running_journal import CREATE, Running, adding, length, running

SYNC_S = 0.01


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
