"""Writer: writes the records as blocks to segments, and syncs them as the policy asks.

The last segment grows. The others are closed: nothing is written to them any more.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple, Protocol

from headgate.engine import commands
from headgate.engine.buckets import COUNTS, SECONDS, Buckets
from headgate.engine.errors import Unavailable
from headgate.engine.journal import records as blocks
from headgate.engine.journal import recovery
from headgate.engine.journal.disk import Disk, SyncError
from headgate.engine.journal.faults import Faults, OnEvent, words
from headgate.engine.journal.names import UNFINISHED, is_extents, journal_name
from headgate.engine.journal.records import Records
from headgate.engine.journal.recovery import Torn
from headgate.engine.journal.storage import GoBack, Holder
from headgate.engine.limits import SEGMENT_BYTES_MAX
from headgate.engine.replies import BucketStatus


class Shipping(Protocol):
    """Takes the records of a journal to another place, once it may write at all."""

    leads: asyncio.Event
    """It may write."""

    @property
    def held(self) -> AbstractSet[str]:
        """Return the names of files that stay until they are there."""
        ...

    @property
    def withheld(self) -> Unavailable | None:
        """Return why nothing may be read; None if it may."""
        ...

    @property
    def status(self) -> BucketStatus: ...

    def note_writing(self) -> None: ...

    def note_written(self, segment: str, end: int, position: int) -> None:
        """Note that a segment has bytes up to a place, with a last record before it."""
        ...

    def note_snapshot(self, position: int) -> None: ...

    async def begin(self, records: Records, faults: Faults, holder: Holder) -> bool:
        """Wait until the journal may write; false if closed before; Unavailable, Corrupt."""
        ...

    async def run(self, faults: Faults, go_back: GoBack) -> None:
        """Take there what is written, until `end`; LeaseLost if somebody else may write now."""
        ...

    def end(self) -> None: ...

    async def release(self) -> None: ...


SYNC_INTERVAL_S = 1.0
"""Interval between syncs under `everysec`."""

SYNC_PATIENCE_S = 2.0
"""Time that writes go on beside a sync that does not end (Redis: the same)."""


class FsyncPolicy(StrEnum):
    """The policy of syncs to disk; the names and their meaning are Redis's."""

    ALWAYS = "always"  # before it is answered: nothing answered is ever lost
    EVERYSEC = "everysec"  # once a second: the machine's crash may take a second or two
    NO = "no"  # when the system likes


class Closed(NamedTuple):
    position: int  # of the last one
    change_count: int
    replay_us: int


