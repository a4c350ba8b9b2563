"""Keeper: a small process that ends others when the process that started them is gone.

A process that is killed cannot clean up. So it starts a keeper and holds the only write end of the
keeper's standard input. The keeper reads its orders from there; the end of the input means that the
process is gone, whatever ended it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock


class Keeper:
    """Ends the processes that it keeps, and removes their folders, when this process is gone."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", __file__],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal does not reach it
        )
        self._lock = Lock()

    def keep(self, process_id: int) -> None:
        self._say("keep", process_id)

    def forget(self, process_id: int) -> None:
        """Stop keeping a process: it has ended, and its id may be reused."""
        self._say("forget", process_id)

    def remove(self, folder: Path) -> None:
        self._say("remove", folder)

    def close(self) -> None:
        """End the kept processes, and return once the keeper has ended."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def _say(self, verb: str, what: object) -> None:
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(f"{verb} {what}\n".encode())
            self._process.stdin.flush()


def _main() -> None:
    process_ids: set[int] = set()
    folders: list[str] = []
    for line in sys.stdin:
        verb, _, what = line.rstrip("\n").partition(" ")
        match verb:
            case "keep":
                process_ids.add(int(what))
            case "forget":
                process_ids.discard(int(what))
            case "remove":
                folders.append(what)
    for process_id in process_ids:
        with suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _main()
