"""Places: requests at a time, shared so that nobody who is slow keeps others waiting."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager, suppress


class Places:
    """Places for requests.

    A holder gets another place while it has fewer than are free. So one that is slow takes half of
    them at most, several of them leave as much free as each of them has, and whoever has none gets
    one next (dynamic thresholds: Choudhury and Hahne, 1998).
    """

    def __init__(self, count: int) -> None:
        """Begin with so many, all of them free."""
        self._free = count
        self._held: Counter[Hashable] = Counter()
        self._firsts: deque[tuple[Hashable, asyncio.Future[None]]] = deque()  # who has none
        self._others: deque[tuple[Hashable, asyncio.Future[None]]] = deque()

    def take(self, holder: Hashable) -> bool:
        """Take a place, if the holder gets another; tells whether it does."""
        if self._held[holder] >= self._free:
            self._forget(holder)
            return False
        self._free -= 1
        self._held[holder] += 1
        return True

    def give(self, holder: Hashable) -> None:
        """Give a place back."""
        self._free += 1
        self._held[holder] -= 1
        self._forget(holder)
        self._wake()

    async def wait(self, holder: Hashable) -> None:
        """Take a place, once the holder gets another."""
        while not self.take(holder):
            coming = asyncio.get_running_loop().create_future()
            waiting = self._others if self._held[holder] else self._firsts
            self._forget(holder)
            waiting.append((holder, coming))
            try:
                await coming
            except asyncio.CancelledError:
                with suppress(ValueError):
                    waiting.remove((holder, coming))
                if coming.done() and not coming.cancelled():
                    self._wake()  # the place is for the next
                raise

    @asynccontextmanager
    async def within(self, holder: Hashable) -> AsyncIterator[None]:
        """Wait for a place, and keep it."""
        await self.wait(holder)
        try:
            yield
        finally:
            self.give(holder)

    def _wake(self) -> None:
        """Wake the next who may get a place."""
        for waiting in (self._firsts, self._others):
            while waiting:
                holder, coming = waiting[0]
                has = self._held[holder]
                self._forget(holder)
                if has >= self._free:
                    break
                waiting.popleft()
                if not coming.done():
                    coming.set_result(None)
                    return

    def _forget(self, holder: Hashable) -> None:
        if not self._held[holder]:
            del self._held[holder]
