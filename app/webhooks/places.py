"""Places: for requests or for their bytes, shared so that the slow keep nobody waiting."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple


class Places:
    """So many places.

    A holder gets another place while it has fewer than are free. So one that is slow takes half of
    them at most, several of them leave as much free as each of them has, and whoever has none gets
    one next (dynamic thresholds: Choudhury and Hahne, 1998).
    """

    def __init__(self, count: int) -> None:
        """Begin with so many, all of them free."""
        self._free = count
        self._held: Counter[Hashable] = Counter()
        self._count = count
        self._firsts: deque[_Wait] = deque()  # of those who have none
        self._others: deque[_Wait] = deque()

    def take(self, holder: Hashable, count: int = 1) -> bool:
        """Take places together, if the holder gets them; tells whether it does.

        Args:
            holder: who wants them.
            count: how many; more than there are count as all.
        """
        count = min(count, self._count)
        if not self._has_room(holder, count):
            return False
        self._free -= count
        self._held[holder] += count
        return True

    def give(self, holder: Hashable, count: int = 1) -> None:
        """Give places back that were taken together."""
        count = min(count, self._count)
        self._free += count
        self._held[holder] -= count
        if not self._held[holder]:
            del self._held[holder]
        self._wake()

    async def wait(self, holder: Hashable, count: int = 1) -> None:
        """Take places together, once the holder gets them."""
        while not self.take(holder, count):
            wait = _Wait(
                holder, min(count, self._count), asyncio.get_running_loop().create_future()
            )
            waiting = self._others if holder in self._held else self._firsts
            waiting.append(wait)
            try:
                await wait.coming
            except asyncio.CancelledError:
                with suppress(ValueError):
                    waiting.remove(wait)
                self._wake()  # what it would have taken is for the next
                raise
        self._wake()  # there may be enough for the next as well

    @asynccontextmanager
    async def within(self, holder: Hashable) -> AsyncIterator[None]:
        """Wait for a place, and keep it."""
        await self.wait(holder)
        try:
            yield
        finally:
            self.give(holder)

    def _has_room(self, holder: Hashable, count: int) -> bool:
        return count <= self._free and self._held.get(holder, 0) < self._free

    def _wake(self) -> None:
        """Wake the next who may get the free ones."""
        for waiting in (self._firsts, self._others):
            while waiting and self._has_room(waiting[0].holder, waiting[0].wanted):
                wait = waiting.popleft()
                if not wait.coming.done():
                    wait.coming.set_result(None)
                    return


class _Wait(NamedTuple):
    holder: Hashable
    wanted: int
    coming: asyncio.Future[None]
