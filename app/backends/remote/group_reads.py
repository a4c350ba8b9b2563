"""Group reads: they block in the engine, which serves the readers of all workers in order."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from headgate.app.backends.remote.blocked import BlockedReads
from headgate.app.backends.remote.calls import Calls
from headgate.engine.eager import EagerCall
from headgate.engine.errors import StreamError
from headgate.engine.replies import GroupRead
from headgate.engine.requests.deliveries import GiveBack, ReadGroup


class RemoteGroupReads:
    """Reads as a consumer of a group."""

    def __init__(self, calls: Calls, blocked: BlockedReads) -> None:
        """Get ready.

        Args:
            calls: carries out requests.
            blocked: counts the reads that wait.
        """
        self._calls = calls
        self._blocked = blocked
        self._giving_back: set[EagerCall] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def read(self, request: ReadGroup) -> list[GroupRead]:
        """Read as a consumer of a group, and block if there is nothing to read (XREADGROUP BLOCK).

        If the caller is cancelled, the engine gives back what it was about to deliver. What the
        engine has answered by then is given back from here.
        """
        on_late = partial(self._give_back, request)
        if request.wait_ms == 0:
            return await self._calls.perform(request, on_late)
        refusal = self._blocked.refusal
        if refusal is not None:
            return await self._read_at_once(request, refusal)
        with self._blocked.waiting([(each.stream, request.group) for each in request.cursors]):
            return await self._calls.perform(request, on_late, waits=True)

    async def _read_at_once(self, request: ReadGroup, refusal: StreamError) -> list[GroupRead]:
        """Read without waiting, because no read may wait.

        Args:
            request: as it came.
            refusal: is raised if there is nothing to read, or if the request would acknowledge
                before it waits.
        """
        if request.acked:
            raise refusal
        at_once = replace(request, wait_ms=0)
        reads = await self._calls.perform(at_once, partial(self._give_back, at_once))
        if not any(read.served for read in reads):
            raise refusal
        return reads

    def _give_back(self, request: ReadGroup, reads: list[GroupRead]) -> None:
        """Give back what was delivered to a reader that has gone."""
        for cursor, read in zip(request.cursors, reads, strict=False):
            if cursor.after is None and read.deliveries and not request.no_ack:
                counts = {delivery.id: delivery.delivery_count for delivery in read.deliveries}
                giving_back = GiveBack(read.stream, request.group, request.consumer, counts)
                call = EagerCall(self._perform(giving_back), self._note_end)
                self._giving_back.add(call)
                self._is_idle.clear()
                call.start()  # it is sent before anything that follows

    def _note_end(self, call: EagerCall) -> None:
        self._giving_back.discard(call)
        if not self._giving_back:
            self._is_idle.set()

    async def _perform(self, giving_back: GiveBack) -> None:
        with suppress(StreamError):  # without the engine the entries become idle
            await self._calls.perform(giving_back)

    async def close(self) -> None:
        """Return when everything is given back that has to be."""
        await self._is_idle.wait()
