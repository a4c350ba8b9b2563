"""Process: a command that runs. Its standard error is passed on, and its last line is kept."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from io import FileIO
from typing import Self

_KEPT_BYTES = 4096
"""Of standard error, for the last line."""


class Process:
    """A command that runs."""

    def __init__(self, process: asyncio.subprocess.Process, errors: "_StandardError") -> None:
        """Take a command that was started."""
        self._process = process
        self._errors = errors

    @classmethod
    async def start(cls, words: Sequence[str], variables: Mapping[str, str]) -> Self:
        """Start a command, with these variables beside those that it inherits.

        The pipe is our own: asyncio takes no process for ended before its pipes have ended, and a
        process in the background may keep them open.
        """
        read_end, write_end = os.pipe()
        errors = _StandardError(FileIO(read_end))
        try:
            await asyncio.get_running_loop().connect_read_pipe(lambda: errors, errors.pipe)
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.PIPE,
                stderr=write_end,
                env={**os.environ, **variables},
                process_group=0,  # Ctrl-C is for this process; it lets the others end
            )
        finally:
            os.close(write_end)
        return cls(process, errors)

    async def finish(self, data: bytes) -> int:
        """Write to its standard input, await its end, and return its exit code."""
        await self._process.communicate(data)
        self._errors.drain()
        assert self._process.returncode is not None
        return self._process.returncode

    @property
    def last_line(self) -> str:
        """Return the last line of its standard error that is not blank, once it has ended."""
        return self._errors.end.decode(errors="replace").rstrip().rpartition("\n")[2].strip()

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()


class _StandardError(asyncio.Protocol):
    """The standard error of a command."""

    def __init__(self, pipe: FileIO) -> None:
        self.pipe = pipe
        self.end = b""

    def data_received(self, data: bytes) -> None:
        """Pass on the data."""
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()
        self.end = (self.end + data)[-_KEPT_BYTES:]

    def drain(self) -> None:
        """Pass on the data in the pipe."""
        while not self.pipe.closed and (data := self.pipe.read(_KEPT_BYTES)):
            self.data_received(data)
