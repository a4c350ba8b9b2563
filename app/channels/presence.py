"""Presence: who is at a channel or at a stream, over all processes of the gateway.

Each process keeps its own connections, and tells the others of each that comes, changes or goes.
So everybody knows all of them, and nothing is stored. A connection that ends without a goodbye
stays for a while, in which a page that is loaded again takes its place: nobody sees it leave.

A process that has just started does not know yet who comes back to it. Until the time for that is
over, what it tells of a place is not *settled*.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

import msgspec

from headgate.app.channels.channels import ChannelListener, Channels
from headgate.app.channels.member import MemberConnection, Place, PlaceMember, PresenceRecord
from headgate.app.channels.message import ChannelMessage
from headgate.app.runtime import periodic
from headgate.app.runtime.siblings import Peers
from headgate.app.wire.problems import GatewayError
from headgate.engine.errors import Unavailable

CONNECTIONS_OF_MEMBER_MAX: Final = 20
"""Connections of one member at one place: each of its events has all of them."""

_CONNECTIONS_MAX: Final = 100_000
"""Connections of this process that are present somewhere. Each takes about a kilobyte."""

_TOLD_AT_ONCE: Final = 500
"""Connections in one announcement or one part of a removal, places that settle in one turn."""

PAGE_MEMBERS: Final = 250
"""Members that are told together."""

_TOPIC: Final = "presence"

_TOO_MANY: Final = "too many connections are already present"

_PAUSE_S: Final = 0.25
"""Before the others are told again, if they could not be."""


class _Gone(NamedTuple):
    place: Place
    member: str
    key: str


_Seen = dict[tuple[int, str], PresenceRecord]
"""The connections of a member, by the process that has them and their key."""


class Handle:
    """A connection's own presence at a place."""

    def __init__(self, presence: Presence, present: PresenceRecord) -> None:
        self._presence = presence
        self.present = present
        self.is_ended = False  # it stays for a while all the same

    def update(self, data: bytes) -> None:
        """Say something else of the connection."""
        self.present = self.present._replace(data=data)
        self._presence.renew(self)

    def end(self, *, at_once: bool) -> None:
        """Leave, at once or unless somebody takes this place in time."""
        self.is_ended = True
        self._presence.end(self, at_once=at_once)


