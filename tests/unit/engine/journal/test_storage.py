"""Storage: what is taken part by part is one record, in memory and on disk."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from headgate.engine.errors import Unavailable
from headgate.engine.journal.storage import MemoryStorage, Storage
from tests.journals.memory_disk import MemoryDisk
from tests.journals.running_journal import CREATE, Running, adding


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


async def test_parts_are_one_record_that_is_taken_once_and_no_parts_are_none(
    storage: Storage,
) -> None:
    storage.stage([])
    storage.append_staged()
    assert storage.position == 0
    storage.stage(CREATE)
    storage.stage(adding(1))
    for _ in range(2):
        storage.append_staged()
        assert storage.position == 1


async def test_nothing_is_taken_once_it_is_abandoned_and_a_part_without_changes_is_no_mistake(
    storage: Storage,
) -> None:
    storage.stage(CREATE)
    storage.abandon("the end")
    with pytest.raises(Unavailable, match="the end"):
        storage.stage(adding(1))
    storage.stage([])
    storage.append_staged()
    assert storage.position == 0
