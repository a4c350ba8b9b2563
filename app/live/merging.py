"""Merging: several sources in one."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Generic, TypeVar

T = TypeVar("T")


async def merged(*sources: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """Yield parts of several sources as they come, until the first source ends or fails.

    Each waits until its part is taken. All that are ready have their turn before any has a second
    one. When this ends, so have they.
    """
    table = _Table[T]()
    tasks = [asyncio.create_task(table.bring(source)) for source in sources]
    try:
        while True:
            while table.parts:
                part, taken = table.parts.pop(0)
                yield part
                taken.set_result(None)
            if table.is_over:
                table.end()
                return
            await table.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for source in sources:  # also one that has not begun
            await source.aclose()


class _Table(Generic[T]):
    """A table for the parts of sources, one part of each at a time, until it is taken."""

    __slots__ = ("_changed", "_error", "_loop", "is_over", "parts")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = self._loop.create_future()
        self._error: Exception | None = None
        self.parts: list[tuple[T, asyncio.Future[None]]] = []
        self.is_over = False  # a source has ended

    async def bring(self, source: AsyncGenerator[T, None]) -> None:
        """Lay down the parts of a source; when this is cancelled, its reads are undone."""
        try:
            async with aclosing(source) as parts:
                async for part in parts:
                    taken = self._loop.create_future()
                    self.parts.append((part, taken))
                    self._wake()
                    await taken
        except Exception as error:  # noqa: BLE001
            self._error = self._error or error
        finally:
            self.is_over = True
            self._wake()

    def end(self) -> None:
        """Raise the error of a source, if one failed, and forget it.

        An error knows the frames it came through. If one of them knew the error, both would wait
        for the garbage collector.
        """
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error

    async def wait(self) -> None:
        """Wait until something has changed since the last time."""
        await self._changed
        self._changed = self._loop.create_future()

    def _wake(self) -> None:
        if not self._changed.done():
            self._changed.set_result(None)
