"""The records: they go down together, and those who wait for them hear it in turns."""

import asyncio

from headgate.engine.eager import EagerCall
from headgate.engine.journal import recovery
from headgate.engine.limits import SERVED_AT_ONCE_MAX
from tests.journals.memory_disk import MemoryDisk
from tests.journals.running_journal import CREATE, adding, length, running
from tests.virtual_time import now_ms, settle

SYNC_S = 0.01


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
