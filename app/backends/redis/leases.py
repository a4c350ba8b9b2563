"""When a gateway dies, another one releases what its connections held.

Each gateway has a key that expires unless it is renewed, its *lease*, and a hash of its *holdings*:
the consumers that its connections read as. All gateways are members of one set. When the lease of a
member expires, the first gateway to notice releases the holdings, as the connections would have
done at their end. But a consumer that is connected to another gateway by now has read there what it
holds, and keeps it.

A gateway that was only slow registers its holdings again under another name, so whoever still ends
the old one removes nothing of the new one. It has lost its entries by then; its consumers learn
that from the feed of takeovers, or when they acknowledge.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from secrets import token_hex
from typing import Any

import msgspec
from redis.crc import key_slot

from headgate.app.backends.port import Holding, Perform
from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import as_stream_errors
from headgate.app.backends.redis.node import Word, Words
from headgate.app.backends.releasing import (
    delete_consumer,
    give_back,
    ignoring_what_is_gone,
    release_pending,
)
from headgate.app.runtime import periodic
from headgate.engine.entry import EntryId
from headgate.engine.errors import MemoryFull, Unavailable

log = logging.getLogger("headgate")

_RENEWALS = 3
"""Renewals of a lease in its own lifetime."""

_RETRY_S = 1.0
"""Before the lease is renewed if the servers were not there: others look whether it is."""

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(Holding).decode


class GatewayLeases:
    def __init__(self, client: Client, perform: Perform) -> None:
        self._client = client
        self._perform = perform
        self._lease_ms = client.options.lease_ms
        self._members = client.names.side_index(b"gateways")
        self._gateway = b""  # its name, a new one for each life of the lease
        self._held: Counter[Holding] = Counter()
        self._is_registered = False  # the servers know all that is held here
        self._unreleased: deque[tuple[Holding, Mapping[EntryId, int]]] = deque()
        self._missing: frozenset[bytes] = frozenset()  # had no lease at the last look

    async def register(self, holding: Holding) -> None:
        self._held[holding] += 1
        try:
            if not self._gateway:  # or nobody would release the holding if this gateway died now
                await self._join()
            await self._note(holding)
            if not await self._has_lease(self._gateway):  # who ends it may have looked before that
                await self._join()
                await self._note(*self._held)
        except MemoryFull:  # whoever reads makes room
            self._is_registered = False

    async def unregister(self, holding: Holding) -> None:
        """Note that a connection has ended and released what it held; raises Disconnected."""
        is_last = self._held[holding] <= 1
        if is_last:
            await self._do(b"HDEL", self._key(b"holdings", self._gateway), _encode(holding))
        self._held[holding] -= 1
        if self._held[holding] <= 0:
            del self._held[holding]
        elif is_last:  # another connection has begun meanwhile
            await self._note(holding)

    def release_later(self, holding: Holding, counts: Mapping[EntryId, int]) -> None:
        self._unreleased.append((holding, counts))

    async def run(self) -> None:
        """Renew the lease and look after those of others, until cancelled.

        Releasing what a dead gateway held may take longer than a lease lasts.
        """
        pause_s = self._lease_ms / 1000 / _RENEWALS
        async with asyncio.TaskGroup() as tasks:
            for name, work in (("lease", self._renew), ("leases of others", self._release_all)):
                tasks.create_task(periodic.repeat(name, partial(_do_and_pause, work, pause_s)))

    async def close(self) -> None:
        if not self._held:
            await self._forget(self._gateway)

    async def _renew(self) -> None:
        """Renew the lease; if it is new or had expired, register everything again.

        Renewing takes no memory, so the lease lasts even while the servers are out of memory.
        """
        if not await self._do(b"PEXPIRE", self._key(b"lease", self._gateway), self._lease_ms):
            self._is_registered = False
            await self._join()
        if self._is_registered:
            return
        self._is_registered = True  # unless a connection begins meanwhile, and finds no memory
        try:
            await self._note(*self._held)
        except BaseException:
            self._is_registered = False
            raise

    async def _join(self) -> None:
        gateway = token_hex(8).encode()
        await self._do(b"SET", self._key(b"lease", gateway), b"1", b"PX", self._lease_ms)
        await self._do(b"SADD", self._members, gateway)
        self._gateway = gateway

    async def _note(self, *holdings: Holding) -> None:
        fields = [part for holding in holdings for part in (_encode(holding), b"1")]
        if fields:
            await self._do(b"HSET", self._key(b"holdings", self._gateway), *fields)

    async def _release_all(self) -> None:
        while self._unreleased:
            await self._give_back(*self._unreleased[0])
            self._unreleased.popleft()
        gateways = await self._do(b"SMEMBERS", self._members)
        seen_missing, self._missing = self._missing, frozenset()
        missing = [each for each in gateways if not await self._is_alive(each)]
        alive = [each for each in gateways if each not in missing]
        # After an outage of the servers the first look may come before a renewal.
        for gateway in seen_missing.intersection(missing):
            ending = self._key(b"ending", gateway)
            [is_first, releasing] = await self._at(
                ending,
                (b"SET", ending, self._gateway, b"NX", b"PX", self._lease_ms),
                (b"GET", ending),
            )
            if is_first or releasing == self._gateway:  # else another gateway does it
                await self._end(gateway, alive)
        self._missing = frozenset(missing)

    async def _is_alive(self, gateway: bytes) -> bool:
        return gateway == self._gateway or await self._has_lease(gateway)

    async def _has_lease(self, gateway: bytes) -> bool:
        return bool(await self._do(b"EXISTS", self._key(b"lease", gateway)))

    async def _give_back(self, holding: Holding, counts: Mapping[EntryId, int]) -> None:
        await give_back(self._perform, holding, counts)
        await self.unregister(holding)

    async def _end(self, gateway: bytes, alive: Sequence[bytes]) -> None:
        """Release the entries of a dead gateway, unless a living one holds them."""
        key = self._key(b"holdings", gateway)
        fields = await self._do(b"HKEYS", key)
        log.warning(
            "a gateway has died: the entries of its connections are released",
            extra={"gateway": gateway.decode(), "consumers": len(fields)},
        )
        for field in fields:
            if not await self._is_held(field, alive):
                with ignoring_what_is_gone():
                    await self._release(_decode(field))
            await self._do(b"HDEL", key, field)
        await self._forget(gateway)

    async def _is_held(self, field: bytes, gateways: Sequence[bytes]) -> bool:
        """Tell whether a consumer has a connection to one of these gateways.

        That connection read what the consumer held when it began, and releases it when it ends.
        """
        for gateway in gateways:
            if await self._do(b"HEXISTS", self._key(b"holdings", gateway), field):
                return True
        return False

    async def _release(self, holding: Holding) -> None:
        """Release a consumer's entries, and delete a temporary consumer.

        What was delivered since the gateway died stays: the consumer reads elsewhere, too.
        """
        idle_ms = 0 if holding.is_temporary else self._lease_ms // 2
        await release_pending(self._perform, holding, idle_ms)
        if holding.is_temporary:
            await delete_consumer(self._perform, holding)

    async def _forget(self, gateway: bytes) -> None:
        await self._do(b"SREM", self._members, gateway)
        for kind in (b"lease", b"holdings"):
            await self._do(b"DEL", self._key(kind, gateway))

    def _key(self, kind: bytes, gateway: bytes) -> bytes:
        return self._client.names.side_index(kind) + b":" + gateway

    async def _do(self, command: bytes, key: bytes, *words: Word) -> Any:
        [reply] = await self._at(key, (command, key, *words))
        return reply

    async def _at(self, key: bytes, *commands: Words) -> Sequence[Any]:
        with as_stream_errors(b""):
            return await self._client.execute_all(key_slot(key), commands, changes=True)


async def _do_and_pause(work: Callable[[], Awaitable[None]], pause_s: float) -> None:
    try:
        await work()
    except Unavailable:  # nobody can read or release anything now
        pause_s = min(pause_s, _RETRY_S)
    await asyncio.sleep(pause_s)
