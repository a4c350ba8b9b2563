"""Rewrites: history is replaced by a snapshot.

The journal goes on in a new segment. Nothing is written to the segments before it any more: the
`Rewriter` reads them and writes the snapshot, so no request waits for it. Once the snapshot is in
place, they go.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen
from typing import NamedTuple

from headgate.engine.bucket.tiers import tiered
from headgate.engine.errors import Corrupt, Unavailable
from headgate.engine.journal import recovery
from headgate.engine.journal.disk import Disk, SpareDescriptors, SystemDisk
from headgate.engine.journal.faults import CLOSED, Faults, OnEvent
from headgate.engine.journal.storage import Holder, Nobody
from headgate.engine.journal.writer import Closed, Writer
from headgate.engine.limits import HOT_BYTES_MAX

REWRITE_PAUSE_S_MIN = 1.0
REWRITE_PAUSE_S_MAX = 300.0
"""Longest pause before a rewrite that has not worked is tried again: the pause doubles."""

REWRITE_SHARE = 5
"""While room is short a rewrite is followed by a pause of so many times what it took."""

REPLAY_US_MAX = 5_000_000
"""A rewrite begins when a start would take so long to apply the records, or as long as it takes to
load the snapshot, if that is longer."""

DEAD_SHARE = 6
"""A rewrite begins when more than a sixth of the extent files is dead."""

LATE_SHARE = 2
"""A rewrite is late when, by its end, so many times what it began for is to be frozen."""

STUCK_S = 3.0
"""When a rewrite has made no progress for so long, nobody waits any more for the room it makes."""

LOADED_BYTES = 30
"""Bytes of a snapshot that are loaded in a microsecond, about."""


class Growth(NamedTuple):
    """When a rewrite starts by itself (Redis: auto-aof-rewrite-percentage, -min-size)."""

    percentage: int = 100  # by how much the journal has grown since the last one; 0: never
    size_bytes_min: int = 64 * 2**20  # a smaller one is left alone
    hot_bytes_max: int = 64 * 2**20  # what memory takes for new entries since the last one
    patience_s: float = 300.0  # a rewrite that makes no progress for so long is ended


REDIS_GROWTH = Growth()


OnProgress = Callable[[], None]
"""Is called now and then while a rewrite makes progress."""

Rewriter = Callable[[int, OnProgress], Awaitable[None]]
"""Writes the snapshot of everything up to a position, from files that do not change any more."""


class Rewrites:
    def __init__(
        self,
        disk: Disk,
        rewriter: Rewriter,
        growth: Growth,
        writer: Writer,
        faults: Faults,
        on_event: OnEvent,
    ) -> None:
        self.count = 0
        self.failure: str | None = None  # of the last one
        self.done_s: float | None = None  # when the last one was done
        self.saved = Closed(0, 0, 0)  # in the last snapshot of this journal
        self._disk, self._rewriter, self._growth = disk, rewriter, growth
        self._writer, self._faults, self._on_event = writer, faults, on_event
        self.holder: Holder = Nobody()  # takes over what was frozen
        self._hot_bytes = 0  # what the last one has left in memory
        self._uncleaned_bytes = 0  # dead, and the last one has cleaned nothing
        self._is_done = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._pause_s, self._not_before_s = REWRITE_PAUSE_S_MIN, 0.0
        # When the process under way has last made progress; None: there is no process.
        self._progress_s: float | None = None

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self, tasks: asyncio.TaskGroup) -> bool:
        """Begin a rewrite; false if one is running, Unavailable if the tasks are about to end."""
        if self.is_running:
            return False
        rewriting = self._rewrite()
        try:
            self._task = tasks.create_task(rewriting)
        except RuntimeError:  # everything is about to end, and not known to yet
            rewriting.close()
            raise Unavailable(CLOSED) from None
        return True

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def is_worthwhile(self, position: int, replay_us: int) -> bool:
        if self.is_running or self._is_paused:
            return False
        # When room is short, a snapshot may be smaller than the files.
        is_short = self._faults.shortage is not None and position > self.saved.position
        return is_short or self._is_hot or self._is_dead or self._has_grown(replay_us)

    @property
    def freezable_bytes(self) -> int:
        grown_bytes = self._grown_bytes
        return grown_bytes if grown_bytes > self._growth.hot_bytes_max // 4 else 0

    @property
    def has_failed(self) -> bool:
        return self.failure is not None and not self.is_running and self._is_paused

    @property
    def _is_paused(self) -> bool:
        return asyncio.get_running_loop().time() < self._not_before_s

    @property
    def _grown_bytes(self) -> int:
        return self.holder.memory.entries_bytes - self._hot_bytes

    @property
    def _is_hot(self) -> bool:
        return self._grown_bytes > self._growth.hot_bytes_max

    @property
    def _is_dead(self) -> bool:
        least_bytes = max(self._growth.size_bytes_min, self._writer.extents_bytes // DEAD_SHARE)
        # What the last one could not clean, as somebody reads it, it is not asked for again.
        is_much = self._dead_bytes - self._uncleaned_bytes > least_bytes
        return is_much and self._growth.percentage > 0

    @property
    def _dead_bytes(self) -> int:
        return self._writer.extents_bytes - self.holder.memory.cold_bytes

    @property
    def is_stuck(self) -> bool:
        if self._progress_s is None:
            return False
        idle_s = asyncio.get_running_loop().time() - self._progress_s
        return idle_s > min(STUCK_S, self._growth.patience_s)

    async def until_done(self, seconds_max: float) -> None:
        if self.is_running:
            self._is_done.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds_max):
                    await self._is_done.wait()

    def _has_grown(self, replay_us: int) -> bool:
        """Tell whether files, or the time to replay (short records may take long), have grown."""
        growth, size_bytes = self._growth, self._writer.journal_bytes
        base_bytes = max(self._writer.base_bytes, 1)
        if not growth.percentage:
            return False
        if replay_us - self.saved.replay_us > max(REPLAY_US_MAX, base_bytes // LOADED_BYTES):
            return True
        if size_bytes < growth.size_bytes_min:
            return False
        return size_bytes * 100 // base_bytes - 100 >= growth.percentage

    def go_back(self) -> None:
        self.saved = self.saved._replace(replay_us=0)

    async def _rewrite(self) -> None:
        clock = asyncio.get_running_loop().time
        self._on_event("rewrite begins", {"size_bytes": self._writer.size_bytes})
        self.failure = None
        began_s = clock()
        try:
            self.saved = await self._replace_history()
        except Exception as error:  # noqa: BLE001  all that was there still is
            with suppress(Exception):  # the room it took is needed
                await self._disk.in_thread(lambda: recovery.remove_unfinished(self._disk))
            self.failure = str(error) or type(error).__name__
            self._on_event("rewrite failed", {"reason": str(error)})
            pause_s = self._pause_s
            self._pause_s = min(2 * pause_s, REWRITE_PAUSE_S_MAX)
        else:
            self.count, self.done_s = self.count + 1, clock()
            facts = {"size_bytes": self._writer.size_bytes, "position": self.saved.position}
            self._on_event("rewrite done", facts)
            self._pause_s = REWRITE_PAUSE_S_MIN
            pause_s = 0.0 if self._faults.shortage is None else REWRITE_SHARE * (clock() - began_s)
        self._not_before_s = clock() + pause_s
        self._is_done.set()

    async def _replace_history(self) -> Closed:
        """Write a snapshot of all records so far, and remove the files that it replaces.

        1. Ask for a new segment. Everything recorded so far is in closed segments then, which
           do not change any more.
        2. Let a process make the snapshot of them. Records go on into the new segment meanwhile.
        3. Once the snapshot is there under its name, and safe, the engine takes over its index.
        4. Remove the segments and the snapshot before it, and extent files that nobody uses.
        5. Note the sizes of what is left; the new segment has grown meanwhile.

        At each moment the files stand for all that was acknowledged: the old ones go only when the
        new one is safe.
        """
        closed = await self._writer.rotate()
        await self._writer.until_durable(closed.position)  # the engine may still have to go back
        hot_bytes = self.holder.memory.entries_bytes
        last_file = await self._disk.in_thread(lambda: recovery.last_extent_file(self._disk))
        known = self.holder.begin(last_file)
        await self._write_snapshot(closed.position)
        indexes = await self._disk.in_thread(
            lambda: recovery.indexes(self._disk, closed.position, known)
        )
        dead_bytes = self._dead_bytes
        new_bytes = self.holder.memory.entries_bytes - hot_bytes
        is_late = self._grown_bytes > LATE_SHARE * self._growth.hot_bytes_max
        in_use = await self.holder.adopt(indexes, is_late=is_late)
        shipping = self._writer.shipping
        held = in_use if shipping is None else in_use | shipping.held
        self._hot_bytes = self.holder.memory.entries_bytes - max(new_bytes, 0)
        sizes = await self._disk.in_thread(lambda: recovery.clean(self._disk, held))
        self._writer.note_rewrite(sizes, closed.position)
        await self._writer.look_at_waiting()
        if shipping is not None:
            shipping.note_snapshot(closed.position)
        has_cleaned = dead_bytes - self._dead_bytes > 0
        self._uncleaned_bytes = 0 if has_cleaned else max(self._dead_bytes, 0)
        return closed

    async def _write_snapshot(self, position: int) -> None:
        """Let the snapshot be written; end that if it hangs (dead disk, stopped process)."""
        clock, patience_s = asyncio.get_running_loop().time, self._growth.patience_s
        self._progress_s = clock()
        writing = asyncio.ensure_future(self._rewriter(position, self._note_progress))
        try:
            while not writing.done():
                left_s = self._progress_s + patience_s - clock()
                if left_s <= 0:
                    raise TimeoutError(f"the rewrite made no progress for {patience_s:g} s")
                await asyncio.wait([writing], timeout=left_s)
        finally:
            self._progress_s = None
            writing.cancel()
            await asyncio.wait([writing])
        writing.result()

    def _note_progress(self) -> None:
        if self._progress_s is not None:  # or else it was given up
            self._progress_s = asyncio.get_running_loop().time()


# Rewrite: makes a snapshot from files that do not change any more, in a process of its own.
#
# `python -m MODULE DIRECTORY POSITION HOT_BYTES` recovers the state that the directory stood for
# at a position and writes it as a snapshot. The process that serves requests is not involved: it
# goes on in segments behind that position. It holds the other end of this process's standard
# input. When that end closes, this process ends as well; otherwise it could work beside the next
# process that uses the directory.

_NICENESS = 10
"""Requests come first."""

_REPORTED_S, _PROGRESS_S = 1.0, 0.02
"""So often progress is told, if so much time of a core was used meanwhile: also a process that
waits for its disk uses some."""

_KILLED_S = 5.0
"""A process that is killed is waited for so long: a dead disk may hold it for ever."""


def in_process_of_its_own(
    directory: Path, spare: SpareDescriptors | None = None, *, hot_bytes_max: int = HOT_BYTES_MAX
) -> Rewriter:
    """Return a rewriter in its own process; `spare` descriptors let it begin if none is left."""
    spares = spare or SpareDescriptors(0)
    command = [sys.executable, "-m", __name__, str(directory.absolute())]
    importable = Path(__file__).parents[3]

    def begin(through: int) -> Popen[bytes]:
        # Not uvloop's way: it copies the page tables first, 50 ms for half a gigabyte.
        program = [*command, str(through), str(hot_bytes_max)]
        return spares.use(
            lambda: Popen(  # noqa: S603  our own program
                program, cwd=importable, stdin=PIPE, stdout=PIPE, stderr=PIPE
            )
        )

    async def rewrite(through: int, on_progress: OnProgress) -> None:
        beginning = asyncio.get_running_loop().run_in_executor(None, begin, through)
        ending = asyncio.ensure_future(_end_of(beginning, on_progress))
        try:
            code, output = await asyncio.shield(ending)
        except asyncio.CancelledError:
            beginning.add_done_callback(_kill)
            ending.add_done_callback(lambda end: end.cancelled() or end.exception())  # for nobody
            await asyncio.wait([ending], timeout=_KILLED_S)
            raise
        if code != 0:
            lines = output.decode(errors="replace").strip().splitlines()
            raise OSError(lines[-1] if lines else f"the rewrite ended with {code}")

    return rewrite


def _kill(beginning: asyncio.Future[Popen[bytes]]) -> None:
    """Kill a process once it has begun, which may take long on a dead disk."""
    with suppress(OSError):  # it could not begin
        beginning.result().kill()


async def _end_of(
    beginning: asyncio.Future[Popen[bytes]], on_progress: OnProgress
) -> tuple[int, bytes]:
    process, loop = await beginning, asyncio.get_running_loop()
    report = partial(loop.call_soon_threadsafe, on_progress)
    return await loop.run_in_executor(None, _wait, process, report)


def _wait(process: Popen[bytes], report: Callable[[], object]) -> tuple[int, bytes]:
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        while os.read(process.stdout.fileno(), 1):
            report()
        output = process.stderr.read()  # not `communicate`: it ends the standard input
        return process.wait(), output  # before the context ends: it ends the standard input first


def main(directory: str, through: str, hot_bytes_max: str) -> None:
    """Write the snapshot, or print in one line why not."""
    threading.Thread(target=_end_with_gateway, daemon=True).start()
    threading.Thread(target=_tell_progress, daemon=True).start()
    os.nice(_NICENESS)
    gc.disable()  # nothing is garbage in here
    disk = SystemDisk(Path(directory), is_shared=True)
    try:
        recovery.rewrite(tiered(disk, is_asked=False), int(through), int(hot_bytes_max))
    except (OSError, Corrupt) as error:
        sys.exit(str(error))


def _tell_progress() -> None:
    reported_s, between = 0.0, threading.Event()
    while not between.wait(_REPORTED_S):
        used_s = sum(os.times()[:2])
        if used_s > reported_s + _PROGRESS_S:
            reported_s = used_s
            os.write(sys.stdout.fileno(), b".")


def _end_with_gateway() -> None:
    """End this process when the other end of standard input is closed."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
