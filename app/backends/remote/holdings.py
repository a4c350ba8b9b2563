"""Holdings: what the connections of all workers read as, and its release when a worker ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from headgate.app.backends.port import Holding
from headgate.app.backends.releasing import Perform, delete_consumer, release_pending
from headgate.engine.errors import StreamError


class Holdings:
    """The consumers that the connections of all workers read as."""

    def __init__(self, perform: Perform) -> None:
        """Start with nothing.

        Args:
            perform: carries out requests.
        """
        self._perform = perform
        self._held: Counter[Holding] = Counter()

    def add(self, holding: Holding) -> None:
        """Note that one connection more reads as a consumer."""
        self._held[holding] += 1

    def remove(self, holding: Holding) -> None:
        """Note that a connection less does."""
        self._held[holding] -= 1
        if self._held[holding] <= 0:
            del self._held[holding]

    def is_held(self, holding: Holding) -> bool:
        """Tell whether any connection reads as a consumer."""
        return holding in self._held

    async def release(self, holdings: Iterable[Holding]) -> None:
        """Release the entries of consumers that no connection reads as any more.

        A consumer that another connection reads as keeps what it holds: that connection has read it
        when it began.
        """
        for holding in holdings:
            if not self.is_held(holding):
                with suppress(StreamError):  # the group is gone, or the engine cannot change
                    await self._release(holding)

    async def _release(self, holding: Holding) -> None:
        if holding.is_temporary:
            await delete_consumer(self._perform, holding)
        else:
            await release_pending(self._perform, holding)
