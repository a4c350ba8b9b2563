"""Prober: asks a gateway for its health on a connection of its own, and tells the longest answer.

It is a program, so that whatever the caller is busy with does not count. Each line it is sent is
answered by one line: the longest answer (ms) since the line before, then the median of all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import statistics
import sys
import time
from typing import NamedTuple, Self

_ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
_PAUSE_S = 0.002
_KEPT = 1000


class Longest(NamedTuple):
    """The times of answers since the last time."""

    longest_ms: float
    median_ms: float


class Prober:
    """The program, as seen by who started it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, port: int) -> Self:
        """Begin to ask the gateway at this port."""
        pipe = asyncio.subprocess.PIPE
        words = sys.executable, "-m", "tests.stalls.prober", str(port)
        return cls(await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe))

    async def longest(self) -> Longest:
        """Return the longest answer since the last call. It waits for one that is due."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        line = await self._process.stdout.readline()
        return Longest(*map(float, line.split())) if line else Longest(0, 0)

    async def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


def _ask(connection: socket.socket) -> float:
    started_s = time.perf_counter()
    connection.sendall(_ASK)
    answer = connection.recv(65536)
    if not answer:
        raise ConnectionError
    return (time.perf_counter() - started_s) * 1000


def main(port: int) -> None:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    longest_ms, answers_ms = 0.0, [_ask(connection)]
    while True:
        with contextlib.suppress(ConnectionError):  # the gateway stops
            answers_ms = [*answers_ms[-_KEPT:], _ask(connection)]
        longest_ms = max(longest_ms, answers_ms[-1])
        if select.select([sys.stdin], [], [], _PAUSE_S)[0]:
            if not os.read(sys.stdin.fileno(), 64):
                return
            print(longest_ms, statistics.median(answers_ms), flush=True)
            longest_ms = 0.0


if __name__ == "__main__":
    main(int(sys.argv[1]))
