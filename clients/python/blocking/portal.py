"""Portal: a loop in a thread of its own, on which the client without asyncio runs.

So idle clocks are restarted and pings are answered also while the program itself works.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class Portal:
    """Runs coroutines for threads that have no loop."""

    def __init__(self) -> None:
        """Start the thread with the first call."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, and return its result or raise its error."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._started())
        try:
            return future.result()
        except BaseException:
            future.cancel()  # of no effect if it is the coroutine's own error
            raise

    def run(self, function: Callable[[], object]) -> None:
        """Call a function on the loop, and wait until it has ended."""
        self.call(_called(function))

    def step(self, iterator: AsyncIterator[T]) -> T:
        """Return the next item; `StopIteration` at the end."""
        item, is_over = self.call(_next(iterator))
        if is_over:
            raise StopIteration
        return item

    def iterate(self, iterator: AsyncIterator[T]) -> Iterator[T]:
        """Yield the items of an iterator that runs on the loop."""
        while True:
            item, is_over = self.call(_next(iterator))
            if is_over:
                return
            yield item

    def close(self) -> None:
        """End the thread."""
        loop, thread, self._loop = self._loop, self._thread, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run, args=(self._loop,), name="headgate client", daemon=True
                )
                self._thread.start()
            return self._loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _called(function: Callable[[], object]) -> None:
    function()


async def _next(iterator: AsyncIterator[T]) -> tuple[T, bool]:
    async for item in iterator:
        return item, False
    return None, True  # type: ignore[return-value]  # nobody looks at it
