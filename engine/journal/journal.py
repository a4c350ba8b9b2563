"""Journal: every record on disk, in segments that only grow.

Records that arrive while the disk is busy go into the next block together, so one fsync serves
every request in flight (group commit).

What can go wrong:

- A sync *fails*. Then nobody knows which of the writes are on disk, so the journal accepts nothing
  more.
- Anything else is a *fault*: a write, or the start of a segment. The journal undoes it and tries
  again until it works. Meanwhile it accepts no record. After a while it gives up the records that
  wait, and the engine goes back to what is durable, so that it can be read.
- There is a *shortage* of room. The journal refuses records that take room until there is more.

A *rewrite* replaces history by a snapshot. The journal goes on in a new segment. Nothing is written
to the segments before it any more: the `Rewriter` reads them and writes the snapshot, so no request
waits for it. Once the snapshot is in place, they go.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from random import Random, SystemRandom
from typing import NamedTuple

from headgate.engine import commands
from headgate.engine.buckets import COUNTS, SECONDS, Buckets
from headgate.engine.commands import Command
from headgate.engine.eager import Completion
from headgate.engine.errors import Corrupt, Unavailable
from headgate.engine.journal import blocks, recovery, room
from headgate.engine.journal.disk import Disk, SyncError, is_full
from headgate.engine.journal.recovery import UNFINISHED, Torn, journal_name
from headgate.engine.journal.room import DiskBounds, Shortage
from headgate.engine.journal.storage import GoBack
from headgate.engine.limits import BLOCK_BYTES_MAX, SEGMENT_BYTES_MAX, SERVED_AT_ONCE_MAX
from headgate.engine.periodic import Watch, repeat, unwatched
from headgate.engine.replies import JournalStatus

SYNC_INTERVAL_S = 1.0
"""Interval between syncs under `everysec`."""

SYNC_PATIENCE_S = 2.0
"""Time that writes go on beside a sync that does not end (Redis: the same)."""

LOOK_INTERVAL_S = 1.0
"""Interval between looks for room."""

PAUSE_S_MIN = 0.1
PAUSE_S_MAX = 1.0
"""Longest pause before the journal tries a failed write again: the pause doubles each time."""

PATIENCE_S = 2.0
"""Time that a record waits for a disk that does not take it, before it is given up."""

REWRITE_PAUSE_S_MIN = 1.0
REWRITE_PAUSE_S_MAX = 300.0
"""Likewise for a rewrite that has not worked."""

REWRITE_SHARE = 5
"""While room is short a rewrite is followed by a pause of so many times what it took."""

REPLAY_US_MAX = 5_000_000
"""A rewrite begins when a start would take so long to apply the records, or as long as it takes to
load the snapshot, if that is longer."""

LOADED_BYTES = 30
"""Bytes of a snapshot that are loaded in a microsecond, about."""

_CLOSED = "the journal is closed"


class FsyncPolicy(StrEnum):
    """The policy of syncs to disk; the names and their meaning are Redis's."""

    ALWAYS = "always"  # before it is answered: nothing answered is ever lost
    EVERYSEC = "everysec"  # once a second: the machine's crash may take a second or two
    NO = "no"  # when the system likes


class Growth(NamedTuple):
    """When a rewrite starts by itself (Redis: auto-aof-rewrite-percentage, -min-size)."""

    percentage: int = 100  # by how much the files have grown since the last one; 0: never
    size_bytes_min: int = 64 * 2**20  # smaller files are left alone


REDIS_GROWTH = Growth()


Rewriter = Callable[[int], Awaitable[None]]
"""Writes the snapshot of everything up to a position, from files that do not change any more."""

OnEvent = Callable[[str, Mapping[str, object]], None]
"""Is called with an event and its facts, for the log."""


