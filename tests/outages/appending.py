"""A client that appends while servers fail, and notes the answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headgate.app.backends.port import Backend
from headgate.engine.entry import Draft
from headgate.engine.errors import Unavailable
from headgate.engine.requests.entries import Add, Range
from tests.conditions import WITHIN_S, eventually

RETRY_S = 0.01


class Appender:
    """Appends numbers to a stream, one after the other."""

    def __init__(self, backend: Backend, stream: bytes) -> None:
        self.answered: list[int] = []
        self.refused: list[int] = []  # may be there or not
        self._backend = backend
        self._stream = stream
        self._next = 0

    async def append(self) -> bool:
        """Append the next number, and tell whether it was answered."""
        number = self._next
        self._next += 1
        try:
            await self._backend.perform(Add(self._stream, [Draft(None, (b"n", b"%d" % number))]))
        except Unavailable:
            self.refused.append(number)
            return False
        self.answered.append(number)
        return True

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Append all the time while the context lasts, and until an append is answered after it."""
        ends = asyncio.Event()

        async def go_on() -> None:
            is_answered = False
            while not ends.is_set() or not is_answered:
                is_answered = await self.append()
                await asyncio.sleep(0 if is_answered else RETRY_S)

        task = asyncio.create_task(go_on())
        try:
            yield
        finally:
            ends.set()
            async with asyncio.timeout(WITHIN_S):
                await task

    async def kept(self) -> list[int]:
        """Return the numbers that are in the stream."""
        entries = await self._backend.perform(Range(self._stream))
        return [int(entry.fields[1]) for entry in entries]


async def until_served(backend: Backend, stream: bytes) -> None:
    """Return once appends to a stream are answered."""
    appender = Appender(backend, stream)
    await eventually(appender.append, bool)
