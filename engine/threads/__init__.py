"""Threads: what blocks or takes long is done there, and the event loop is told when it is done."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar, cast

from headgate.engine.eager import Completion

T = TypeVar("T")


class _Act(NamedTuple):
    """A call for a thread, with the completion of its caller; None: nobody waits."""

    act: Callable[[], Any]
    done: Completion[Any] | None
    loop: asyncio.AbstractEventLoop


class Threads:
    """Some threads that take what there is to do from one queue.

    Each kind of work has threads of its own, so that none waits for another kind. They end with the
    process, or with `shutdown`.

    A journal writes thousands of times a second, so this has no future for each call. That takes
    half of the time of a `ThreadPoolExecutor`.
    """

    def __init__(self, count: int, name: str) -> None:
        """Get ready; the threads start with the first call.

        Args:
            count: how many there are.
            name: what they are called.
        """
        self._acts: SimpleQueue[_Act | None] = SimpleQueue()
        self._threads = [
            Thread(target=self._run, name=f"{name}_{number}", daemon=True)
            for number in range(count)
        ]
        self._are_started = self._is_over = False

    async def call(self, act: Callable[[], T]) -> T:
        """Call a function in a thread. It is called also if this is cancelled.

        Raises:
            OSError: the system refuses the first thread.
            RuntimeError: `shutdown` was called.
        """
        done: Completion[T] = Completion()
        self._put(act, done)
        return await done

    async def call_if_awaited(self, act: Callable[[], T]) -> T:
        """Call a function in a thread, unless this is cancelled before it begins.

        Raises:
            OSError: the system refuses the first thread.
            RuntimeError: `shutdown` was called.
        """
        is_awaited = True

        def act_if_awaited() -> T | None:
            return act() if is_awaited else None

        done: Completion[T | None] = Completion()
        self._put(act_if_awaited, done)
        try:
            return cast("T", await done)
        finally:
            is_awaited = False

    def begin(self, act: Callable[[], object]) -> None:
        """Let a thread call a function, for which nobody waits.

        Raises:
            OSError: the system refuses the first thread.
            RuntimeError: `shutdown` was called.
        """
        self._put(act, None)

    def _put(self, act: Callable[[], Any], done: Completion[Any] | None) -> None:
        if self._is_over:
            raise RuntimeError("the threads have ended")
        if not self._are_started:
            self._start()
        self._acts.put(_Act(act, done, asyncio.get_running_loop()))

    def _start(self) -> None:
        """Start the threads that do not run yet. The first one can do all, if it has to."""
        try:
            for thread in self._threads:
                if thread.ident is None:
                    thread.start()
            self._are_started = True
        except RuntimeError as error:
            if self._threads[0].ident is None:
                raise OSError(errno.EAGAIN, str(error)) from None

    def shutdown(self) -> None:
        """Return when everything is done. No call may begin from here on."""
        self._is_over = True
        started = [thread for thread in self._threads if thread.ident is not None]
        for _ in started:
            self._acts.put(None)
        for thread in started:
            thread.join()

    def _run(self) -> None:
        while (taken := self._acts.get()) is not None:
            _do(taken)
            del taken  # it may hold much


def _do(taken: _Act) -> None:
    done = taken.done
    complete: Callable[[], None]
    try:
        result = taken.act()
    except BaseException as error:  # noqa: BLE001 it is raised where the call waits
        complete = (
            partial(_report, taken.loop, error) if done is None else partial(done.fail, error)
        )
    else:
        if done is None:
            return
        complete = partial(done.succeed, result)
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        taken.loop.call_soon_threadsafe(complete)


def _report(loop: asyncio.AbstractEventLoop, error: BaseException) -> None:
    """Tell of an error for which nobody waits."""
    loop.call_exception_handler({"message": "a call in a thread has failed", "exception": error})