class Presence:
    def __init__(
        self, channels: Channels, peers: Peers | None, *, number: int, ttl_ms: int
    ) -> None:
        """`number` is that of this process among its peers."""
        self._channels = channels
        self._peers = peers
        self._number = number
        self._ttl_s = ttl_ms / 1000
        self._members: dict[Place, dict[str, _Seen]] = {}
        self._of_process: dict[int, dict[_Gone, None]] = {number: {}}
        self._handles: dict[_Gone, Handle] = {}  # who holds a place of this process now
        self._watchers: dict[Place, dict[ChannelListener, None]] = {}
        self._settles_at_s: float | None = None
        self._untold: dict[_Gone, PresenceRecord | _Gone] = {}  # to the other processes
        self._again: Iterator[Handle] = iter(())  # those that are told again to one that arrived
        self._has_untold = asyncio.Event()
        if peers is not None:
            peers.on_announcement(_TOPIC, self._hear)
            peers.on_arrival(self._tell_all)
            peers.on_departure(self._lose)

    def begin(self) -> None:
        """Begin the time in which clients come back to this process."""
        loop = asyncio.get_running_loop()
        self._settles_at_s = loop.time() + self._ttl_s
        loop.call_at(self._settles_at_s, lambda: self._settle(iter(list(self._watchers))))

    @property
    def is_settled(self) -> bool:
        at_s = self._settles_at_s
        return at_s is not None and asyncio.get_running_loop().time() >= at_s

    # This process's own connections

    def join(self, present: PresenceRecord) -> Handle:
        """Let a connection be present. Another one of the same member and key is it no more.

        Raises:
            GatewayError: there are too many.
        """
        seen = self._members.get(present.place, {}).get(present.member, {})
        is_another = (self._number, present.key) not in seen
        if is_another and len(seen) >= CONNECTIONS_OF_MEMBER_MAX:
            self._make_room(seen)
        if len(self._handles) >= _CONNECTIONS_MAX:
            raise GatewayError("overloaded", _TOO_MANY)
        handle = Handle(self, present)
        self._handles[_id_of(present)] = handle
        self._tell([present])
        return handle

    def _make_room(self, seen: _Seen) -> None:
        """Remove a connection of a member that has ended, as of a page that was loaded again."""
        for present in seen.values():
            handle = self._handles.get(_id_of(present))
            if handle is not None and handle.is_ended:
                self._remove(handle)
                return
        raise GatewayError("overloaded", _TOO_MANY)

    def renew(self, handle: Handle) -> None:
        if self._handles.get(_id_of(handle.present)) is handle:
            self._tell([handle.present])

    def end(self, handle: Handle, *, at_once: bool) -> None:
        if at_once:
            self._remove(handle)
        else:
            asyncio.get_running_loop().call_later(self._ttl_s, self._remove, handle)

    def _remove(self, handle: Handle) -> None:
        gone = _id_of(handle.present)
        if self._handles.get(gone) is handle:
            del self._handles[gone]
            self._tell([gone])

    # Who is there

    def watch(self, place: Place, listener: ChannelListener) -> None:
        self._watchers.setdefault(place, {})[listener] = None

    def leave(self, place: Place, listener: ChannelListener) -> None:
        there = self._watchers.get(place, {})
        there.pop(listener, None)
        if not there:
            self._watchers.pop(place, None)

    def counts(self, place: Place) -> tuple[int, int]:
        """Return how many members are at a place, with how many connections."""
        members = self._members.get(place, {})
        return len(members), sum(map(len, members.values()))

    def members(self, place: Place) -> Iterator[list[PlaceMember]]:
        """Yield who is at a place, some at a time; who comes meanwhile may be left out."""
        members = self._members.get(place, {})
        names = iter(list(members))
        while portion := list(islice(names, PAGE_MEMBERS)):
            yield [_member(name, members[name]) for name in portion if name in members]

    # What the processes tell each other

    def _tell(self, news: Sequence[PresenceRecord | _Gone]) -> None:
        self._apply(self._number, news)
        self._announce(news)

    def _announce(self, news: Sequence[PresenceRecord | _Gone]) -> None:
        if self._peers is not None:
            self._untold.update(
                {each if isinstance(each, _Gone) else _id_of(each): each for each in news}
            )
            self._has_untold.set()

    async def run(self) -> None:
        """Tell the other processes what has changed, the newest of each connection."""
        self.begin()
        await periodic.repeat("presence told", self._tell_next)

    async def _tell_next(self) -> None:
        await self._has_untold.wait()
        portion = dict(islice(self._untold.items(), _TOLD_AT_ONCE))
        if not portion:
            handles = list(islice(self._again, _TOLD_AT_ONCE))
            if not handles:
                self._has_untold.clear()
                return
            current = [each for each in handles if self._handles.get(_id_of(each.present)) is each]
            portion = {_id_of(each.present): each.present for each in current}
        assert self._peers is not None
        try:
            await self._peers.announce(_TOPIC, _encode([tuple(each) for each in portion.values()]))
        except Unavailable:  # they are told again when the servers are back
            await asyncio.sleep(_PAUSE_S)
            return
        for gone, each in portion.items():
            if self._untold.get(gone) is each:
                del self._untold[gone]

    def _tell_all(self) -> None:
        self._again = iter(list(self._handles.values()))
        self._has_untold.set()

    def _hear(self, sender: int, body: bytes) -> None:
        """Take what another process tells; MsgspecError, TypeError: it makes no sense."""
        self._apply(sender, list(map(_news, _decode(body))))

    def _lose(self, process: int) -> None:
        """Forget the connections of a process that has ended, unless they come back in time."""
        lost = self._of_process.pop(process, None)
        if lost:
            later = asyncio.get_running_loop().call_later
            later(self._ttl_s, partial(self._forget, process, iter(lost)))

    def _forget(self, process: int, lost: Iterator[_Gone]) -> None:
        portion = list(islice(lost, _TOLD_AT_ONCE))
        own = self._of_process.get(process, {})  # that it has told again since
        self._apply(process, [each for each in portion if each not in own])
        if portion:
            asyncio.get_running_loop().call_soon(self._forget, process, lost)
        elif not self._of_process[process]:
            del self._of_process[process]

    def _apply(self, process: int, news: Sequence[PresenceRecord | _Gone]) -> None:
        own = self._of_process.setdefault(process, {})
        for each in news:
            gone = _id_of(each) if isinstance(each, PresenceRecord) else each
            members = self._members.setdefault(gone.place, {})
            before = members.get(gone.member)
            seen = members.setdefault(gone.member, {})
            event: Literal["joined", "updated", "left"] = "joined" if before is None else "updated"
            if isinstance(each, PresenceRecord):
                is_news = seen.get((process, gone.key)) != each
                seen[process, gone.key] = each
                own[gone] = None
            else:
                is_news = seen.pop((process, gone.key), None) is not None
                own.pop(gone, None)
                if not seen:
                    event = "left"
                    del members[gone.member]
            if not members:
                del self._members[gone.place]
            if is_news:
                self._note(gone.place, event, _member(gone.member, seen))

    def _note(self, place: Place, event: str, member: PlaceMember) -> None:
        watchers = self._watchers.get(place)
        if watchers:
            data = _encode_json({"event": event, "member": member})
            self._channels.give(ChannelMessage(place.name, data, "presence"), list(watchers))

    def _settle(self, places: Iterator[Place]) -> None:
        portion = list(islice(places, _TOLD_AT_ONCE))
        for place in portion:
            if watchers := self._watchers.get(place):
                self._channels.give(ChannelMessage(place.name, b"", "settled"), list(watchers))
        if portion:
            asyncio.get_running_loop().call_soon(self._settle, places)


def _id_of(present: PresenceRecord) -> _Gone:
    return _Gone(present.place, present.member, present.key)


def _member(name: str, seen: _Seen) -> PlaceMember:
    """Return a member as it is told: of two processes that have a key, the later one has it."""
    by_key = {each.key: each for each in sorted(seen.values(), key=lambda each: each.since_ms)}
    connections = [
        MemberConnection(each.key, each.since_ms, msgspec.Raw(each.data))
        for each in by_key.values()
    ]
    return PlaceMember(name, name[5:] if name.startswith("user:") else None, connections)


def _news(wire: Sequence[Any]) -> PresenceRecord | _Gone:
    place = Place(*wire[0])
    return (
        _Gone(place, *wire[1:])
        if len(wire) == len(_Gone._fields)
        else PresenceRecord(place, *wire[1:])
    )


_encode = msgspec.msgpack.Encoder().encode
_encode_json = msgspec.json.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[Any, ...]]).decode
