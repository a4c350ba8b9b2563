"""Leases: when a gateway dies, another one releases what its connections held.

Each gateway has a key that expires unless it is renewed, its *lease*, and a hash of its *holdings*:
the consumers that its connections read as. All gateways are members of one set. When the lease of a
member is over, the gateway that notices it first releases the holdings, as the connections would
have done at their end.

A gateway that was only slow registers its holdings again. It has lost its entries by then, and its
consumers are told so by the feed of takeovers, or when they acknowledge.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Any

import msgspec
from redis.crc import key_slot

from headgate.app.backends.port import Holding
from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import as_stream_errors
from headgate.app.backends.redis.node import Words
from headgate.engine.entry import EntryId
from headgate.engine.errors import NotFound, Unavailable
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import GiveBack, ListPending, Nack, NackMode
from headgate.engine.requests.groups import DeleteConsumer

log = logging.getLogger("headgate")

_RENEWALS = 3
"""How often a lease is renewed in the time after which it would be over."""

_PAGE = 1_000
"""Pending entries that are released at once."""

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(Holding).decode

Perform = Callable[[Request[Any]], Coroutine[Any, Any, Any]]


class GatewayLeases:
    """The lease of this gateway, and those of the others."""

    def __init__(self, client: Client, perform: Perform) -> None:
        """Get ready. `run` renews the lease.

        Args:
            client: where the leases are.
            perform: carries out requests.
        """
        self._client = client
        self._perform = perform
        self._lease_ms = client.options.lease_ms
        self._gateway = token_hex(8).encode()
        self._held: Counter[Holding] = Counter()
        self._unreleased: deque[tuple[Holding, Mapping[EntryId, int]]] = deque()

    async def register(self, holding: Holding) -> None:
        """Note that a connection reads as a consumer.

        Raises:
            Disconnected: the servers are not there.
        """
        self._held[holding] += 1
        if self._held[holding] == 1:
            key = self._key(b"holdings", self._gateway)
            await self._at(key, (b"HSET", key, _encode(holding), b"1"))

    async def unregister(self, holding: Holding) -> None:
        """Note that a connection has ended, and has released what it held.

        Raises:
            Disconnected: the servers are not there.
        """
        key, is_last = self._key(b"holdings", self._gateway), self._held[holding] <= 1
        if is_last:
            await self._at(key, (b"HDEL", key, _encode(holding)))
        self._held[holding] -= 1
        if self._held[holding] <= 0:
            del self._held[holding]
        elif is_last:  # another connection has begun meanwhile
            await self._at(key, (b"HSET", key, _encode(holding), b"1"))

    def release_later(self, holding: Holding, counts: Mapping[EntryId, int]) -> None:
        """Release what a connection held, and unregister it, once the servers are there again."""
        self._unreleased.append((holding, counts))

    async def run(self) -> None:
        """Renew the lease, and look after those of others, until cancelled."""
        while True:
            try:
                if await self._renew():
                    await self._register_again()
                while self._unreleased:
                    await self._give_back(*self._unreleased[0])
                    self._unreleased.popleft()
                await self._release_others()
            except Unavailable:
                pass  # nobody can read or release anything now
            await asyncio.sleep(self._lease_ms / 1000 / _RENEWALS)

    async def close(self) -> None:
        """End the lease: the connections have ended, and hold nothing."""
        if not self._held:
            await self._forget(self._gateway)

    async def _give_back(self, holding: Holding, counts: Mapping[EntryId, int]) -> None:
        names = holding.stream, holding.group, holding.consumer
        with suppress(NotFound):  # with the group all that was pending is gone
            if counts:
                await self._perform(GiveBack(*names, counts))
            if holding.is_temporary:
                await self._perform(DeleteConsumer(*names, release=True))
        await self.unregister(holding)

    async def _renew(self) -> bool:
        """Renew the lease; return whether it is new or was over."""
        members, lease = self._index(b"gateways"), self._key(b"lease", self._gateway)
        [before] = await self._at(lease, (b"SET", lease, b"1", b"PX", self._lease_ms, b"GET"))
        await self._at(members, (b"SADD", members, self._gateway))  # a member has a lease
        return before is None

    async def _register_again(self) -> None:
        key = self._key(b"holdings", self._gateway)
        fields = [part for holding in self._held for part in (_encode(holding), b"1")]
        if fields:
            await self._at(key, (b"HSET", key, *fields))

    async def _release_others(self) -> None:
        members = self._index(b"gateways")
        [gateways] = await self._at(members, (b"SMEMBERS", members))
        for gateway in gateways:
            lease = self._key(b"lease", gateway)
            if gateway == self._gateway or (await self._at(lease, (b"EXISTS", lease)))[0]:
                continue
            ending = self._key(b"ending", gateway)
            [is_first, releasing] = await self._at(
                ending,
                (b"SET", ending, self._gateway, b"NX", b"PX", self._lease_ms),
                (b"GET", ending),
            )
            if is_first or releasing == self._gateway:  # else another gateway does it
                await self._release_all(gateway)

    async def _release_all(self, gateway: bytes) -> None:
        key = self._key(b"holdings", gateway)
        [fields] = await self._at(key, (b"HKEYS", key))
        log.warning(
            "a gateway has died: its holdings are released",
            extra={"gateway": gateway.decode(), "consumers": len(fields)},
        )
        for field in fields:
            await self._release(_decode(field))
            await self._at(key, (b"HDEL", key, field))
        await self._forget(gateway)

    async def _release(self, holding: Holding) -> None:
        """Release what a consumer holds; a consumer that was made for a connection goes, too.

        The same name may be in use at another gateway. Then its entries are delivered once more.
        """
        names = holding.stream, holding.group
        try:
            while pending := await self._perform(
                ListPending(*names, limit=_PAGE, consumer=holding.consumer)
            ):
                ids = [item.id for item in pending]
                await self._perform(
                    Nack(
                        *names,
                        ids,
                        NackMode.SILENT,
                        delay_ms=0,
                        consumer=holding.consumer,
                        by_policy=False,
                    )
                )
            if holding.is_temporary:
                await self._perform(DeleteConsumer(*names, holding.consumer, release=True))
        except NotFound:
            pass  # with the group all that was pending is gone

    async def _forget(self, gateway: bytes) -> None:
        members = self._index(b"gateways")
        await self._at(members, (b"SREM", members, gateway))
        for key in (self._key(b"lease", gateway), self._key(b"holdings", gateway)):
            await self._at(key, (b"DEL", key))

    def _index(self, kind: bytes) -> bytes:
        return self._client.names.side_index(kind)

    def _key(self, kind: bytes, gateway: bytes) -> bytes:
        return self._index(kind) + b":" + gateway

    async def _at(self, key: bytes, *commands: Words) -> Sequence[Any]:
        with as_stream_errors(b""):
            replies = await self._client.execute_together(key_slot(key), commands, changes=True)
            for reply in replies:
                if isinstance(reply, Exception):
                    raise reply
            return replies
