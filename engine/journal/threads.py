"""Threads of a disk: what blocks is done there, and the event loop is told when it is done."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from headgate.engine.eager import Completion

T = TypeVar("T")


class _Act(NamedTuple):
    """What a thread is to do, and who waits for that."""

    act: Callable[[], Any]
    done: Completion[Any]
    loop: asyncio.AbstractEventLoop


class Threads:
    """Some threads that take what there is to do from one queue.

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
        if self._is_over:
            raise RuntimeError("the threads have ended")
        if not self._are_started:
            self._start()
        done: Completion[T] = Completion()
        self._acts.put(_Act(act, done, asyncio.get_running_loop()))
        return await done

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
    try:
        complete = partial(done.succeed, taken.act())
    except BaseException as error:  # noqa: BLE001 it is raised where the call waits
        complete = partial(done.fail, error)
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        taken.loop.call_soon_threadsafe(complete)
