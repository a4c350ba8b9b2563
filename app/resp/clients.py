"""The connections of Redis clients, in this process and in the other workers.

What CLIENT asks of all connections is sent to all workers, as each has its own.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from headgate.app.redis_syntax.words import SYNTAX, CommandError, integer, positive, shown
from headgate.app.runtime.siblings import Siblings
from headgate.engine.threads import this_turn

_TYPES = frozenset({"normal", "master", "replica", "slave", "pubsub"})


_client_id = positive("ERR client-id should be greater than 0")


class ClientFacts(NamedTuple):
    id: int
    address: str
    local_address: str
    user: str
    age_s: int
    kind: str  # normal, pubsub


class ClientFilter(NamedTuple):
    """A filter of connections; None matches all."""

    ids: frozenset[int] | None = None
    address: str | None = None
    local_address: str | None = None
    kind: str | None = None
    user: str | None = None
    age_s_min: int | None = None
    skips_me: bool = True
    but: int | None = None  # the number of a connection that is left out

    def matches(self, client: ClientFacts) -> bool:
        return (
            (self.ids is None or client.id in self.ids)
            and self.address in (None, client.address)
            and self.local_address in (None, client.local_address)
            and self.kind in (None, client.kind)
            and self.user in (None, client.user)
            and (self.age_s_min is None or client.age_s >= self.age_s_min)
            and client.id != self.but
        )


def read_filter(words: Sequence[bytes]) -> ClientFilter:
    chosen = ClientFilter()
    for option, value in zip(words[::2], words[1::2], strict=True):
        chosen = _with(chosen, option.upper(), value)
    return chosen


def _with(chosen: ClientFilter, option: bytes, value: bytes) -> ClientFilter:
    text = value.decode("latin-1")
    match option:
        case b"ID":
            return chosen._replace(ids=frozenset({_client_id(value)}))
        case b"ADDR":
            return chosen._replace(address=text)
        case b"LADDR":
            return chosen._replace(local_address=text)
        case b"USER":
            return chosen._replace(user=text)
        case b"TYPE":
            if text.lower() not in _TYPES:
                raise CommandError(f"ERR Unknown client type '{shown(value)}'")
            return chosen._replace(kind=text.lower())
        case b"MAXAGE":
            return chosen._replace(age_s_min=integer(value))
        case b"SKIPME":
            if text.lower() not in ("yes", "no"):
                raise CommandError(SYNTAX)
            return chosen._replace(skips_me=text.lower() == "yes")
    raise CommandError(SYNTAX)


NAME_BYTES_MAX: Final = 1024
"""Longest name of a client. It is kept for as long as the client is connected."""

_IDS_OF_A_PROCESS: Final = 2**32
_LIST, _KILL, _UNBLOCK, _PAUSE = "client list", "client kill", "client unblock", "client pause"
_WITHIN_S: Final = 2.0
"""Time for answers of other workers."""


class _Unblock(msgspec.Struct, frozen=True):
    id: int
    how: bytes


class _Pause(msgspec.Struct, frozen=True):
    duration_ms: int  # 0 ends a pause
    reads_too: bool = False


_encode = msgspec.msgpack.Encoder().encode
_decode_filter = msgspec.msgpack.Decoder(ClientFilter).decode
_decode_lines = msgspec.msgpack.Decoder(list[tuple[int, str]]).decode
_decode_count = msgspec.msgpack.Decoder(int).decode
_decode_unblock = msgspec.msgpack.Decoder(_Unblock).decode
_decode_pause = msgspec.msgpack.Decoder(_Pause).decode


class ConnectedClient(Protocol):
    @property
    def id(self) -> int: ...

    def facts(self) -> ClientFacts: ...

    def line(self) -> str: ...

    def drain(self) -> None:
        """Close it once the client has the replies that it waits for."""
        ...

    def cut_off(self) -> None:
        """Close it now, whatever is still unsent."""
        ...

    def unblock(self, how: bytes) -> bool:
        """End a blocking read with nothing or an error; return whether there was one."""
        ...


class Clients:
    def __init__(self, siblings: Siblings | None = None) -> None:
        self._siblings = siblings
        number = 0 if siblings is None else siblings.number
        self._ids = itertools.count(number * _IDS_OF_A_PROCESS + 1)
        self._clients: dict[int, ConnectedClient] = {}
        self._none = asyncio.Event()
        self._none.set()
        self._pauses_reads = False
        self._goes_on = asyncio.Event()  # no command has to wait
        self._goes_on.set()
        self._pause_timer: asyncio.TimerHandle | None = None
        self.accepted_count = 0
        self.rejected_count = 0
        self.input_bytes = 0
        self.output_bytes = 0
        if siblings is not None:
            siblings.on_question(_LIST, lambda body: _encode(self._lines(_decode_filter(body))))
            siblings.on_question(_KILL, lambda body: _encode(self._kill(_decode_filter(body))))
            siblings.on_question(
                _UNBLOCK, lambda body: _encode(self._unblock(_decode_unblock(body)))
            )
            siblings.on_announcement(_PAUSE, lambda _, body: self._pause(_decode_pause(body)))

    def __len__(self) -> int:
        return len(self._clients)

    def __iter__(self) -> Iterator[ConnectedClient]:
        """Yield the connections of this process, oldest first."""
        return iter(list(self._clients.values()))

    def next_id(self) -> int:
        """Return an id that no other connection ever has, in any worker."""
        return next(self._ids)

    def add(self, client: ConnectedClient) -> None:
        self.accepted_count += 1
        self._clients[client.id] = client
        self._none.clear()

    def remove(self, client: ConnectedClient) -> None:
        self._clients.pop(client.id, None)
        if not self._clients:
            self._none.set()

    async def until_none(self) -> None:
        await self._none.wait()

    def drain(self) -> None:
        for client in self:
            client.drain()

    async def lines(self, chosen: ClientFilter) -> list[str]:
        turn, lines = this_turn(), list[tuple[int, str]]()
        for number, client in list(self._clients.items()):
            # Who has gone meanwhile knows nothing any more, not even its number.
            if number in self._clients and chosen.matches(client.facts()):
                lines.append((number, client.line()))
            await turn.pause()
        for body in await self._gather(_LIST, chosen):
            lines += _decode_lines(body)
        return [line for _, line in sorted(lines)]

    async def kill(self, chosen: ClientFilter) -> int:
        count = self._kill(chosen)
        return count + sum(map(_decode_count, await self._gather(_KILL, chosen)))

    async def unblock(self, client_id: int, how: bytes) -> int:
        asked = _Unblock(client_id, how)
        count = self._unblock(asked)
        return count or sum(map(_decode_count, await self._gather(_UNBLOCK, asked)))

    async def pause(self, duration_ms: int, *, reads_too: bool) -> None:
        """Pause commands; reads go on unless `reads_too`."""
        await self._announce(_Pause(duration_ms, reads_too))

    async def unpause(self) -> None:
        await self._announce(_Pause(0))

    @property
    def is_paused(self) -> bool:
        return not self._goes_on.is_set()

    async def until_going_on(self, *, only_reads: bool) -> None:
        while not self._goes_on.is_set() and (self._pauses_reads or not only_reads):
            await self._goes_on.wait()

    async def _announce(self, pause: _Pause) -> None:
        self._pause(pause)
        if self._siblings is not None:
            await self._siblings.announce(_PAUSE, _encode(pause))

    async def _gather(self, topic: str, question: msgspec.Struct | ClientFilter) -> Sequence[bytes]:
        if self._siblings is None:
            return []
        return await self._siblings.gather(topic, _encode(question), within_s=_WITHIN_S)

    def _lines(self, chosen: ClientFilter) -> list[tuple[int, str]]:
        return [(each.id, each.line()) for each in self if chosen.matches(each.facts())]

    def _kill(self, chosen: ClientFilter) -> int:
        killed = [client for client in self if chosen.matches(client.facts())]
        for client in killed:
            client.drain()
        return len(killed)

    def _unblock(self, asked: _Unblock) -> int:
        client = self._clients.get(asked.id)
        return int(client is not None and client.unblock(asked.how))

    def _pause(self, pause: _Pause) -> None:
        loop = asyncio.get_running_loop()
        before, over_s = self._pause_timer, loop.time() + pause.duration_ms / 1000
        if before is not None:
            if pause.duration_ms and before.when() > over_s:
                over_s = before.when()
            before.cancel()
        self._pause_timer = None
        if pause.duration_ms:
            self._pauses_reads = self._pauses_reads or pause.reads_too
            self._goes_on.clear()
            self._pause_timer = loop.call_at(over_s, self._pause, _Pause(0))
        else:
            self._pauses_reads = False
            self._goes_on.set()
