"""Settling: what requests have come to is written down, as many as there are at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headgate.app.push.bodies import PushRequest
from headgate.app.scheduling.runner import Perform
from headgate.engine.entry import EntryId
from headgate.engine.errors import Unavailable
from headgate.engine.requests.deliveries import Ack, Nack, NackMode

_PAUSE_S = 1.0
_SETTLED_AT_ONCE = 1_000


class PushFailure(NamedTuple):
    """The failure of a request."""

    error: str
    delay_ms: int  # before the next delivery
    mode: NackMode = NackMode.FAIL


class Settlement(NamedTuple):
    """The settlement of a request; without a failure it is acknowledged."""

    request: PushRequest
    failure: PushFailure | None


class Settling:
    """Settles entries of one consumer, in the order in which their requests ended."""

    def __init__(
        self,
        perform: Perform,
        place: tuple[bytes, bytes, bytes],
        on_settled: Callable[[PushRequest], None],
    ) -> None:
        """Get ready to run.

        Args:
            perform: carries out requests.
            place: stream, group, consumer.
            on_settled: called when a request is settled.
        """
        self._perform, self._on_settled = perform, on_settled
        self._stream, self._group, self._consumer = place
        self._settlements: deque[Settlement] = deque()
        self._news = asyncio.Event()

    def add(self, settlement: Settlement) -> None:
        """Settle a request soon."""
        self._settlements.append(settlement)
        self._news.set()

    async def run(self) -> None:
        """Settle, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._settlements:
                await self._settle()

    async def _settle(self) -> None:
        """Settle the first settlements that go together, and again until that is done."""
        failure, settled = self._settlements[0].failure, list[PushRequest]()
        ids = list[EntryId]()
        for settlement in self._settlements:
            if settlement.failure != failure or len(ids) >= _SETTLED_AT_ONCE:
                break
            settled.append(settlement.request)
            ids += settlement.request.ids
        try:
            await self._write(ids, failure)
        except Unavailable:  # nothing can be changed now
            await asyncio.sleep(_PAUSE_S)
            return
        for request in settled:
            self._settlements.popleft()
            self._on_settled(request)

    async def _write(self, ids: Sequence[EntryId], failure: PushFailure | None) -> None:
        place = self._stream, self._group, ids
        if failure is None:
            await self._perform(Ack(*place, self._consumer))
            return
        await self._perform(
            Nack(
                *place,
                failure.mode,
                failure.delay_ms,
                failure.error.encode(),
                self._consumer,
            )
        )
