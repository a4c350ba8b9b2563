"""Working: runs handlers in threads, for the client without asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, TypeVar

from headgate.client.blocking.portal import Portal
from headgate.client.group import Worked
from headgate.client.job import Job

B = TypeVar("B")
W = TypeVar("W", bound=Worked)
"""`B`: a job without asyncio. `W`: a group, or a group over a pattern."""

_LOOK_S = 0.2


class Working(Generic[W, B]):
    """The part of a group without asyncio that calls handlers of the program."""

    _inner: W
    _portal: Portal
    _blocking_job: Callable[[Job, Portal], B]

    def work(
        self,
        handler: Callable[[B], object],
        *,
        concurrency: int = 1,
        consumer: str | None = None,
        credit: int | None = None,
        claim_idle_ms: int | None = None,
        on_error: Callable[[B, Exception], object] | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        """Process entries until SIGTERM or SIGINT arrives, or `stop` is set.

        Like `Group.work` of `AsyncClient`, but handlers are plain functions that run in threads. It
        also ends when the stream is closed and the group has settled all of its entries.

        Args:
            handler: A function that takes a job.
            concurrency: Number of handlers that run concurrently, each in a thread.
            consumer: Name of the consumer. None: the gateway generates one, and removes it at the
                end.
            credit: Maximum number of entries in this program. Default: twice `concurrency`, at
                least 64.
            claim_idle_ms: See `consume`.
            on_error: Called with a job and its error, instead of logging the error.
            stop: Ends the work when it is set. If given, signals are not handled.
        """
        with contextlib.ExitStack() as signals:
            if stop is None:
                stop = threading.Event()
                _stop_at_signals(stop, signals)
            pool = signals.enter_context(ThreadPoolExecutor(concurrency, "headgate worker"))

            async def handle(job: Job) -> None:
                await _in_thread(pool, handler, self._blocking_job(job, self._portal))

            def report(job: Job, error: Exception) -> None:
                if on_error is not None:
                    on_error(self._blocking_job(job, self._portal), error)

            working = partial(
                self._inner.work,
                handle,
                concurrency=concurrency,
                consumer=consumer,
                credit=credit,
                claim_idle_ms=claim_idle_ms,
                on_error=None if on_error is None else report,
            )
            self._portal.call(_work(working, stop))


async def _in_thread(pool: ThreadPoolExecutor, handler: Callable[[B], object], job: B) -> None:
    try:
        handling = asyncio.get_running_loop().run_in_executor(pool, handler, job)
    except RuntimeError as error:
        if "shutdown" not in str(error):
            raise
        # The program is ending and cannot start threads. The job goes back with the connection.
        await asyncio.Event().wait()
    else:
        await handling


async def _work(work: Callable[..., Coroutine[Any, Any, None]], stop: threading.Event) -> None:
    stopping = asyncio.Event()
    working = asyncio.ensure_future(work(stop=stopping))
    try:
        while not working.done():
            if stop.is_set():
                stopping.set()
            await asyncio.wait([working], timeout=_LOOK_S)
        await working
    finally:
        working.cancel()  # the caller no longer waits, and its threads are about to end


def _stop_at_signals(stop: threading.Event, signals: contextlib.ExitStack) -> None:
    """Set `stop` on SIGTERM and SIGINT. Does nothing outside the main thread."""
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(ValueError):
            before = signal.signal(number, lambda *_: stop.set())
            signals.callback(signal.signal, number, before)
