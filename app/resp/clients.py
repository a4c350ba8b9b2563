"""Clients: the connections of Redis clients, of this process and of the other workers.

What CLIENT asks of all connections goes to all workers, as each of them has its own.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from headgate.app.resp.client_filter import ClientFilter
from headgate.app.resp.client_line import facts_of, line_of
from headgate.app.runtime.siblings import Siblings
from headgate.app.runtime.turns import Turn

if TYPE_CHECKING:
    from headgate.app.resp.session import RespSession

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


class Clients:
    """The connections that there are."""

    def __init__(self, siblings: Siblings | None = None) -> None:
        """Begin with none.

        Args:
            siblings: the other workers, if there are any.
        """
        self._siblings = siblings
        number = 0 if siblings is None else siblings.number
        self._ids = itertools.count(number * _IDS_OF_A_PROCESS + 1)
        self._sessions: dict[int, RespSession] = {}
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
        """Return how many connections this process has."""
        return len(self._sessions)

    def __iter__(self) -> Iterator[RespSession]:
        """Return the connections of this process, the oldest first."""
        return iter(list(self._sessions.values()))

    def next_id(self) -> int:
        """Return the number of the next connection. No other connection ever has it."""
        return next(self._ids)

    def add(self, session: RespSession) -> None:
        """Count a connection."""
        self.accepted_count += 1
        self._sessions[session.id] = session
        self._none.clear()

    def remove(self, session: RespSession) -> None:
        """Forget a connection."""
        self._sessions.pop(session.id, None)
        if not self._sessions:
            self._none.set()

    async def until_none(self) -> None:
        """Wait until there is no connection."""
        await self._none.wait()

    def drain(self) -> None:
        """End all connections, each once it has the replies that it waits for."""
        for session in self:
            session.drain()

    async def lines(self, chosen: ClientFilter) -> list[str]:
        """Describe connections, a line each, the oldest first."""
        turn, lines = Turn(), list[tuple[int, str]]()
        for session in self:
            if session.id in self._sessions and chosen.matches(facts_of(session)):
                lines.append((session.id, line_of(session)))
            await turn.pause()
        for body in await self._gather(_LIST, chosen):
            lines += _decode_lines(body)
        return [line for _, line in sorted(lines)]

    async def kill(self, chosen: ClientFilter) -> int:
        """End connections; returns how many."""
        count = self._kill(chosen)
        return count + sum(map(_decode_count, await self._gather(_KILL, chosen)))

    async def unblock(self, client_id: int, how: bytes) -> int:
        """End a read that blocks; returns 1, or 0 if the connection does not wait."""
        asked = _Unblock(client_id, how)
        count = self._unblock(asked)
        return count or sum(map(_decode_count, await self._gather(_UNBLOCK, asked)))

    async def pause(self, duration_ms: int, *, reads_too: bool) -> None:
        """Let commands wait; those that only read go on, unless `reads_too`."""
        await self._announce(_Pause(duration_ms, reads_too))

    async def unpause(self) -> None:
        """Let commands go on."""
        await self._announce(_Pause(0))

    @property
    def is_paused(self) -> bool:
        """Tell whether some commands have to wait."""
        return not self._goes_on.is_set()

    async def until_going_on(self, *, only_reads: bool) -> None:
        """Wait until commands may go on, those that only read or others."""
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
        return [(each.id, line_of(each)) for each in self if chosen.matches(facts_of(each))]

    def _kill(self, chosen: ClientFilter) -> int:
        killed = [session for session in self if chosen.matches(facts_of(session))]
        for session in killed:
            session.drain()
        return len(killed)

    def _unblock(self, asked: _Unblock) -> int:
        session = self._sessions.get(asked.id)
        return int(session is not None and session.unblock(asked.how))

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
