"""Storage: a record that is taken part by part is one record, in memory and on disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from headgate.engine.commands import (
    BatchCommitted,
    Command,
    EntriesAdded,
    StreamCreated,
    StreamDeleted,
    decode,
)
from headgate.engine.config import StreamConfig
from headgate.engine.entry import MAX_ID, MIN_ID, Entry, EntryId
from headgate.engine.errors import Unavailable
from headgate.engine.journal import recovery
from headgate.engine.journal.journal import Journal
from headgate.engine.journal.storage import MemoryStorage, Storage
from headgate.engine.journal.writer import FsyncPolicy
from headgate.engine.state.keyspace import Keyspace
from tests.journals.memory_disk import MemoryDisk

CREATE: list[Command] = [StreamCreated(b"s", 1, StreamConfig())]
DELETE: list[Command] = [StreamDeleted(b"s")]
UNWRITABLE = BatchCommitted(b"w", 2**64, 1)
"""No such number can be written down."""


def adding(number: int) -> list[Command]:
    return [EntriesAdded(b"s", [Entry(EntryId(number, 0), (b"f", b"v"))])]


async def no_rewrite(through: int, _: object) -> None:
    raise AssertionError(f"nobody asked for a rewrite through {through}")


class Kept:
    """A storage that runs, and what is kept by it."""

    def __init__(self, kind: str) -> None:
        self._disk = MemoryDisk()
        self._memory = MemoryStorage()
        self.storage: Storage = self._memory
        if kind == "journal":
            self.storage = Journal(self._disk, FsyncPolicy.ALWAYS, no_rewrite)

    async def recovered(self) -> Keyspace:
        """Return the state after a start."""
        if self.storage is not self._memory:
            await self.storage.wait_durable(self.storage.position)
            return recovery.recover(self._disk.copy()).keyspace
        keyspace = Keyspace()
        for record in self._memory.records:
            for command in decode(record):
                keyspace.apply(command)
        return keyspace

    async def numbers(self) -> list[int]:
        """Return the numbers of the entries that are there after a start."""
        stream = (await self.recovered()).find(b"s")
        entries = [] if stream is None else stream.log.range(MIN_ID, MAX_ID)
        return [entry.id.ms for entry in entries]


@pytest.fixture(params=["memory", "journal"])
async def kept(request: pytest.FixtureRequest) -> AsyncIterator[Kept]:
    """Run a storage."""
    opened = Kept(request.param)
    running = asyncio.create_task(opened.storage.run(lambda keyspace: None))
    await asyncio.sleep(0)
    yield opened
    await opened.storage.close()
    with suppress(Unavailable):  # a storage that was abandoned says so
        await running


async def test_what_is_staged_is_one_record_behind_all_others(kept: Kept) -> None:
    storage = kept.storage
    storage.append(CREATE)
    storage.stage([*adding(1), *adding(2)])
    storage.stage(adding(3))
    assert storage.position == 1
    storage.append_staged()
    assert storage.position == 2
    storage.append(adding(4))
    assert await kept.numbers() == [1, 2, 3, 4]


async def test_a_staged_record_is_the_record_of_its_commands_in_order() -> None:
    staged, whole = MemoryStorage(), MemoryStorage()
    staged.stage(CREATE)
    staged.stage([*adding(1), *adding(2)])
    staged.append_staged()
    whole.append([*CREATE, *adding(1), *adding(2)])
    assert [decode(record) for record in staged.records] == [
        decode(record) for record in whole.records
    ]


async def test_nothing_staged_makes_no_record(kept: Kept) -> None:
    storage = kept.storage
    storage.append_staged()
    storage.stage([])
    storage.append_staged()
    assert storage.position == 0
    assert not (await kept.recovered()).streams


async def test_a_staged_record_is_taken_once(kept: Kept) -> None:
    storage = kept.storage
    storage.stage([*CREATE, *adding(1)])
    storage.append_staged()
    storage.append_staged()
    assert storage.position == 1
    assert await kept.numbers() == [1]


async def test_a_part_that_cannot_be_written_down_leaves_those_before_it(kept: Kept) -> None:
    storage = kept.storage
    storage.stage(CREATE)
    storage.stage(adding(1))
    with pytest.raises(OverflowError):
        storage.stage([*DELETE, UNWRITABLE])
    storage.append_staged()
    assert storage.position == 1
    assert await kept.numbers() == [1]


async def test_once_nothing_is_taken_any_more_a_part_that_changes_nothing_is_no_mistake(
    kept: Kept,
) -> None:
    storage = kept.storage
    storage.abandon("the end")
    with pytest.raises(Unavailable, match="the end"):
        storage.stage(CREATE)
    storage.stage([])
    storage.append_staged()
    assert storage.position == 0


async def test_what_was_staged_before_the_end_is_never_taken(kept: Kept) -> None:
    storage = kept.storage
    storage.stage(CREATE)
    storage.abandon("the end")
    storage.append_staged()
    assert storage.position == 0
