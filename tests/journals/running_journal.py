"""Running journal: on a disk in memory, with what it reports."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headgate.engine.commands import Command, EntriesAdded, StreamCreated
from headgate.engine.config import StreamConfig
from headgate.engine.entry import Entry, EntryId
from headgate.engine.errors import Unavailable
from headgate.engine.journal import recovery
from headgate.engine.journal.journal import Journal
from headgate.engine.journal.rewrites import REDIS_GROWTH, Growth, Rewriter
from headgate.engine.journal.room import DiskBounds
from headgate.engine.journal.writer import FsyncPolicy
from headgate.engine.state.keyspace import Keyspace
from tests.journals.memory_disk import MemoryDisk
from tests.virtual_time import settle

CREATE: list[Command] = [StreamCreated(b"s", 1, StreamConfig())]


def adding(number: int, value: bytes = b"v") -> list[Command]:
    return [EntriesAdded(b"s", [Entry(EntryId(number, 0), (b"f", value))])]


def rewriting(disk: MemoryDisk) -> Rewriter:
    """Return a rewriter like the process of its own, in no time."""

    async def rewrite(through: int, _: object) -> None:
        recovery.rewrite(disk, through)

    return rewrite


class Running:
    """A journal that runs, and what it reports."""

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


async def rewritten(run: Running) -> None:
    """Return once the rewrite that was begun is over."""
    while run.journal.status.is_rewriting:
        await asyncio.sleep(0.001)
