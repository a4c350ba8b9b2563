"""Rewrite: a snapshot made of files nobody touches any more, in a process of its own.

`python -m engine.rewrite DIRECTORY POSITION` recovers what the directory stood for at a position
and writes that down as a snapshot. The process that serves requests does not notice: it goes on in
segments behind that position.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from pathlib import Path

from engine import recovery
from engine.disk import SystemDisk
from engine.errors import Corrupt
from engine.journal import Rewriter

_NICENESS = 10
"""Requests come first."""


def in_process_of_its_own(directory: Path) -> Rewriter:
    """Return who writes snapshots of that directory."""
    command = [sys.executable, "-m", __name__, str(directory.absolute())]
    importable = Path(__file__).parent.parent

    async def rewrite(through: int) -> None:
        process = await asyncio.create_subprocess_exec(
            *command,
            str(through),
            cwd=importable,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, said = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode != 0:
            lines = said.decode(errors="replace").strip().splitlines()
            raise OSError(lines[-1] if lines else f"the rewrite ended with {process.returncode}")

    return rewrite


def main(directory: str, through: str) -> None:
    """Write the snapshot, or say in one line why not."""
    os.nice(_NICENESS)
    gc.disable()  # nothing is garbage in here
    disk = SystemDisk(Path(directory), is_shared=True)
    try:
        recovery.rewrite(disk, int(through))
    except (OSError, Corrupt) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
