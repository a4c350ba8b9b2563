"""Long-lived connections of this process and of the other workers, for operators.

Event streams, WebSockets and Redis connections are in one list by their ids. Requests of an
operator are sent to all workers, as each of them has its own connections.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from heapq import nsmallest
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal, Protocol

import msgspec

from headgate.engine.limits import DESCRIBED_MAX

if TYPE_CHECKING:
    from headgate.app.runtime.siblings import Siblings


# Departures: connections that end at once are handled in several turns of the event loop.
#
# The event loop reports all connections that have ended in one turn. Each of them wakes a handful
# of tasks. If thousands were woken together, the loop would do nothing else for a second.

LEAVERS_AT_ONCE_MAX = 8
"""Seen to in one turn of the event loop. The tasks of one take about 0.3 ms."""


class Departures:
    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._seen_to_count = 0  # in this turn

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, leave: Callable[[], None]) -> None:
        """Call `leave` now, or in a later turn if many connections end at once."""
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


_LIST, _CUT_OFF = "list connections", "cut off connection"

_WITHIN_S: Final = 2.0
"""Time for answers of other workers."""

Transport = Literal["websocket", "events", "redis"]


class OpenSubscription(msgspec.Struct, frozen=True):
    stream: bytes
    state: str  # why nothing comes, or that it does: `live`, `caught_up` and so on
    group: bytes | None = None
    consumer: bytes | None = None
    credit: int | None = None  # entries that the client still takes; None: any number
    held: int | None = None  # entries that it was sent and has not settled; None: none has to be


class OpenConnection(msgspec.Struct, frozen=True):
    id: str
    transport: Transport
    client: str  # its address
    principal: str
    since_ms: int  # unix time
    outbox_bytes: int  # that the client has not taken
    sent_entries: int | None = None  # None: they are not counted
    subscription_count: int = 0
    subscriptions: list[OpenSubscription] = []  # the first of them

    @property
    def name(self) -> bytes:
        return self.id.encode()


class ListedConnection(Protocol):
    def describe(self, subscriptions_max: int) -> OpenConnection: ...

    def cut_off(self) -> None:
        """Close the connection, and tell its client why."""
        ...


class Listing(msgspec.Struct, frozen=True):
    after: str
    limit: int


class Connections:
    def __init__(self, siblings: Siblings | None = None) -> None:
        self._siblings = siblings
        self._by_id: dict[str, ListedConnection] = {}
        if siblings is not None:
            siblings.on_question(_LIST, lambda body: _encode(self._list(_decode_listing(body))))
            siblings.on_question(_CUT_OFF, lambda body: _encode(self._cut_off(_decode_id(body))))

    def add(self, connection_id: str, connection: ListedConnection) -> None:
        self._by_id[connection_id] = connection

    def remove(self, connection_id: str) -> None:
        self._by_id.pop(connection_id, None)

    async def page(self, after: str, limit: int) -> list[OpenConnection]:
        """Describe connections of all workers; those that do not answer in time are left out."""
        listing = Listing(after, limit)
        described = self._list(listing)
        if self._siblings is not None:
            question = _encode(listing)
            for body in await self._siblings.gather(_LIST, question, within_s=_WITHIN_S):
                described += _decode_connections(body)
        return sorted(described, key=attrgetter("id"))[:limit]

    async def cut_off(self, connection_id: str) -> bool:
        if self._cut_off(connection_id):
            return True
        if self._siblings is None:
            return False
        question = _encode(connection_id)
        answers = await self._siblings.gather(_CUT_OFF, question, within_s=_WITHIN_S)
        return any(map(_decode_is_cut_off, answers))

    def _list(self, listing: Listing) -> list[OpenConnection]:
        after, left = listing.after, DESCRIBED_MAX
        described: list[OpenConnection] = []
        ids = (each for each in self._by_id if each > after)
        for connection_id in nsmallest(listing.limit, ids):
            described.append(self._by_id[connection_id].describe(left))
            left -= len(described[-1].subscriptions)
        return described

    def _cut_off(self, connection_id: str) -> bool:
        connection = self._by_id.get(connection_id)
        if connection is not None:
            connection.cut_off()
        return connection is not None


_encode = msgspec.msgpack.Encoder().encode
_decode_listing = msgspec.msgpack.Decoder(Listing).decode
_decode_connections = msgspec.msgpack.Decoder(list[OpenConnection]).decode
_decode_id = msgspec.msgpack.Decoder(str).decode
_decode_is_cut_off = msgspec.msgpack.Decoder(bool).decode
