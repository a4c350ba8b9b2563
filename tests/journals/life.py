"""Life: an engine on a disk in memory, whose rewrites end when they may."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from headgate.engine.engine import Engine
from headgate.engine.entry import Draft, EntryId
from headgate.engine.journal import recovery
from headgate.engine.journal.journal import Journal
from headgate.engine.journal.rewrites import Growth
from headgate.engine.journal.writer import FsyncPolicy
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.keyspace import ChangeDefaults
from headgate.engine.state.memory import MemoryBounds
from tests.journals.memory_disk import MemoryDisk
from tests.virtual_time import VirtualClock

CHUNK = 10


class Life:
    """An engine on a disk, until its end."""

    def __init__(self, disk: MemoryDisk, memory: MemoryBounds, growth: Growth) -> None:
        loaded = recovery.recover(disk)
        self.disk = disk
        self.events: list[tuple[str, Mapping[str, object]]] = []
        self.may_end = asyncio.Event()  # the rewrite
        self.may_end.set()
        self.journal = Journal(
            disk,
            FsyncPolicy.ALWAYS,
            self._rewrite,
            position=loaded.position,
            growth=growth,
            on_event=lambda event, facts: self.events.append((event, facts)),
        )
        self.engine = Engine(
            self.journal,
            clock=VirtualClock(),
            keyspace=loaded.keyspace,
            memory=memory,
            has_bucket=True,
        )
        self.engine.cold._cached_bytes_max = 0

    async def _rewrite(self, through: int, _: object) -> None:
        recovery.rewrite(self.disk, through, hot_bytes_max=0)
        await self.may_end.wait()

    async def perform(self, request: Any) -> Any:
        return await self.engine.perform(request)

    async def fill(self, count: int, stream: bytes = b"s") -> None:
        await self.perform(ChangeDefaults(node_entries_max=CHUNK))
        for number in range(1, count + 1):
            draft = Draft(EntryId(number, 0), (b"n", b"%d" % number))
            await self.perform(Add(stream, [draft]))

    async def freeze(self) -> None:
        """Rewrite, until all that is sealed is cold."""
        self.journal.start_rewrite()
        await self.journal._rewrites.until_done(10)
        assert self.journal.status.rewrite_failure is None

    async def begin_rewrite(self) -> None:
        """Begin a rewrite, until it has written its files; it ends when it may."""
        self.may_end.clear()
        self.journal.start_rewrite()
        while recovery.last_extent_file(self.disk) == 0:
            await asyncio.sleep(0)

    async def numbers(self, stream: bytes = b"s") -> list[int]:
        return [entry.id.ms for entry in await self.perform(Range(stream))]

    def lines(self, stream: bytes = b"s") -> int:
        return len(self.engine.keyspace.stream(stream).log.extents)


@asynccontextmanager
async def living(
    disk: MemoryDisk,
    memory: MemoryBounds = MemoryBounds(),  # noqa: B008  a value
    growth: Growth = Growth(0),  # noqa: B008
) -> AsyncIterator[Life]:
    life = Life(disk, memory, growth)
    running = asyncio.create_task(life.engine.run())
    await asyncio.sleep(0)
    yield life
    await life.engine.close()
    await running
