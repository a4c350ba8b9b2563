"""Rewrite: makes a snapshot from files that do not change any more, in a process of its own.

`python -m MODULE DIRECTORY POSITION HOT_BYTES` recovers the state that the directory stood for at a
position and writes it as a snapshot. The process that serves requests is not involved: it goes on
in segments behind that position. It holds the other end of this process's standard input. When that
end closes, this process ends as well; otherwise it could work beside the next process that uses the
directory.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen

from headgate.engine.bucket.tiers import tiered
from headgate.engine.errors import Corrupt
from headgate.engine.journal import recovery
from headgate.engine.journal.descriptors import SpareDescriptors
from headgate.engine.journal.disk import SystemDisk
from headgate.engine.journal.rewrites import OnProgress, Rewriter
from headgate.engine.limits import HOT_BYTES_MAX

_NICENESS = 10
"""Requests come first."""

_REPORTED_S, _PROGRESS_S = 1.0, 0.02
"""So often progress is told, if so much time of a core was used meanwhile: also a process that
waits for its disk uses some."""

_KILLED_S = 5.0
"""A process that is killed is waited for so long: a dead disk may hold it for ever."""


def in_process_of_its_own(
    directory: Path,
    spare: SpareDescriptors | None = None,
    *,
    hot_bytes_max: int = HOT_BYTES_MAX,
) -> Rewriter:
    """Return a function that writes snapshots of a directory.

    Args:
        directory: where the files are.
        spare: descriptors to begin with when no other is left.
        hot_bytes_max: what stays in memory of all streams together, besides open chunks.
    """
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
    """Wait for the end of a process that begins; returns its exit code and its output."""
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
    """Write a byte now and then while this process gets something done."""
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
