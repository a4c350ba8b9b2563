"""A worker's end of the socket to the engine, and what keeps it connected.

Calls are answered in any order. When the connection ends, each call that was sent ends with
`ConnectionLost`: it may have been carried out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from headgate.app.backends.remote.frames import FrameProtocol
from headgate.app.backends.remote.messages import (
    Answer,
    Cancel,
    Cancelled,
    Changed,
    EngineState,
    Failed,
    Hello,
    Message,
    OfEngine,
    Taken,
    TurnedAway,
    Welcome,
    error_of,
)
from headgate.app.runtime import periodic
from headgate.engine.eager import Completion
from headgate.engine.errors import Disconnected, Draining, Invalid
from headgate.engine.replies import Takeover

log = logging.getLogger("headgate")

_PATIENCE_S = 1.0
"""Time that a call waits for a missing connection. After that calls fail at once."""

_PAUSE_S = 0.05
"""Between two attempts to connect: to try costs little, and the engine is on the same machine."""

_PAUSE_REFUSED_S = 1.0
"""Likewise after the engine has refused the connection."""

_ABSENT = "the engine is not reachable"

_decode = msgspec.msgpack.Decoder(list[OfEngine]).decode

OnLate = Callable[[Any], None]
"""Is called with the reply to a call that was cancelled too late."""


Decode = Callable[[msgspec.Raw], Any]
"""Reads a reply."""


class ConnectionLost(Exception):
    pass


class _Pending:
    __slots__ = ("answered", "decode", "is_abandoned", "on_late", "reply", "waits")

    def __init__(self, decode: Decode, on_late: OnLate | None, *, waits: bool) -> None:
        self.answered: Completion[Any] = Completion()
        self.decode = decode
        self.on_late = on_late
        self.waits = waits  # in the engine, for something to read
        self.is_abandoned = False  # nobody waits for the answer any more
        self.reply: Any = None

    def answer(self, reply: msgspec.Raw) -> None:
        try:
            self.reply = self.decode(reply)
        except msgspec.MsgspecError as error:
            self.fail(error)
            return
        if not self.is_abandoned:
            self.answered.succeed(self.reply)
        elif self.on_late is not None:
            self.on_late(self.reply)

    def fail(self, error: Exception) -> None:
        if not self.is_abandoned:
            self.answered.fail(error)


class EngineConnection(FrameProtocol):
    def __init__(self, hello: Hello, link: Link) -> None:
        super().__init__(_decode)
        self._hello = hello
        self._link = link
        self._numbers = count(1)
        self._pending: dict[int, _Pending] = {}
        self.greeted: asyncio.Future[None] = self._loop.create_future()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.refusal: str | None = None
        self._does: Mapping[type[Any], Callable[[Any], None]] = {
            Failed: self._fail,
            Cancelled: self._end_cancelled,
            Changed: self._change,
            Taken: self._put,
            Welcome: self._enter,
            TurnedAway: self._note_refusal,
        }

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.send(self._hello)

    def next_number(self) -> int:
        return next(self._numbers)

    async def ask(
        self,
        number: int,
        messages: Sequence[Message],
        decode: Decode,
        on_late: OnLate | None = None,
        *,
        waits: bool = False,
    ) -> Any:
        """Send a call and return its reply.

        The last message is the one that is answered. `on_late` gets a reply that comes after the
        caller was cancelled. `waits`: the call may wait in the engine, and `end_waiting` ends it.
        Raises StreamError if the call failed, and ConnectionLost if it may have been carried out.
        """
        try:
            for message in messages:
                self.send(message)
        except OverflowError as error:
            self.send(Cancel(number))  # what was sent of it is of no use
            raise Invalid(str(error)) from None
        pending = self._pending[number] = _Pending(decode, on_late, waits=waits)
        try:
            return await pending.answered
        except asyncio.CancelledError:
            if not pending.answered.is_done:
                self._abandon(number, pending)
            elif on_late is not None and pending.reply is not None:
                on_late(pending.reply)  # it came in this very moment
            raise

    def _abandon(self, number: int, pending: _Pending) -> None:
        pending.is_abandoned = True
        self.send(Cancel(number))

    def end_waiting(self, make_error: Callable[[], Exception]) -> None:
        """End all calls that may wait with an error; what is delivered to them comes too late."""
        for number, pending in list(self._pending.items()):
            if pending.waits and not pending.is_abandoned:
                self._abandon(number, pending)
                pending.answered.fail(make_error())

    def messages_received(self, messages: Sequence[Any]) -> None:
        for message in messages:
            if type(message) is Answer:
                self._pending.pop(message.number).answer(message.reply)
            else:
                self._does[type(message)](message)

    def _fail(self, message: Failed) -> None:
        self._pending.pop(message.number).fail(error_of(message.error))

    def _end_cancelled(self, message: Cancelled) -> None:
        # If it was not cancelled from here, the engine is about to end.
        self._pending.pop(message.number).fail(ConnectionLost())

    def _change(self, message: Changed) -> None:
        self._link.state = message.state

    def _put(self, message: Taken) -> None:
        self._link.on_taken(message.number, message.takeover)

    def _enter(self, message: Welcome) -> None:
        self._link.welcomed(message)
        if not self.greeted.done():
            self.greeted.set_result(None)

    def _note_refusal(self, message: TurnedAway) -> None:
        self.refusal = message.why

    def unsent(self, message: Any, error: OverflowError) -> None:
        pending = self._pending.get(message.number)
        if pending is not None and not pending.is_abandoned:
            self._abandon(message.number, pending)
            pending.answered.fail(Invalid(str(error)))

    def lost(self) -> None:
        self._link.forget(self)
        pending, self._pending = self._pending, {}
        for call in pending.values():
            call.fail(ConnectionLost())
        for future in (self.greeted, self.ended):
            if not future.done():
                future.set_result(None)


class Link:
    def __init__(
        self,
        path: Path,
        make_hello: Callable[[], Hello],
        on_connected: Callable[[EngineConnection], None],
        on_taken: Callable[[int, Takeover], None],
    ) -> None:
        """Take the callbacks; `on_connected` gets each new connection before anybody else."""
        self._path = path
        self._make_hello = make_hello
        self._on_connected = on_connected
        self.on_taken = on_taken
        self.state = EngineState()
        self.current: EngineConnection | None = None
        self.obstacle: str | None = _ABSENT  # why there is no connection
        self._welcome: Welcome | None = None
        self._is_absent = False  # there has been no connection for longer than calls wait
        self._changed = asyncio.Event()  # there is a connection, or it is absent
        self._is_draining = False

    async def connection(self, *, is_patient: bool = False) -> EngineConnection:
        """Return the connection once there is one; `is_patient` waits without limit.

        Raises Disconnected if there has been none for a second, and Draining if waiting makes no
        sense.
        """
        while self.current is None:
            if is_patient and self._is_draining:
                raise Draining
            if self._is_absent and not is_patient:
                raise Disconnected(self.obstacle or _ABSENT)
            self._changed.clear()
            await self._changed.wait()
        return self.current

    async def run(self) -> None:
        await periodic.repeat("connection to the engine", self._stay_connected)

    async def _stay_connected(self) -> None:
        patience = asyncio.get_running_loop().call_later(_PATIENCE_S, self._note_absent)
        try:
            connection = await self._connect()
            patience.cancel()
        except asyncio.CancelledError:  # after another error it goes on: calls are not to wait
            patience.cancel()
            raise
        try:
            self.current, self._is_absent, self.obstacle = connection, False, None
            self._on_connected(connection)
            self._changed.set()
            await connection.ended
        finally:
            self.forget(connection)
            connection.close()
        log.warning("the connection to the engine has ended")

    def forget(self, connection: EngineConnection) -> None:
        if self.current is connection:
            self.current, self.obstacle = None, _ABSENT

    def drain(self) -> None:
        self._is_draining = True
        self._changed.set()
        if self.current is not None:
            self.current.end_waiting(Draining)

    def welcomed(self, welcome: Welcome) -> None:
        self._welcome = welcome
        self.state = welcome.state

    @property
    def welcome(self) -> Welcome | None:
        return self._welcome

    async def _connect(self) -> EngineConnection:
        loop = asyncio.get_running_loop()
        while True:
            pause_s = _PAUSE_S
            with suppress(OSError):
                _, connection = await loop.create_unix_connection(
                    lambda: EngineConnection(self._make_hello(), self), str(self._path)
                )
                try:
                    await connection.greeted  # nobody may be there to accept it
                except asyncio.CancelledError:
                    connection.close()
                    raise
                if connection.is_open:
                    return connection
                if connection.refusal is not None:
                    if connection.refusal != self.obstacle:
                        log.error(
                            "the engine refused the connection",
                            extra={"reason": connection.refusal},
                        )
                    self.obstacle = connection.refusal
                    pause_s = _PAUSE_REFUSED_S
            await asyncio.sleep(pause_s)

    def _note_absent(self) -> None:
        if self.current is None:
            self._is_absent = True
            self._changed.set()
