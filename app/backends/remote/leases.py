"""The engine knows what the connections of a worker read as.

When the connection of a worker ends, the engine at once releases what it held. A worker that
connects again, to this engine or to a restarted one, reports what it holds.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec

from headgate.app.backends.port import Holding, Perform
from headgate.app.backends.releasing import delete_consumer, give_back, release_pending
from headgate.app.backends.remote.calls import Calls
from headgate.app.backends.remote.connection import ConnectionLost, Link
from headgate.app.backends.remote.messages import Hold, Unhold
from headgate.app.runtime import periodic
from headgate.engine.entry import EntryId
from headgate.engine.errors import Draining, StreamError

_decode = msgspec.msgpack.Decoder(None).decode


class WorkerLeases:
    def __init__(self, link: Link, calls: Calls) -> None:
        self._link = link
        self._calls = calls
        self._held: Counter[Holding] = Counter()
        self._refused: Counter[Holding] = Counter()  # not registered, and not unregistered yet
        self._unreleased: deque[tuple[Holding, Mapping[EntryId, int]]] = deque()
        self._has_unreleased = asyncio.Event()

    @property
    def holdings(self) -> list[Holding]:
        """Return the consumers, each as often as a connection reads as it."""
        return list(self._held.elements())

    async def register(self, holding: Holding) -> None:
        """Note that a connection reads as a consumer; raises Disconnected."""
        try:
            connection = await self._link.connection()
        except BaseException:
            self._refused[holding] += 1
            raise
        self._held[holding] += 1
        number = connection.next_number()
        with suppress(ConnectionLost):  # the next connection begins with all that is held
            await connection.ask(number, [Hold(number, holding)], _decode)

    async def unregister(self, holding: Holding) -> None:
        """Note that a connection has ended and released what it held; raises Disconnected.

        A connection that could not be registered ends as well. It must not take away what another
        one of the same consumer has registered.
        """
        if self._refused[holding]:
            self._refused -= Counter([holding])
            return
        connection = await self._link.connection()
        self._held[holding] -= 1
        if self._held[holding] <= 0:
            del self._held[holding]
        number = connection.next_number()
        with suppress(ConnectionLost):
            await connection.ask(number, [Unhold(number, holding)], _decode)

    def release_later(self, holding: Holding, counts: Mapping[EntryId, int]) -> None:
        """Release a connection's entries and unregister it, once the engine is back."""
        self._unreleased.append((holding, counts))
        self._has_unreleased.set()

    async def run(self) -> None:
        await periodic.repeat("holdings released", self._release_next)

    async def _release_next(self) -> None:
        if not self._unreleased:
            self._has_unreleased.clear()
            await self._has_unreleased.wait()
        try:
            await self._link.connection(is_patient=True)
        except Draining:  # the engine releases what this worker holds when it has ended
            await asyncio.Event().wait()
        try:
            await self._release(*self._unreleased[0])
        except BaseException:  # the others are not to wait for it
            self._unreleased.rotate(-1)
            raise
        self._unreleased.popleft()

    async def _release(self, holding: Holding, counts: Mapping[EntryId, int]) -> None:
        await give_back(self._calls.perform, holding, counts)
        await self.unregister(holding)


class Holdings:
    def __init__(self, perform: Perform) -> None:
        self._perform = perform
        self._held: Counter[Holding] = Counter()

    def add(self, holding: Holding) -> None:
        self._held[holding] += 1

    def remove(self, holding: Holding) -> None:
        self._held[holding] -= 1
        if self._held[holding] <= 0:
            del self._held[holding]

    def is_held(self, holding: Holding) -> bool:
        return holding in self._held

    async def release(self, holdings: Iterable[Holding]) -> None:
        """Release the entries of consumers that no connection reads as any more.

        A consumer that another connection reads as keeps what it holds: that connection read it
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
