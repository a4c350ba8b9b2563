"""Journal: every record on disk, in segments that are only ever appended to.

Records that arrive while the disk is busy go down together in the next block, so one fsync serves
every request in flight (group commit). A disk that fails once is never trusted again: what was
promised stays promised, and nothing more is.

A *rewrite* replaces history by a snapshot. The journal goes on in a new segment; the segments
before it, which nobody touches any more, are read and written down as a snapshot by somebody else
(`Rewriter`), so no request waits for it. Once the snapshot is in place they go.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from random import Random, SystemRandom
from typing import NamedTuple

from engine import blocks, commands, recovery
from engine.commands import Command
from engine.disk import Disk
from engine.errors import Corrupt, Unavailable
from engine.keyspace import Keyspace
from engine.limits import BLOCK_BYTES_MAX, SEGMENT_BYTES_MAX, SERVED_AT_ONCE_MAX
from engine.recovery import journal_name
from engine.replies import JournalStatus

SYNC_INTERVAL_S = 1.0
"""How often `everysec` forces to disk what was written."""

SYNC_PATIENCE_S = 2.0
"""How long writes go on beside a sync that does not end (Redis: the same)."""

_CLOSED = "the journal is closed"


class FsyncPolicy(StrEnum):
    """When what was written is forced to disk; the names and their meaning are Redis's."""

    ALWAYS = "always"  # before it is answered: nothing answered is ever lost
    EVERYSEC = "everysec"  # once a second: the machine's crash may take a second or two
    NO = "no"  # when the system likes


class Growth(NamedTuple):
    """When a rewrite starts by itself (Redis: auto-aof-rewrite-percentage, -min-size)."""

    percentage: int = 100  # by how much the files have grown since the last one; 0: never
    size_bytes_min: int = 64 * 2**20  # smaller files are left alone


REDIS_GROWTH = Growth()


Rewriter = Callable[[int], Awaitable[None]]
"""Writes the snapshot of everything up to a position, from files nobody touches any more."""

Tell = Callable[[str, Mapping[str, object]], None]
"""Told what happened, for the log."""


