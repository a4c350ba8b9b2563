"""Turn: the time that long work has in one turn of the event loop, all of it together.

Whoever has much to do does it in parts, each of them short. Many who do so at once would hold the
loop for as long as all their parts take. So all of them share `TURN_MS_MAX` of each turn of the
loop, and whoever finds it used up goes on in a later turn, in order of arrival. Those who begin
come before those who go on, of whom one has a part in each turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary

from headgate.engine.limits import BEGUN_AT_ONCE_MAX, TURN_MS_MAX


def this_turn() -> Turn:
    """Return the turn of the running event loop."""
    loop = asyncio.get_running_loop()
    turn = _turns.get(loop)
    if turn is None:
        turn = _turns[loop] = Turn(loop)
    return turn


class Turn:
    """The time that is left for long work, from turn to turn of an event loop."""

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
        """Start with all of the time."""
        self._call_soon, self._time = loop.call_soon, loop.time
        self._create_future = loop.create_future
        self._over_s: float | None = None  # when it is used up; None: nobody has asked
        self._beginning: deque[asyncio.Future[bool]] = deque()
        self._woken_in_vain: list[asyncio.Future[bool]] = []  # they are the first in the next turn
        self._going_on: deque[Callable[[], object]] = deque()

    @property
    def is_over(self) -> bool:
        """Tell whether the time is used up."""
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
        """Call back in a later turn that has time."""
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