class Journal:
    """Keeps records on a disk. It is a `Storage`."""

    def __init__(
        self,
        disk: Disk,
        policy: FsyncPolicy,
        rewriter: Rewriter,
        *,
        position: int = 0,
        replay_us: int = 0,
        torn: Torn | None = None,
        growth: Growth = REDIS_GROWTH,
        bounds: DiskBounds = DiskBounds(),  # noqa: B008  a value
        chance: Random | None = None,
        on_event: OnEvent = lambda event, facts: None,  # noqa: ARG005
        watch: Watch = unwatched,
    ) -> None:
        """Go on behind what was loaded.

        Args:
            disk: where the files are; nobody else writes there.
            policy: when what is written is forced to disk.
            rewriter: who writes snapshots.
            position: of the last record loaded.
            replay_us: what it took to apply the records loaded, about.
            torn: the end of the last segment, which is cut off first.
            growth: when a rewrite starts by itself.
            bounds: how much room there is.
            chance: where the salts of segments come from; the system's unless given.
            on_event: is called with what happens, for the log.
            watch: returns what is told of the failures of periodic work.
        """
        self.position = self.durable_position = position
        self._disk = disk
        self._policy = policy
        self._rewriter = rewriter
        self._torn = torn
        self._growth, self._bounds = growth, bounds
        self._on_event, self._watch = on_event, watch
        self._synced = position  # nothing takes this away any more, whatever the policy
        self._records: list[bytes] = []  # appended and not yet written
        self._staged: list[bytes] = []  # parts of the record that comes next
        self._waiting: deque[tuple[int, Completion[None]]] = deque()
        self._is_settling = False  # some of those who wait are woken in the next turn
        self._wake, self._closing = asyncio.Event(), asyncio.Event()
        self._is_closed = asyncio.Event()
        # What went wrong: see above. `_refusal` is the first there is of the three.
        self._failure: str | None = None
        self._fault: str | None = None
        self._shortage: Shortage | None = None
        self._refusal: str | None = None
        self._fault_began_s, self._pause_s = 0.0, PAUSE_S_MIN
        self._is_given_up = False  # the engine has not gone back yet
        self._free_bytes: int | None = None
        self._random = chance or SystemRandom()
        self._header = blocks.Header(blocks.Kind.JOURNAL, 0)
        self._segment, self._segment_bytes = "", 0  # none yet
        self._segment_bytes_max, self._is_segment_torn = SEGMENT_BYTES_MAX, False
        self._own_bytes: dict[str, int] = {}  # by segment that this journal has begun
        self._size_bytes = self._base_bytes = 0  # in use now, and after the last rewrite
        self._rotation: asyncio.Future[int] | None = None  # asked for, with what it will close
        self._sync_began_s: float | None = None
        self._sync_ended = asyncio.Event()
        self.syncs, self.commits = Buckets(SECONDS), Buckets(COUNTS)  # their times; their records
        self._tasks: asyncio.TaskGroup | None = None  # while `run` lasts
        self._rewriting: asyncio.Task[None] | None = None
        self._rewrite_count = 0
        self._rewrite_failure: str | None = None
        self._rewritten_s: float | None = None  # when the last rewrite was done
        self._rewritten = 0  # position of the last snapshot of this journal
        # Changes appended; those that are written, before the last rotation, and in a snapshot.
        self.change_count = 0
        self._written_count = self._rotated_count = self._saved_count = 0
        self.replay_us = replay_us  # likewise to apply them again; what a start has applied, too
        self._rotated_us = self._saved_us = 0
        self._rewrite_pause_s, self._rewrite_not_before_s = REWRITE_PAUSE_S_MIN, 0.0

    @property
    def failure(self) -> str | None:
        """Return why no record is accepted any more; None if all is well."""
        return self._failure or (_CLOSED if self._is_closed.is_set() else None)

    @property
    def refusal(self) -> str | None:
        """Return why some or all records are refused, for now or for ever; None if all is well."""
        return self._refusal

    @property
    def is_scarce(self) -> bool:
        """Tell whether room is so short that nothing may become pending."""
        return self._shortage is not None and self._shortage.is_scarce

    @property
    def unsaved_count(self) -> int:
        """Return how many changes no snapshot of this journal has yet; a few more at most."""
        return self.change_count - self._saved_count

    @property
    def status(self) -> JournalStatus:
        """Return the state of the journal."""
        return JournalStatus(
            self.position,
            self.durable_position,
            self._size_bytes,
            self._free_bytes,
            self._failure,
            self._fault,
            None if self._shortage is None else self._shortage.why,
            self._is_rewriting(),
            self._rewrite_count,
            self._rewrite_failure,
            self._synced,
            self._rewritten_s,
        )

    def append(self, record: list[Command]) -> int:
        """Append a record; returns its position.

        Raises:
            Unavailable: the disk does not take it, or the journal is closed.
        """
        if self._refusal is not None:
            self._check(record)
        return self._put(commands.encode(record))

    def stage(self, part: list[Command]) -> None:
        """Take commands as the next part of one record, which `append_staged` ends.

        Raises:
            Unavailable: the disk does not take it, or the journal is closed.
        """
        self._check(part)
        self._staged += commands.encode_each(part)

    def append_staged(self) -> None:
        """Take the parts that were staged as one record, behind all others."""
        if self._staged:
            staged, self._staged = self._staged, []
            self._put(commands.encode_parts(staged))

    def _put(self, record: bytes) -> int:
        self._records.append(record)
        self.position += 1
        self._wake.set()
        return self.position

    def _check(self, record: list[Command]) -> None:
        if self._refusal is None or not record:
            return
        is_only_short = self.failure is None and self._fault is None
        if not is_only_short or room.takes_room(record):
            raise Unavailable(self._refusal)

    def abandon(self, reason: str) -> None:
        """Accept no records any more, and give up those that are not being written."""
        self._failure = reason
        self._on_event("journal abandoned", {"reason": reason, "position": self.durable_position})
        self._drop(reason)

    async def wait_durable(self, position: int) -> None:
        """Return once everything up to `position` is as safe as the policy asks.

        Raises:
            Unavailable: the disk does not take it, and it never will be.
        """
        if position <= self.durable_position:
            return
        if self.failure is not None or self._is_given_up:
            raise Unavailable(self._refusal or _CLOSED)
        durable: Completion[None] = Completion()
        self._waiting.append((position, durable))
        await durable

    async def run(self, go_back: GoBack) -> None:
        """Write appended records, until closed.

        Args:
            go_back: is called with the durable state when records behind it were given up.

        Raises:
            Unavailable: the disk has failed; nothing is taken any more.
        """
        try:
            try:
                async with asyncio.TaskGroup() as self._tasks:
                    others = [
                        self._tasks.create_task(self._keep_syncing()),
                        self._tasks.create_task(
                            repeat(self._look_for_room, self._watch("room of the disk"))
                        ),
                    ]
                    await self._keep_writing(go_back)
                    for task in [*others, self._rewriting]:
                        if task is not None:
                            task.cancel()
            except* OSError as errors:
                self._fail(errors.exceptions[0])
                await self._give_up(self._failure or "", go_back)
        finally:
            self._tasks = None
            self._is_closed.set()
            self._drop(self._failure or _CLOSED)
        if self._failure is not None:
            raise Unavailable(self._failure)

    async def close(self) -> None:
        """Write the records left, sync them under every policy, end `run`, and close the files."""
        self._closing.set()
        self._wake.set()
        await self._is_closed.wait()
        await self._disk.wait_idle()
        self._disk.close()

    # Rewrites

    def start_rewrite(self) -> bool:
        """Begin to replace history by a snapshot; false if a rewrite is running already.

        Raises:
            Unavailable: the disk has failed, or is not written to.
        """
        if self._failure is not None or self._tasks is None or self._closing.is_set():
            raise Unavailable(self._failure or _CLOSED)
        if self._is_rewriting():
            return False
        rewriting = self._rewrite()
        try:
            self._rewriting = self._tasks.create_task(rewriting)
        except RuntimeError:  # everything is about to end, and not known to yet
            rewriting.close()
            raise Unavailable(_CLOSED) from None
        return True

    async def _rewrite(self) -> None:
        self._on_event("rewrite begins", {"size_bytes": self._size_bytes})
        self._rewrite_failure = None
        began_s = _now_s()
        try:
            await self._replace_history()
        except Exception as error:  # noqa: BLE001  all that was there still is
            with suppress(Exception):  # the room it took is needed
                await self._disk.in_thread(lambda: recovery.remove_unfinished(self._disk))
            self._rewrite_failure = str(error) or type(error).__name__
            self._on_event("rewrite failed", {"reason": str(error)})
            pause_s = self._rewrite_pause_s
            self._rewrite_pause_s = min(2 * pause_s, REWRITE_PAUSE_S_MAX)
        else:
            facts = {"size_bytes": self._size_bytes, "position": self._rewritten}
            self._on_event("rewrite done", facts)
            self._base_bytes = self._size_bytes
            self._rewrite_pause_s = REWRITE_PAUSE_S_MIN
            pause_s = 0.0 if self._shortage is None else REWRITE_SHARE * (_now_s() - began_s)
        self._rewrite_not_before_s = _now_s() + pause_s

    async def _replace_history(self) -> None:
        """Write a snapshot of all records so far, and remove the files that it replaces.

        1. Ask for a new segment. Everything recorded so far is in closed segments then, which
           do not change any more; `through` is their last position.
        2. Let a process make the snapshot of them. Records go on into the new segment meanwhile.
        3. Once the snapshot is there under its name, and safe, remove the segments and the
           snapshot before it.
        4. Note the sizes of what is left; the new segment has grown meanwhile.

        At each moment the files stand for all that was acknowledged: the old ones go only when the
        new one is safe.
        """
        self._rotation = asyncio.get_running_loop().create_future()
        self._wake.set()
        through = await self._rotation
        await self._rewriter(through)
        sizes = await self._disk.in_thread(lambda: recovery.clean(self._disk))
        # Since it looked, segments may have grown, and others begun.
        first = journal_name(through + 1)
        self._own_bytes = {name: size for name, size in self._own_bytes.items() if name >= first}
        self._size_bytes = sum((sizes | self._own_bytes).values())
        self._rewritten = through
        self._saved_count, self._saved_us = self._rotated_count, self._rotated_us
        self._rewrite_count += 1
        self._rewritten_s = _now_s()

    def _is_rewriting(self) -> bool:
        return self._rewriting is not None and not self._rewriting.done()

    def _rewrite_if_worthwhile(self) -> None:
        may = not self._is_rewriting() and not self._closing.is_set() and self._fault is None
        is_due = may and _now_s() >= self._rewrite_not_before_s
        if is_due and (self._has_grown() or self._is_short_of_room()):
            self.start_rewrite()

    def _has_grown(self) -> bool:
        """Tell whether the files, or the time to replay them, have grown enough.

        Short records may take long: 60 bytes copy a stream with thousands of groups.
        """
        growth, base_bytes = self._growth, max(self._base_bytes, 1)
        if not growth.percentage:
            return False
        if self.replay_us - self._saved_us > max(REPLAY_US_MAX, base_bytes // LOADED_BYTES):
            return True
        if self._size_bytes < growth.size_bytes_min:
            return False
        return self._size_bytes * 100 // base_bytes - 100 >= growth.percentage

    def _is_short_of_room(self) -> bool:
        """Tell whether room is short and a snapshot may be smaller than the files."""
        return self._shortage is not None and self.durable_position > self._rewritten

    # Writing

    async def _keep_writing(self, go_back: GoBack) -> None:
        while True:
            try:
                if await self._do_next():
                    return
            except SyncError:
                raise
            except OSError as error:
                await self._bear(error, go_back)

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
        if not self._segment:
            await self._begin()
        elif self._is_segment_torn:
            await self._cut()
        elif self._rotation is not None or self._segment_bytes >= self._segment_bytes_max:
            await self._rotate()
        elif self._records or self._fault is not None:  # that ends when something is written
            await self._write()
            self._end_fault()
            self._rewrite_if_worthwhile()
        elif self._closing.is_set():
            await self._sync()
            return not self._records  # or else some came meanwhile
        else:
            self._wake.clear()
            await self._wake.wait()
        return False

    async def _begin(self) -> None:
        torn = self._torn
        sizes = await self._disk.in_thread(lambda: recovery.mend(self._disk, torn))
        self._torn = None
        self._size_bytes = self._base_bytes = sum(sizes.values())
        await self._look()
        await self._open_segment()
        self._end_fault()

    async def _write(self) -> None:
        """Write the waiting records as one block; without any, an empty one, to see if it works."""
        if self._sync_lasts_too_long():
            await self._sync_ended.wait()
        segment, records = self._segment, self._take()
        change_count = self._written_count if self._records else self.change_count
        last = self.durable_position + len(records)
        # Of an empty block no position tells whether it is safe.
        is_forced = self._policy is FsyncPolicy.ALWAYS or not records

        def put() -> None:
            self._disk.append(segment, data)
            if is_forced:
                self._sync_segment(segment)

        try:
            data = self._block_of(records)
            await (self._force(put) if is_forced else self._disk.in_thread(put))
        except OSError:
            self._is_segment_torn = True
            if self._failure is None:
                self._records = [*records, *self._records]
            raise
        self._written_count = change_count
        if records:
            self.commits.note(len(records))
        self._note_growth(len(data))
        if is_forced:
            self._synced = last
        self._settle(last)

    def _block_of(self, records: Sequence[bytes]) -> bytes:
        try:
            payload = commands.join(records)
            return blocks.pack_block(self._header, self.durable_position + 1, self._synced, payload)
        except MemoryError:  # nothing is written yet, and there may be memory soon
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)) from None

    def _take(self) -> Sequence[bytes]:
        """Take the records of one block from those that wait: at least one."""
        size_bytes = 0
        for count, record in enumerate(self._records, 1):
            size_bytes += len(record)
            if size_bytes >= BLOCK_BYTES_MAX:
                taken, self._records = self._records[:count], self._records[count:]
                return taken
        taken, self._records = self._records, []
        return taken

    def _settle(self, position: int) -> None:
        """Wake everyone who waits for a position up to this one."""
        self.durable_position = position
        if self._waiting and not self._is_settling:
            self._is_settling = True
            asyncio.get_running_loop().call_soon(self._settle_in_turns)

    def _settle_in_turns(self) -> None:
        """Wake some of those who wait, and the others in the next turns of the event loop.

        Those who are woken may run on at once (`eager`).
        """
        waiting, woken_count = self._waiting, 0
        try:
            while waiting and waiting[0][0] <= self.durable_position:
                if woken_count == SERVED_AT_ONCE_MAX:
                    break
                waiting.popleft()[1].succeed(None)
                woken_count += 1
        finally:  # whoever fails keeps nobody else waiting
            waiting = self._waiting
            self._is_settling = bool(waiting) and waiting[0][0] <= self.durable_position
            if self._is_settling:
                asyncio.get_running_loop().call_soon(self._settle_in_turns)

    async def _cut(self) -> None:
        """Undo a write that did not work."""
        segment, size_bytes = self._segment, self._segment_bytes
        await self._force(lambda: self._disk.truncate(segment, size_bytes))
        self._is_segment_torn = False

    async def _rotate(self) -> None:
        """Close the segment and go on in a new one."""
        await self._sync()  # a segment that is followed by another is safe as a whole
        rotation, self._rotation = self._rotation, None
        try:
            if self._segment_bytes > blocks.HEADER_BYTES:
                await self._open_segment()
        except SyncError:
            raise
        except OSError as error:  # the old one is as good; only the rewrite is not
            self._segment_bytes_max = self._segment_bytes + SEGMENT_BYTES_MAX
            self._on_event("segment not begun", {"reason": _words(error)})
            if rotation is not None and not rotation.done():
                rotation.set_exception(error)
        else:
            self._segment_bytes_max = SEGMENT_BYTES_MAX
            self._rotated_count, self._rotated_us = self._written_count, self.replay_us
            if rotation is not None and not rotation.done():
                rotation.set_result(self.durable_position)

    async def _open_segment(self) -> None:
        segment = journal_name(self.durable_position + 1)
        unfinished = segment + UNFINISHED
        salt = self._random.getrandbits(64)
        header = blocks.Header(blocks.Kind.JOURNAL, self.durable_position + 1, salt)
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
        self._header = header
        self._segment = segment
        self._segment_bytes = 0
        self._note_growth(len(data))

    def _note_growth(self, size_bytes: int) -> None:
        self._segment_bytes += size_bytes
        self._own_bytes[self._segment] = self._segment_bytes
        self._size_bytes += size_bytes
        shortage = room.shortage_of(self._size_bytes, self._bounds)
        if self._shortage is None or (shortage is not None and shortage.is_scarce):
            self._set_shortage(shortage)

    async def _keep_syncing(self) -> None:
        while self._policy is FsyncPolicy.EVERYSEC:
            await asyncio.sleep(SYNC_INTERVAL_S)
            await self._sync()

    async def _sync(self) -> None:
        """Force to disk what was written."""
        await self._until_no_sync()
        position, segment = self.durable_position, self._segment
        if position == self._synced:
            return
        await self._force(lambda: self._sync_segment(segment))
        self._synced = max(self._synced, position)

    def _sync_segment(self, segment: str) -> None:
        """Force a segment to disk, in the thread of the disk, and note how long that takes."""
        began_s = time.perf_counter()
        self._disk.sync(segment)
        self.syncs.note(time.perf_counter() - began_s)

    async def _force(self, act: Callable[[], None]) -> None:
        """Run a sync, one at a time: beside one that fails, another would prove nothing.

        After a sync that failed, those who wait for its end wait until the journal closes: nothing
        is tried again, and nothing is written behind what may be lost.
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

    # What goes wrong

    def _fail(self, error: Exception) -> None:
        """Accept no records any more."""
        self._failure = f"the journal cannot be written: {_words(error)}"
        self._on_event(
            "journal failed", {"reason": self._failure, "position": self.durable_position}
        )
        self._drop(self._failure)

    def _drop(self, reason: str) -> None:
        """Give up the records that are not written, and wake those who wait for them."""
        self._note_refusal()
        self._records.clear()
        self._staged.clear()
        if self._waiting:
            waiting, self._waiting = self._waiting, deque()
            loop = asyncio.get_running_loop()
            loop.call_soon(_wake_all, waiting, self.durable_position, reason)

    def _note_refusal(self) -> None:
        short = None if self._shortage is None else self._shortage.why
        self._refusal = self.failure or self._fault or short

    async def _bear(self, error: OSError, go_back: GoBack) -> None:
        """Prepare to try again after an error; what failed was undone, or will be.

        Raises:
            OSError: there is no time left for that.
        """
        if is_full(error) and await self._disk.in_thread(self._disk.give_up_reserve):
            self._set_shortage(_full(error))
            return
        if error.errno == errno.EFBIG and self._segment_bytes > blocks.HEADER_BYTES:
            self._segment_bytes_max = 0  # no file may be larger: go on in another
        if self._fault is None:
            self._fault = f"the journal cannot be written: {_words(error)}"
            self._fault_began_s, self._pause_s = _now_s(), PAUSE_S_MIN
            self._note_refusal()
            facts = {"reason": self._fault, "position": self.durable_position}
            self._on_event("journal not written for now", facts)
        if self._closing.is_set():
            raise error
        if self._records and _now_s() - self._fault_began_s >= PATIENCE_S:
            await self._give_up(self._fault, go_back)
        await self._pause()

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pause_s):
                await self._closing.wait()
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)

    def _end_fault(self) -> None:
        if self._fault is not None:
            self._fault = None
            self._note_refusal()
            self._on_event("journal written again", {"position": self.durable_position})

    async def _give_up(self, reason: str, go_back: GoBack) -> None:
        """Forget records that are not durable, here and in the engine. No answer showed them."""
        self._drop(reason)
        go_back(None)
        durable, is_reported = self.durable_position, False
        self._is_given_up = self.position > durable
        while self._is_given_up and not self._closing.is_set():
            try:
                loaded = await self._disk.in_thread(
                    lambda: recovery.load(self._disk, through=durable)
                )
            except (OSError, Corrupt) as error:
                if not is_reported:
                    self._on_event("journal cannot be read", {"reason": _words(error)})
                is_reported = True
                await self._pause()
            else:
                self.position = durable
                self.replay_us, self._saved_us = loaded.keyspace.replay_us, 0
                self._is_given_up = False
                go_back(loaded.keyspace)

    # Room

    async def _look_for_room(self) -> None:
        await asyncio.sleep(LOOK_INTERVAL_S)
        await self._look()
        self._rewrite_if_worthwhile()

    async def _look(self) -> None:
        """Look whether there is room."""
        try:
            room_now = await self._disk.in_thread(lambda: room.look(self._disk, self._bounds))
        except OSError as error:
            if is_full(error):
                self._set_shortage(_full(error))
            return
        self._free_bytes = room_now.free_bytes
        self._set_shortage(room_now.shortage or room.shortage_of(self._size_bytes, self._bounds))

    def _set_shortage(self, shortage: Shortage | None) -> None:
        before, self._shortage = self._shortage, shortage
        self._note_refusal()
        if before is None and shortage is not None:
            facts = {"reason": shortage.why, "size_bytes": self._size_bytes}
            self._on_event("room is short", facts)
        elif before is not None and shortage is None:
            self._on_event("there is room again", {"size_bytes": self._size_bytes})


def _wake_all(
    waiting: Iterable[tuple[int, Completion[None]]], durable_position: int, reason: str
) -> None:
    """Wake all waiting callers: records up to a position are safe, others were given up."""
    for position, durable in waiting:
        if position <= durable_position:
            durable.succeed(None)
        else:
            durable.fail(Unavailable(reason))


def _full(error: OSError) -> Shortage:
    """Return the shortage of a disk that has no room; the reserve is there still, or just gone."""
    return Shortage(f"the disk is full: {_words(error)}", is_scarce=False)


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _words(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
