"""Leases: of several gateways, one at a time delivers the entries of a push.

The lease is an attribute of the push's stream: who has it, and until when by the clock of the
servers. Whoever finds it over takes it. Entries that are pending with a gateway that has died are
released by the leases of the backend, as those of any connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from secrets import token_hex
from typing import Any

import msgspec

from headgate.app.scheduling.runner import Perform
from headgate.engine.errors import StreamNotFound, StreamsChanged, Unavailable
from headgate.engine.requests.attributes import AttributeChange, ChangeAttributes, GetAttributes
from headgate.engine.requests.keyspace import TellTime

LEASE_MS = 15_000
_RENEWALS = 3
_END_S = 1.0
_ATTRIBUTE = b"lease"


class _Lease(msgspec.Struct, array_like=True, frozen=True):
    holder: str
    until_ms: int


class PushLease:
    """The lease of a push, for one who wants it."""

    def __init__(self, perform: Perform, name: bytes) -> None:
        """Want the lease.

        Args:
            perform: carries out requests.
            name: of the push's stream.
        """
        self._perform, self._name = perform, name
        self._holder = token_hex(8)
        self._raw: bytes | None = None
        self.wait_s = LEASE_MS / 1000

    async def take(self) -> bool:
        """Take the lease, unless another gateway has it; tells whether it was taken.

        If not, `wait_s` says when to try again.

        Raises:
            Unavailable: nothing can be read or changed now.
        """
        try:
            there = await self._perform(GetAttributes(self._name, [_ATTRIBUTE]))
        except StreamNotFound:
            return False
        raw, now_ms = there.get(_ATTRIBUTE), await self._perform(TellTime())
        if raw is not None:
            left_ms = msgspec.json.decode(raw, type=_Lease).until_ms - now_ms
            if left_ms > 0:
                self.wait_s = min(left_ms, LEASE_MS) / 1000
                return False
        return await self._write(raw, now_ms)

    async def keep_while(self, work: Coroutine[Any, Any, None]) -> None:
        """Renew the lease while there is work; the work ends when the lease is lost.

        Raises:
            Exception: the work has failed.
        """
        working = asyncio.create_task(work)
        keeping = asyncio.create_task(self._keep())
        try:
            await asyncio.wait([working, keeping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            keeping.cancel()
            if not working.done():
                working.cancel()
            await asyncio.gather(working, keeping, return_exceptions=True)
        if not working.cancelled():
            working.result()

    async def _keep(self) -> None:
        """Renew it until it is lost."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + LEASE_MS / 1000
        while loop.time() < until_s:
            await asyncio.sleep(LEASE_MS / 1000 / _RENEWALS)
            begun_s = loop.time()
            try:
                if not await self._write(self._raw, await self._perform(TellTime())):
                    return
            except Unavailable:  # nobody else can take it now
                continue
            until_s = begun_s + LEASE_MS / 1000

    async def end(self) -> None:
        """Leave it to others."""
        with suppress(Unavailable, StreamNotFound, StreamsChanged, TimeoutError):
            async with asyncio.timeout(_END_S):
                await self._perform(self._changed(self._raw, None))

    async def _write(self, before: bytes | None, now_ms: int) -> bool:
        raw = msgspec.json.encode(_Lease(self._holder, now_ms + LEASE_MS))
        try:
            await self._perform(self._changed(before, raw))
        except (StreamsChanged, StreamNotFound):
            return False
        self._raw = raw
        return True

    def _changed(self, before: bytes | None, after: bytes | None) -> ChangeAttributes:
        return ChangeAttributes(
            self._name, AttributeChange({_ATTRIBUTE: after}, {_ATTRIBUTE: before})
        )