class Writer:
    def __init__(
        self,
        disk: Disk,
        policy: FsyncPolicy,
        records: Records,
        faults: Faults,
        *,
        torn: Torn | None,
        salt: Callable[[], int],
        counts: Callable[[], tuple[int, int]],  # changes and replay_us of all records so far
        on_event: OnEvent,
        on_written: Callable[[], None],  # behind each block
    ) -> None:
        """Begin without a segment. `Journal` describes the other arguments."""
        self.size_bytes = self.extents_bytes = 0  # of all files in use, and of extent files
        self._waiting: Mapping[str, int] = {}  # segments that are replaced, and still to be shipped
        self._may_wait = False  # there may be others since a rewrite, or a start
        self.base_bytes = 0  # of the others, after the last rewrite
        self.synced_position = records.position  # nothing takes this away, whatever the policy
        self.syncs, self.commits = Buckets(SECONDS), Buckets(COUNTS)  # their times; their records
        self._disk, self._policy, self._records, self._faults = disk, policy, records, faults
        self._torn, self._salt, self._counts = torn, salt, counts
        self._on_event, self._on_written = on_event, on_written
        self._written_count = 0  # changes in what is written
        self.shipping: Shipping | None = None  # what is written goes to a bucket, too
        self._header = blocks.Header(blocks.Kind.JOURNAL, 0)
        self._segment, self._segment_bytes = "", 0  # none yet
        self._segment_bytes_max, self._is_segment_torn = SEGMENT_BYTES_MAX, False
        self._own_bytes: dict[str, int] = {}  # by segment that was begun here
        self._rotation: asyncio.Future[Closed] | None = None  # asked for
        self._sync_began_s: float | None = None
        self._sync_ended = asyncio.Event()

    async def run(self, go_back: GoBack) -> None:
        while True:
            try:
                if await self._do_next():
                    return
            except SyncError:
                raise
            except OSError as error:
                await self._faults.bear(error, go_back)

    async def keep_syncing(self) -> None:
        while self._policy is FsyncPolicy.EVERYSEC:
            await asyncio.sleep(SYNC_INTERVAL_S)
            await self._sync()

    async def rotate(self) -> Closed:
        """Close the segment that has the last record, and go on in a new one."""
        self._rotation = asyncio.get_running_loop().create_future()
        self._records.wake()
        return await self._rotation

    async def until_durable(self, position: int) -> None:
        """Return once records may be answered; they may be on disk before."""
        if position > self._records.durable_position:
            await self._records.wait(position)

    async def look_at_waiting(self) -> None:
        """Remove replaced segments once the bucket has them; count the others."""
        shipping, disk = self.shipping, self._disk
        if shipping is None:
            return
        held = shipping.held
        gone = [name for name in self._waiting if name not in held]
        if gone:
            await disk.in_thread(lambda: recovery.remove_each(disk, gone))
        if gone or self._may_wait:
            self._may_wait = False
            self._waiting = await disk.in_thread(lambda: recovery.waiting_segments(disk, held))

    def note_rewrite(self, sizes: Mapping[str, int], through: int) -> None:
        # Since it looked, segments may have grown, and others begun.
        first = journal_name(through + 1)
        self._own_bytes = {name: size for name, size in self._own_bytes.items() if name >= first}
        self._note_sizes({**sizes, **self._own_bytes})

    def _note_sizes(self, sizes: Mapping[str, int]) -> None:
        self._may_wait = self.shipping is not None
        self.size_bytes = sum(sizes.values())
        self.extents_bytes = sum(size for name, size in sizes.items() if is_extents(name))
        self.base_bytes = self.journal_bytes

    @property
    def disk_bytes(self) -> int:
        return self.size_bytes + sum(self._waiting.values()) - self._disk.remote_bytes

    @property
    def journal_bytes(self) -> int:
        """Return the size of the snapshot and the segments behind it."""
        return self.size_bytes - self.extents_bytes

    async def _do_next(self) -> bool:
        """Do one step of writing, or wait until there is one; tells whether it was the last.

        The steps are in this order, so that each finds what it needs:

        1. Without a segment: mend what recovery has found torn, and begin one.
        2. Behind a write that failed: cut the segment back to its last whole block.
        3. When the segment is large, or a rewrite asks for it: close it and begin another.
        4. Write what is waiting as one block; under `always` it is synced before anybody is told.
        5. When closing: sync, and end if nothing has come meanwhile.

        A step that raises `OSError` is tried again later, from here on. After a sync that has
        failed nothing is: what the disk holds is not known any more.
        """
        records, faults = self._records, self._faults
        if not self._segment:
            await self._begin()
        elif self._is_segment_torn:
            await self._cut()
        elif self._rotation is not None or self._segment_bytes >= self._segment_bytes_max:
            await self._rotate()
        elif records.has_unwritten or faults.fault is not None:  # it ends when something is written
            await self._write()
            faults.end_fault()
            self._on_written()
        elif records.closing.is_set():
            await self._sync()
            return not records.has_unwritten  # or else some came meanwhile
        else:
            await records.until_woken()
        return False

    async def _begin(self) -> None:
        held = () if self.shipping is None else self.shipping.held
        sizes = await self._disk.in_thread(lambda: recovery.mend(self._disk, self._torn, held))
        self._torn = None
        self._note_sizes(sizes)
        await self._faults.look_for_room()
        await self._open_segment()
        self._faults.end_fault()

    async def _write(self) -> None:
        """Write the waiting records as one block; without any, an empty one, to see if it works."""
        if self._sync_lasts_too_long():
            await self._sync_ended.wait()
        segment, records = self._segment, self._take()
        are_all = not self._records.has_unwritten
        written_count = self._counts()[0] if are_all else self._written_count
        last = self._records.written_position + len(records)
        # Of an empty block no position tells whether it is safe.
        is_forced = self._policy is FsyncPolicy.ALWAYS or not records

        def put() -> None:
            self._disk.append(segment, data)
            if is_forced:
                self._sync_segment(segment)

        try:
            data = self._block_of(records)
            await (self._force(put) if is_forced else self._disk.in_thread(put))
        except OSError as error:
            self._is_segment_torn = True
            if error.errno == errno.EFBIG and self._segment_bytes > blocks.HEADER_BYTES:
                self._segment_bytes_max = 0  # no file may be larger: go on in another
            if self._faults.failure is None:
                self._records.put_back(records)
            raise
        self._written_count = written_count
        if records:
            self.commits.note(len(records))
        self._note_growth(len(data))
        if is_forced:
            self.synced_position = last
        if self.shipping is not None:
            self.shipping.note_written(segment, self._segment_bytes, last)
        self._records.settle(last)

    def _take(self) -> Sequence[bytes]:
        records = self._records.take()
        if self.shipping is not None and not self._records.has_unwritten:
            self.shipping.note_writing()
        return records

    def _block_of(self, records: Sequence[bytes]) -> bytes:
        first = self._records.written_position + 1
        try:
            payload = commands.join(records)
            return blocks.pack_block(self._header, first, self.synced_position, payload)
        except MemoryError:  # nothing is written yet, and there may be memory soon
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)) from None

    async def _cut(self) -> None:
        segment, size_bytes = self._segment, self._segment_bytes
        await self._force(lambda: self._disk.truncate(segment, size_bytes))
        self._is_segment_torn = False

    async def _rotate(self) -> None:
        await self._sync()  # a segment that is followed by another is safe as a whole
        rotation, self._rotation = self._rotation, None
        try:
            if self._segment_bytes > blocks.HEADER_BYTES:
                await self._open_segment()
        except SyncError:
            raise
        except OSError as error:  # the old one is as good; only the rewrite is not
            self._segment_bytes_max = self._segment_bytes + SEGMENT_BYTES_MAX
            self._on_event("segment not begun", {"reason": words(error)})
            if rotation is not None and not rotation.done():
                rotation.set_exception(error)
        else:
            self._segment_bytes_max = SEGMENT_BYTES_MAX
            if rotation is not None and not rotation.done():
                position, (_, replay_us) = self._records.written_position, self._counts()
                rotation.set_result(Closed(position, self._written_count, replay_us))

    async def _open_segment(self) -> None:
        first = self._records.written_position + 1
        segment = journal_name(first)
        unfinished = segment + UNFINISHED
        header = blocks.Header(blocks.Kind.JOURNAL, first, self._salt())
        data = blocks.pack_header(header)

        def make() -> None:
            if unfinished in self._disk.names():
                self._disk.remove(unfinished)
            try:
                self._disk.append(unfinished, data)
                self._disk.sync(unfinished)
                self._disk.rename(unfinished, segment)  # over one of a start without a record
            except OSError:
                with suppress(OSError):
                    self._disk.remove(unfinished)
                raise
            self._disk.sync_names()

        await self._disk.in_thread(make)
        self._header, self._segment, self._segment_bytes = header, segment, 0
        self._note_growth(len(data))
        if self.shipping is not None:
            self.shipping.note_written(segment, len(data), first - 1)

    def _note_growth(self, size_bytes: int) -> None:
        self._segment_bytes += size_bytes
        self._own_bytes[self._segment] = self._segment_bytes
        self.size_bytes += size_bytes
        self._faults.note_growth()

    async def _sync(self) -> None:
        await self._until_no_sync()
        position, segment = self._records.written_position, self._segment
        if position == self.synced_position:
            return
        await self._force(lambda: self._sync_segment(segment))
        self.synced_position = max(self.synced_position, position)

    def _sync_segment(self, segment: str) -> None:
        began_s = time.perf_counter()
        self._disk.sync(segment)
        self.syncs.note(time.perf_counter() - began_s)

    async def _force(self, act: Callable[[], None]) -> None:
        """Run a sync, one at a time: beside one that fails, another would prove nothing.

        After a failed sync, those who wait for its end wait until the journal closes: nothing is
        tried again, and nothing is written behind what may be lost.
        """
        await self._until_no_sync()
        self._sync_began_s = _now_s()
        self._sync_ended.clear()
        try:
            await self._disk.in_thread(act)
        except SyncError:
            raise
        except OSError:
            self._end_sync()
            raise
        self._end_sync()

    async def _until_no_sync(self) -> None:
        while self._sync_began_s is not None:
            await self._sync_ended.wait()

    def _end_sync(self) -> None:
        self._sync_began_s = None
        self._sync_ended.set()

    def _sync_lasts_too_long(self) -> bool:
        return self._sync_began_s is not None and _now_s() - self._sync_began_s > SYNC_PATIENCE_S


def _now_s() -> float:
    return asyncio.get_running_loop().time()
