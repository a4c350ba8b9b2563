"""Threads: what blocks or takes long is done there, and the event loop is told when it is done."""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

from headgate.engine.eager import Completion
from headgate.engine.limits import BEGUN_AT_ONCE_MAX, TURN_MS_MAX

T = TypeVar("T")


class _Act(NamedTuple):
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
        """Get ready; the threads start with the first call."""
        self._acts: SimpleQueue[_Act | None] = SimpleQueue()
        self._threads = [
            Thread(target=self._run, name=f"{name}_{number}", daemon=True)
            for number in range(count)
        ]
        self._are_started = self._is_over = False

    async def call(self, act: Callable[[], T]) -> T:
        """Call a function in a thread, even if this is cancelled before it begins.

        Raises OSError if the system refuses the first thread, RuntimeError after `shutdown`.
        """
        done: Completion[T] = Completion()
        self._put(act, done)
        return await done

    async def call_if_awaited(self, act: Callable[[], T]) -> T:
        """Call a function in a thread, unless this is cancelled first; raises as `call`."""
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
        """Let a thread call a function, for which nobody waits; raises as `call`."""
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
    loop.call_exception_handler({"message": "a call in a thread has failed", "exception": error})


# Turn: the time that long work has in one turn of the event loop, all of it together.
#
# Whoever has much to do does it in parts, each of them short. Many who do so at once would hold
# the loop for as long as all their parts take. So all of them share `TURN_MS_MAX` of each turn of
# the loop, and whoever finds it used up goes on in a later turn, in order of arrival. Those who
# begin come before those who go on, of whom one has a part in each turn.


def this_turn() -> Turn:
    loop = asyncio.get_running_loop()
    turn = _turns.get(loop)
    if turn is None:
        turn = _turns[loop] = Turn(loop)
    return turn


async def filter_in_turns(items: Iterable[T], holds: Callable[[T], bool]) -> list[T]:
    """Return the items of which something holds. Others have their turns meanwhile."""
    turn, those = this_turn(), []
    for item in items:
        if holds(item):
            those.append(item)
        await turn.pause()
    return those


class Turn:
    __slots__ = (
        "_beginning",
        "_call_soon",
        "_create_future",
        "_going_on",
        "_over_s",
        "_time",
        "_woken_in_vain",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon, self._time = loop.call_soon, loop.time
        self._create_future = loop.create_future
        self._over_s: float | None = None  # when it is used up; None: nobody has asked
        self._beginning: deque[asyncio.Future[bool]] = deque()
        self._woken_in_vain: list[asyncio.Future[bool]] = []  # they are the first in the next turn
        self._going_on: deque[Callable[[], object]] = deque()

    @property
    def is_over(self) -> bool:
        now_s = self._time()
        if self._over_s is None:
            self._over_s = now_s + TURN_MS_MAX / 1000
            self._call_soon(self._next)
        return now_s >= self._over_s

    async def begin(self) -> None:
        """Return in a turn that has time for a first part: at once, if this one has."""
        if not (self.is_over or self._beginning):
            return
        place = self._create_future()
        self._beginning.append(place)
        while not await place and self.is_over:  # those who were woken before took all of the time
            place = self._create_future()
            self._woken_in_vain.append(place)

    async def pause(self) -> None:
        """Return in a turn that has time for another part: at once, if this one has."""
        if self.is_over:
            woken = asyncio.Event()
            self.call_later(woken.set)
            await woken.wait()

    async def end(self) -> None:
        """Let others run, and return in a turn that has time for another part."""
        await asyncio.sleep(0)
        await self.pause()

    def call_later(self, callback: Callable[[], object]) -> None:
        _ = self.is_over  # or else no next turn may be noticed
        self._going_on.append(callback)

    def _next(self) -> None:
        """Begin the next turn: wake some of those that begin, and one of the others."""
        self._over_s = None
        self._beginning.extendleft(reversed(self._woken_in_vain))
        self._woken_in_vain.clear()
        is_first = True  # it has its part in any case
        for _ in range(min(len(self._beginning), BEGUN_AT_ONCE_MAX)):
            place = self._beginning.popleft()
            if not place.done():  # it may have given up
                place.set_result(is_first)
                is_first = False
        if not is_first or self._beginning or self._going_on:
            _ = self.is_over  # their time begins, and behind them comes the next turn
        if self._going_on:
            self._going_on.popleft()()


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turn] = WeakKeyDictionary()
