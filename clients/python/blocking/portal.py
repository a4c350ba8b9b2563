"""Portal: an event loop in its own thread, which runs the client without asyncio.

In its thread, the client restarts idle times and answers pings even while the program is busy.

A program may end with an open client. Python stops daemon threads before it finalizes the remaining
objects, including iterators of the client. An iterator that then waited for the thread would wait
forever. Therefore all portals are closed before that, when the program ends. A closed portal runs
nothing more: `call` raises, and `end` does nothing.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeVar

from headgate.client.subscription import Closed

T = TypeVar("T")

_END_S = 2.0
"""Timeout for ending tasks. Closing a connection to a gateway that hangs takes longest."""

_JOIN_S = 3 * _END_S
"""Timeout for ending the thread. Only a callback of the program can take longer."""


class Portal:
    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._changing = threading.Lock()
        self._is_closed = False
        _program.add(self)

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, and return its result or raise its error.

        Raises Closed if the client was closed, or the program is ending or was forked. Raises
        RuntimeError on the thread of the loop, which would wait for itself.
        """
        try:
            future = self._begin(coroutine)
        except BaseException:
            coroutine.close()
            raise
        try:
            return future.result()
        except BaseException as error:
            future.cancel()  # has no effect if the coroutine raised the error
            _program.hold_daemon()
            if isinstance(error, concurrent.futures.CancelledError) and self._is_over:
                raise Closed("the client was closed") from None
            raise

    def run(self, function: Callable[[], object]) -> None:
        self.call(_called(function))

    def step(self, iterator: AsyncIterator[T]) -> T:
        item, is_over = self.call(_next(iterator))
        if is_over:
            raise StopIteration
        return item

    def iterate(self, iterator: AsyncIterator[T]) -> Iterator[T]:
        while True:
            item, is_over = self.call(_next(iterator))
            if is_over:
                return
            yield item

    def end(self, coroutine: Coroutine[Any, Any, object]) -> object:
        """Run a coroutine that closes something. Does nothing if the portal is closed."""
        if threading.current_thread() is self._thread and self._loop is not None:
            # The garbage collector may end an iterator in any thread, including this one.
            asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            return None
        try:
            return self.call(coroutine)
        except Closed:
            if not self._is_over:
                raise
        return None

    def close(self) -> None:
        with self._changing:
            self._is_closed = True
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is None or thread is None or not thread.is_alive():
            return  # after a fork, there is no thread, but the pipe that wakes it is shared
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(_JOIN_S)

    @property
    def _is_over(self) -> bool:
        is_stranded = self._thread is not None and not self._thread.is_alive()
        return self._is_closed or is_stranded or _program.is_ending

    def _begin(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Schedule a coroutine. The lock ensures that `close` does not miss it."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("a callback of the client must not wait for the client")
        with self._changing:
            if self._is_over:
                raise Closed("the client was closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run, args=(self._loop,), name="headgate client", daemon=True
                )
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


class _Program:
    def __init__(self) -> None:
        self._portals: weakref.WeakSet[Portal] = weakref.WeakSet()
        self._is_watched = False
        self.is_ending = False

    def add(self, portal: Portal) -> None:
        """Close a portal when the program ends.

        Exit handlers that the program registered later run earlier, and can use the client.
        """
        if not self._is_watched:
            self._is_watched = True
            atexit.register(self._end)
        self._portals.add(portal)

    def hold_daemon(self) -> None:
        """At exit, block a daemon thread instead of failing it: Python is about to stop it."""
        if self.is_ending and threading.current_thread() is not threading.main_thread():
            threading.Event().wait()

    def _end(self) -> None:
        self.is_ending = True
        for portal in list(self._portals):
            portal.close()


_program = _Program()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_end_tasks())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _end_tasks() -> None:
    for _ in range(2):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_END_S)


async def _called(function: Callable[[], object]) -> None:
    function()


async def _next(iterator: AsyncIterator[T]) -> tuple[T, bool]:
    async for item in iterator:
        return item, False
    return None, True  # type: ignore[return-value]  # unused
