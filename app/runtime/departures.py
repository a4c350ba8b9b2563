"""Departures: connections that end at once are handled in several turns of the event loop.

The event loop reports all connections that have ended in one turn. Each of them wakes a handful of
tasks. If thousands were woken together, the loop would do nothing else for a second.
"""

import asyncio
from collections import deque
from collections.abc import Callable

LEAVERS_AT_ONCE_MAX = 8
"""Seen to in one turn of the event loop. The tasks of one take about 0.3 ms."""


class Departures:
    """The connections that have ended and wait for their turn; mostly there are none."""

    def __init__(self) -> None:
        """Begin with none."""
        self._waiting: deque[Callable[[], None]] = deque()
        self._seen_to_count = 0  # in this turn

    def __len__(self) -> int:
        """Return the number of waiting departures."""
        return len(self._waiting)

    def add(self, leave: Callable[[], None]) -> None:
        """Call `leave` now, or in a later turn if many leave."""
        if self._seen_to_count >= LEAVERS_AT_ONCE_MAX or self._waiting:
            self._waiting.append(leave)
            return
        if not self._seen_to_count:
            asyncio.get_running_loop().call_soon(self._take_turn)
        self._seen_to_count += 1
        leave()

    def _take_turn(self) -> None:
        self._seen_to_count = min(len(self._waiting), LEAVERS_AT_ONCE_MAX)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._take_turn)
        for _ in range(self._seen_to_count):
            self._waiting.popleft()()
