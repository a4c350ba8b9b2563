"""Leading: an engine that leads a bucket, in virtual time, from a test that is no coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from headgate.engine.bucket.attachment import attach
from headgate.engine.bucket.curator import Retention
from headgate.engine.bucket.replication import Replication, ReplicationOptions
from headgate.engine.engine import Engine
from headgate.engine.entry import MAX_ID, MIN_ID, Draft
from headgate.engine.journal import recovery
from headgate.engine.journal.disk import Disk
from headgate.engine.journal.journal import Journal
from headgate.engine.journal.recovery import Loaded
from headgate.engine.journal.rewrites import Growth
from headgate.engine.journal.room import DiskBounds
from headgate.engine.journal.writer import FsyncPolicy
from headgate.engine.requests.entries import Add
from headgate.engine.state.keyspace import Keyspace
from tests.buckets.directory import LocalBucket
from tests.journals.memory_disk import MemoryDisk
from tests.virtual_time import VirtualClock, VirtualLoop

T = TypeVar("T")

STREAM = b"numbers"


def values_of(keyspace: Keyspace) -> list[int]:
    """Return the numbers that were appended."""
    stream = keyspace.find(STREAM)
    entries = [] if stream is None else stream.log.range(MIN_ID, MAX_ID)
    return [int(entry.fields[1]) for entry in entries]


class Leading:
    """A gateway without a face. Without a bucket it is a plain one."""

    def __init__(
        self,
        bucket: LocalBucket | None,
        disk: MemoryDisk,
        *,
        joined_parts: int = 256,
        is_durable: bool = False,
        bounds: DiskBounds = DiskBounds(),  # noqa: B008  a value
    ) -> None:
        self.disk, self._bounds = disk, bounds
        self._bucket, self._joined_parts, self._is_durable = bucket, joined_parts, is_durable
        self._runner = asyncio.Runner(loop_factory=VirtualLoop)
        self._clock = VirtualClock(1_700_000_000_000)
        self._count = 0

    def __enter__(self) -> Self:
        self._do(self._start)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._do(self._end)
        self._runner.close()

    def append(self, count: int, *, is_shipped: bool = True) -> None:
        """Append numbers, each as a record of its own."""

        async def act() -> None:
            for _ in range(count):
                draft = Draft(None, (b"n", b"%d" % self._count))
                self._count += 1
                await self._engine.perform(Add(STREAM, [draft]))
            await asyncio.sleep(1.5 if is_shipped else 0)

        self._do(act)

    def rewrite(self) -> None:
        """Replace the journal by a snapshot, and let it be shipped."""

        async def act() -> None:
            self._journal.start_rewrite()
            while self._journal.status.is_rewriting:
                await asyncio.sleep(0.1)
            await asyncio.sleep(5)

        self._do(act)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._do(lambda: asyncio.sleep(seconds))

    def wall_ms(self) -> int:
        """Return the time of its clock."""

        async def act() -> int:
            return self._clock.wall_ms()

        return self._do(act)

    @property
    def position(self) -> int:
        return self._journal.position

    def do(self, act: Callable[[Engine, Journal], Coroutine[Any, Any, T]]) -> T:
        """Let something happen, and return its result."""
        return self._do(lambda: act(self._engine, self._journal))

    def _do(self, act: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._runner.run(act())

    async def _start(self) -> None:
        disk: Disk = self.disk
        shipping = None
        if self._bucket is None:
            loaded: Loaded = recovery.load_safely(disk)
        else:
            attached = attach(self.disk, self._bucket)
            disk, loaded = attached.disk, attached.loaded
            options = ReplicationOptions(
                is_durable=self._is_durable,
                retention=Retention(86_400_000, joined_parts=self._joined_parts),
            )
            shipping = Replication(
                *(self._bucket, self.disk, attached, self._clock, options),
                holder=f"{attached.marker.writer}@test",
                on_event=lambda event, facts: None,
            )

        async def rewrite(through: int, _: object) -> None:
            recovery.rewrite(disk, through)

        self._journal = Journal(
            disk,
            FsyncPolicy.ALWAYS,
            rewrite,
            position=loaded.position,
            torn=loaded.torn,
            growth=Growth(0),
            bounds=self._bounds,
            shipping=shipping,
        )
        self._count = len(values_of(loaded.keyspace))
        self._engine = Engine(self._journal, keyspace=loaded.keyspace, clock=self._clock)
        self._running = asyncio.create_task(self._engine.run())
        await self._journal.until_open()
        await asyncio.sleep(0.1)

    async def _end(self) -> None:
        await self._engine.close()
        await self._running
