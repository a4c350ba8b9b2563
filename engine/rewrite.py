"""Rewrite: a snapshot made of files nobody touches any more, in a process of its own.

`python -m engine.rewrite DIRECTORY POSITION` recovers what the directory stood for at a position
and writes that down as a snapshot. The process that serves requests does not notice: it goes on in
segments behind that position. It holds the other end of this one's standard input: if it is gone,
this one ends too, or it would go on beside whoever takes hold of the directory next.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

from engine import recovery
from engine.descriptors import SpareDescriptors, none_are_left
from engine.disk import SystemDisk
from engine.errors import Corrupt
from engine.journal import Rewriter

_NICENESS = 10
"""Requests come first."""


def in_process_of_its_own(directory: Path, spare: SpareDescriptors | None = None) -> Rewriter:
    """Return who writes snapshots of that directory.

    Args:
        directory: where the files are.
        spare: descriptors to begin with when no other is left.
    """
    spares = spare or SpareDescriptors(0)
    command = [sys.executable, "-m", __name__, str(directory.absolute())]
    importable = Path(__file__).parent.parent

    def begin(through: int) -> Popen[bytes]:
        # Not by the event loop: uvloop copies the page tables first, 50 ms for half a gigabyte.
        return Popen(  # noqa: S603  our own program
            [*command, str(through)], cwd=importable, stdin=PIPE, stdout=DEVNULL, stderr=PIPE
        )

    async def rewrite(through: int) -> None:
        try:
            process = begin(through)
        except OSError as error:
            if not none_are_left(error):
                raise
            with spares.given_up():
                process = begin(through)
        ending = asyncio.get_running_loop().run_in_executor(None, _end_of, process)
        try:
            said = await asyncio.shield(ending)
        except asyncio.CancelledError:
            process.kill()
            await ending
            raise
        if process.returncode != 0:
            lines = said.decode(errors="replace").strip().splitlines()
            raise OSError(lines[-1] if lines else f"the rewrite ended with {process.returncode}")

    return rewrite


def _end_of(process: Popen[bytes]) -> bytes:
    """Wait for the end of a process; returns what it has said."""
    with process:
        assert process.stderr is not None
        said = process.stderr.read()  # not `communicate`: it ends the standard input
        process.wait()  # or the standard input would end before
        return said


def main(directory: str, through: str) -> None:
    """Write the snapshot, or say in one line why not."""
    threading.Thread(target=_end_with_gateway, daemon=True).start()
    os.nice(_NICENESS)
    gc.disable()  # nothing is garbage in here
    disk = SystemDisk(Path(directory), is_shared=True)
    try:
        recovery.rewrite(disk, int(through))
    except (OSError, Corrupt) as error:
        sys.exit(str(error))


def _end_with_gateway() -> None:
    """Wait until nobody holds the other end of standard input, and end."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
