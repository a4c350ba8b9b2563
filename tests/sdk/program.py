"""A program in another language that goes on, and says what happens to it in lines of JSON."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.conditions import WITHIN_S


class Program:
    """The output of a running program so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.lines: list[dict[str, Any]] = []

    def all(self, key: str) -> list[Any]:
        """Return everything that it has said under a key."""
        return [line[key] for line in self.lines if key in line]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return as soon as its lines make the condition true."""
        assert self._process.stdout is not None
        async with asyncio.timeout(WITHIN_S):
            while not condition():
                line = await self._process.stdout.readline()
                assert line, f"it has ended, and said {self.lines}"
                self.lines.append(json.loads(line))

    async def write_line(self, line: str) -> None:
        """Write a line to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        await self._process.stdin.drain()

    async def end(self) -> None:
        """Close its input, and return once it has ended well."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(WITHIN_S):
            remaining, _ = await self._process.communicate()
        self.lines += [json.loads(line) for line in remaining.splitlines()]
        assert self._process.returncode == 0


@asynccontextmanager
async def running_program(*command: str | Path, folder: Path) -> AsyncIterator[Program]:
    """Run a program while the context lasts."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        cwd=folder,
        env={**os.environ, "NODE_NO_WARNINGS": "1"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Program(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