class Journal:
    """Keeps records on a disk. It is a `Storage`."""

    def __init__(
        self,
        disk: Disk,
        policy: FsyncPolicy,
        rewriter: Rewriter,
        *,
        position: int = 0,
        growth: Growth = REDIS_GROWTH,
        chance: Random | None = None,
        tell: Tell = lambda event, facts: None,  # noqa: ARG005
    ) -> None:
        """Go on behind what was recovered.

        Args:
            disk: where the files are; nobody else writes there.
            policy: when what is written is forced to disk.
            rewriter: who writes snapshots.
            position: of the last record recovered.
            growth: when a rewrite starts by itself.
            chance: where the salts of segments come from; the system's unless given.
            tell: told what happens.
        """
        self.position = position
        self.durable_position = position
        self._disk = disk
        self._policy = policy
        self._rewriter = rewriter
        self._growth = growth
        self._tell = tell
        self._synced = position  # nothing takes this away any more, whatever the policy
        self._records: list[bytes] = []  # appended and not yet written
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._is_settling = False  # some of those who wait are told in the next turn
        self._wake = asyncio.Event()
        self._is_closing = False
        self._is_closed = asyncio.Event()
        self._failure: str | None = None
        self._random = chance or SystemRandom()
        self._header = blocks.Header(blocks.Kind.JOURNAL, 0)
        self._segment = ""
        self._segment_bytes = 0
        self._own_bytes: dict[str, int] = {}  # by segment that this journal has begun
        self._size_bytes = sum(map(disk.size_bytes, recovery.names_in_use(disk)))
        self._base_bytes = self._size_bytes  # after the last rewrite
        self._rotation: asyncio.Future[int] | None = None  # asked for, with what it will close
        self._sync_began_s: float | None = None
        self._sync_ended = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None  # while `run` lasts
        self._rewriting: asyncio.Task[None] | None = None
        self._rewrite_count = 0
        self._rewrite_failure: str | None = None

    @property
    def failure(self) -> str | None:
        """Return why nothing is taken any more, None if all is well."""
        return self._failure or (_CLOSED if self._is_closed.is_set() else None)

    @property
    def status(self) -> JournalStatus:
        """Return how things are."""
        return JournalStatus(
            self.position,
            self.durable_position,
            self._size_bytes,
            self._failure,
            self._is_rewriting(),
            self._rewrite_count,
            self._rewrite_failure,
        )

    def append(self, record: list[Command]) -> int:
        """Take a record behind all others; returns its position.

        Raises:
            Unavailable: the disk has failed, or the journal is closed.
        """
        if self.failure is not None:
            raise Unavailable(self.failure)
        self._records.append(commands.encode(record))
        self.position += 1
        self._wake.set()
        return self.position

    def check(self, record: list[Command]) -> None:
        """Raise `Unavailable` unless a record would be taken."""
        if record and self.failure is not None:
            raise Unavailable(self.failure)

    def abandon(self, reason: str) -> None:
        """Take nothing any more, and write nothing of what is not being written."""
        self._failure = reason
        self._tell("journal abandoned", {"reason": reason, "position": self.durable_position})
        self._give_up()

    async def wait_durable(self, position: int) -> None:
        """Return once everything up to `position` is as safe as the policy asks.

        Raises:
            Unavailable: the disk has failed, and it never will be.
        """
        if position <= self.durable_position:
            return
        if self._failure is not None:
            raise Unavailable(self._failure)
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append((position, waiting))
        await waiting

    async def run(self) -> None:
        """Write what is appended, until closed.

        Raises:
            Unavailable: the disk has failed; nothing is taken any more.
        """
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await self._open_segment()
                syncing = self._tasks.create_task(self._keep_syncing())
                await self._keep_writing()
                syncing.cancel()
                if self._rewriting is not None:
                    self._rewriting.cancel()
        except* OSError as errors:
            self._fail(errors.exceptions[0])
        finally:
            self._tasks = None
            self._is_closed.set()
        if self._failure is not None:
            raise Unavailable(self._failure)

    async def close(self) -> None:
        """Write what is left, force it to disk whatever the policy, end `run`, and let go."""
        self._is_closing = True
        self._wake.set()
        await self._is_closed.wait()
        await self._disk.wait_idle()
        self._disk.close()

    async def recall(self) -> Keyspace | None:
        """Return what is durable, after a failure; None if the disk cannot even be read.

        What came behind it is given up: it was promised to nobody.
        """
        durable = self.durable_position
        try:
            loaded = await self._disk.aside(lambda: recovery.load(self._disk, through=durable))
        except (OSError, Corrupt) as error:
            self._tell("journal cannot be read", {"reason": _words(error)})
            return None
        self.position = durable
        return loaded.keyspace

    def start_rewrite(self) -> bool:
        """Begin to replace history by a snapshot; false if one is being made already.

        Raises:
            Unavailable: the disk has failed, or is not written to.
        """
        if self._failure is not None or self._tasks is None or self._is_closing:
            raise Unavailable(self._failure or _CLOSED)
        if self._is_rewriting():
            return False
        self._rewriting = self._tasks.create_task(self._rewrite())
        return True

    async def _rewrite(self) -> None:
        self._tell("rewrite begins", {"size_bytes": self._size_bytes})
        self._rewrite_failure = None
        try:
            await self._replace_history()
        except (OSError, Corrupt) as error:
            with suppress(OSError):  # the room it took is needed
                await self._disk.aside(lambda: recovery.remove_unfinished(self._disk))
            self._rewrite_failure = str(error)
            self._tell("rewrite failed", {"reason": str(error)})
        finally:
            self._base_bytes = self._size_bytes  # a failed one is tried again after as much growth

    async def _replace_history(self) -> None:
        self._rotation = asyncio.get_running_loop().create_future()
        self._wake.set()
        through = await self._rotation
        await self._rewriter(through)
        found = await self._disk.aside(lambda: recovery.clean(self._disk))
        # Since it looked, segments may have grown, and others begun.
        first = journal_name(through + 1)
        self._own_bytes = {name: size for name, size in self._own_bytes.items() if name >= first}
        self._size_bytes = sum((found | self._own_bytes).values())
        self._rewrite_count += 1
        self._tell("rewrite done", {"size_bytes": self._size_bytes, "position": through})

    async def _keep_writing(self) -> None:
        while True:
            if self._rotation is not None or self._segment_bytes >= SEGMENT_BYTES_MAX:
                await self._rotate()
            elif self._records:
                await self._write()
                if self._has_grown():
                    self.start_rewrite()
            elif self._is_closing:
                await self._sync()
                if not self._records:  # or else some came meanwhile
                    return
            else:
                self._wake.clear()
                await self._wake.wait()

    async def _write(self) -> None:
        """Write one block of what is waiting."""
        if self._sync_lasts_too_long():
            await self._sync_ended.wait()
        records = self._take()
        last = self.durable_position + len(records)
        payload = commands.join(records)
        data = blocks.pack_block(self._header, self.durable_position + 1, self._synced, payload)
        is_forced = self._policy is FsyncPolicy.ALWAYS
        segment = self._segment

        def put() -> None:
            self._disk.append(segment, data)
            if is_forced:
                self._disk.sync(segment)

        await self._disk.aside(put)
        self._note_growth(len(data))
        if is_forced:
            self._synced = last
        self._settle(last)

    def _take(self) -> Sequence[bytes]:
        """Take what goes into one block from what is waiting: at least one record."""
        size_bytes = 0
        for count, record in enumerate(self._records, 1):
            size_bytes += len(record)
            if size_bytes >= BLOCK_BYTES_MAX:
                taken, self._records = self._records[:count], self._records[count:]
                return taken
        taken, self._records = self._records, []
        return taken

    def _settle(self, position: int) -> None:
        """Tell everyone who waits for a position up to this one."""
        self.durable_position = position
        if not self._is_settling:
            self._settle_some()

    def _settle_some(self) -> None:
        """Tell so many of those who wait, and the others in the next turns of the loop."""
        waiting, told = self._waiting, 0
        while waiting and waiting[0][0] <= self.durable_position and told < SERVED_AT_ONCE_MAX:
            future = waiting.popleft()[1]
            if not future.done():
                future.set_result(None)
                told += 1
        self._is_settling = told == SERVED_AT_ONCE_MAX
        if self._is_settling:
            asyncio.get_running_loop().call_soon(self._settle_some)

    def _fail(self, error: Exception) -> None:
        self._failure = f"the journal cannot be written: {_words(error)}"
        self._tell("journal failed", {"reason": self._failure, "position": self.durable_position})
        self._give_up()

    def _give_up(self) -> None:
        """Let go of what is not written, and tell who waits for it."""
        assert self._failure is not None
        self._records.clear()
        for position, future in self._waiting:
            if not future.done() and position <= self.durable_position:
                future.set_result(None)  # it was safe, and had not been told yet
            elif not future.done():
                future.set_exception(Unavailable(self._failure))
        self._waiting.clear()

    async def _rotate(self) -> None:
        """Close the segment and go on in a new one."""
        await self._sync()  # a segment that is followed by another is safe as a whole
        if self._segment_bytes > blocks.HEADER_BYTES:
            await self._open_segment()
        rotation, self._rotation = self._rotation, None
        if rotation is not None and not rotation.done():
            rotation.set_result(self.durable_position)

    async def _open_segment(self) -> None:
        segment = journal_name(self.durable_position + 1)
        salt = self._random.getrandbits(64)
        self._header = blocks.Header(blocks.Kind.JOURNAL, self.durable_position + 1, salt)
        data = blocks.pack_header(self._header)

        def make() -> None:
            if segment in self._disk.names():  # of a start that recorded nothing
                self._disk.truncate(segment, 0)
            self._disk.append(segment, data)
            self._disk.sync(segment)
            self._disk.sync_names()

        await self._disk.aside(make)
        self._segment = segment
        self._segment_bytes = 0
        self._note_growth(len(data))

    def _note_growth(self, size_bytes: int) -> None:
        self._segment_bytes += size_bytes
        self._own_bytes[self._segment] = self._segment_bytes
        self._size_bytes += size_bytes

    async def _keep_syncing(self) -> None:
        while self._policy is FsyncPolicy.EVERYSEC:
            await asyncio.sleep(SYNC_INTERVAL_S)
            await self._sync()

    async def _sync(self) -> None:
        """Force to disk what was written."""
        while self._sync_began_s is not None:
            await self._sync_ended.wait()
        position, segment = self.durable_position, self._segment
        if position == self._synced:
            return
        self._sync_began_s = asyncio.get_running_loop().time()
        self._sync_ended.clear()
        await self._disk.aside(lambda: self._disk.sync(segment))
        # Had it failed, whoever waits for its end would do so until all is over: nothing is tried
        # again, and nothing is written behind what may be lost.
        self._sync_began_s = None
        self._sync_ended.set()
        self._synced = max(self._synced, position)

    def _sync_lasts_too_long(self) -> bool:
        if self._sync_began_s is None:
            return False
        return asyncio.get_running_loop().time() - self._sync_began_s > SYNC_PATIENCE_S

    def _is_rewriting(self) -> bool:
        return self._rewriting is not None and not self._rewriting.done()

    def _has_grown(self) -> bool:
        growth, base_bytes = self._growth, max(self._base_bytes, 1)
        if self._is_rewriting() or not growth.percentage or self._is_closing:
            return False
        percentage = self._size_bytes * 100 // base_bytes - 100
        return self._size_bytes >= growth.size_bytes_min and percentage >= growth.percentage


def _words(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
