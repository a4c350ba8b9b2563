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
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

from headgate.engine.bucket.tiers import tiered
from headgate.engine.errors import Corrupt
from headgate.engine.journal import recovery
from headgate.engine.journal.descriptors import SpareDescriptors
from headgate.engine.journal.disk import SystemDisk
from headgate.engine.journal.rewrites import Rewriter
from headgate.engine.limits import HOT_BYTES_MAX

_NICENESS = 10
"""Requests come first."""


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
                program, cwd=importable, stdin=PIPE, stdout=DEVNULL, stderr=PIPE
            )
        )

    async def rewrite(through: int) -> None:
        beginning = asyncio.get_running_loop().run_in_executor(None, begin, through)
        ending = asyncio.ensure_future(_end_of(beginning))
        try:
            code, output = await asyncio.shield(ending)
        except asyncio.CancelledError:
            with suppress(OSError):  # it has not begun
                (await beginning).kill()
                await ending
            raise
        if code != 0:
            lines = output.decode(errors="replace").strip().splitlines()
            raise OSError(lines[-1] if lines else f"the rewrite ended with {code}")

    return rewrite


async def _end_of(beginning: asyncio.Future[Popen[bytes]]) -> tuple[int, bytes]:
    """Wait for the end of a process that begins; returns its exit code and its output."""
    process = await beginning
    return await asyncio.get_running_loop().run_in_executor(None, _wait, process)


def _wait(process: Popen[bytes]) -> tuple[int, bytes]:
    with process:
        assert process.stderr is not None
        output = process.stderr.read()  # not `communicate`: it ends the standard input
        return process.wait(), output  # before the context ends: it ends the standard input first


def main(directory: str, through: str, hot_bytes_max: str) -> None:
    """Write the snapshot, or print in one line why not."""
    threading.Thread(target=_end_with_gateway, daemon=True).start()
    os.nice(_NICENESS)
    gc.disable()  # nothing is garbage in here
    disk = SystemDisk(Path(directory), is_shared=True)
    try:
        recovery.rewrite(tiered(disk, is_asked=False), int(through), int(hot_bytes_max))
    except (OSError, Corrupt) as error:
        sys.exit(str(error))


def _end_with_gateway() -> None:
    """End this process when the other end of standard input is closed."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
