"""One client, from its first byte to its last: reads, runs, and writes.

All commands that have arrived are run together: they are decided in one turn, wait once until they
are durable, and their replies are one write. Both what has not been run yet and what the client has
not read are bounded; beyond that the connection is not read.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from headgate.app.gateway.gateway import Gateway
from headgate.app.resp.client_commands import facts_of, line_of
from headgate.app.resp.clients import ClientFacts, Clients
from headgate.app.resp.commands import OWN
from headgate.app.resp.encoder import BrokenReply, error_reply
from headgate.app.resp.parser import CommandParser, ProtocolError, Words
from headgate.app.resp.session import RespSession
from headgate.app.transport.sockets import UNREAD_BYTES_MAX, Peer
from headgate.app.wire.problems import GatewayError
from headgate.engine.eager import EagerCall
from headgate.engine.threads import this_turn

log = logging.getLogger("headgate")

_COMMANDS_AT_ONCE: Final = 1_000
"""Run before others have their turn."""

UNSENT_BYTES_MIN: Final = 64 * 1024
"""Replies in a transport before its client counts as one that does not read."""

_TOO_MANY: Final = "ERR max number of clients reached"

_LAST_WORDS_S: Final = 1.0
"""Time for a client to read the reason of its end, while it still sends."""


class RespConnection(Peer):
    def __init__(self, gateway: Gateway, clients: Clients) -> None:
        self._gateway = gateway
        self._clients = clients
        self._sockets = gateway.sockets
        limits = gateway.limits
        self._parser = CommandParser(
            word_bytes_max=limits.body_bytes_max, command_bytes_max=limits.body_bytes_max
        )
        self._call: EagerCall | None = None  # what runs commands now
        self._has_more = False  # bytes have come that `_serve` has not looked at
        self._is_ending = False  # nothing more is run
        self._has_ended = False  # nothing more will come
        self._is_paused = False  # nothing more is read
        self._kept_bytes = 0  # of queued commands and watched keys, as they were noted
        self._written_bytes = 0
        self._writable: asyncio.Future[None] | None = None  # who waits for the client to read
        self._timer: asyncio.TimerHandle | None = None
        self.session: RespSession

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.session = RespSession(self._gateway, self._clients, self, OWN)
        if not self._sockets.has_room(uncounted=1):
            self._clients.rejected_count += 1
            self._refuse(_TOO_MANY)
            return
        try:
            self.session.begin()
        except GatewayError as error:
            self._clients.rejected_count += 1
            self._refuse(f"ERR {error}")
            return
        self._clients.add(self)
        self._gateway.connections.add(str(self.session.id), self.session)
        self._parser.is_stranger = self.session.is_stranger

    def data_received(self, data: bytes) -> None:
        if self._is_ending:
            return
        self._parser.feed(data)
        self._has_more = True
        self._clients.input_bytes += len(data)
        if self._call is None:
            self._run()
        if self._call is not None:
            self._hold_unread()

    def eof_received(self) -> bool:
        """Answer everything up to a blocking read, then close."""
        if self._call is None:
            return False
        self._has_ended = True
        self.session.end_input()
        return True

    def leave(self, exc: Exception | None) -> None:
        self._is_ending = True
        self._forget_timer()
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        if self._call is not None:
            self._call.cancel()
        self.session.end()
        self.keep(0)
        self._clients.remove(self)
        self._gateway.connections.remove(str(self.session.id))
        del self.session  # it knows this connection: nothing is left to the collector
        super().leave(exc)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_timer()
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)

    def pause_writing(self) -> None:
        """Note a client that does not read; it is cut off if it takes nothing for too long."""
        super().pause_writing()
        if self._timer is None:
            self._expect_more_taken()

    def write(self, data: bytes) -> None:
        if data and not self.transport.is_closing():
            self._written_bytes += len(data)
            self._clients.output_bytes += len(data)
            self.transport.write(data)
            if self.transport.get_write_buffer_size() > UNSENT_BYTES_MIN:
                self._sockets.stuck(self.transport)

    async def until_taken(self, size_bytes: int) -> None:
        """Wait until most is sent, if more than `size_bytes` is unsent."""
        if self.transport.get_write_buffer_size() <= size_bytes:
            return
        self._writable = asyncio.get_running_loop().create_future()
        try:
            await self._writable
        finally:
            self._writable = None

    def finish(self) -> None:
        """Close once the running commands are answered."""
        self._is_ending = True
        if self._call is None and not self.transport.is_closing():
            self.transport.close()

    def cut_off(self) -> None:
        """Close now, whatever is still unsent."""
        self._is_ending = True
        self.transport.abort()

    # What others see of the client, and do to it

    @property
    def id(self) -> int:
        return self.session.id

    def facts(self) -> ClientFacts:
        return facts_of(self.session)

    def line(self) -> str:
        return line_of(self.session)

    def drain(self) -> None:
        """Close once the client has the replies that it waits for."""
        self.session.drain()

    def unblock(self, how: bytes) -> bool:
        """End a blocking read with nothing or an error; return whether there was one."""
        return self.session.unblock(how)

    # What it reads and runs

    @property
    def unread_bytes(self) -> int:
        return self._parser.size_bytes

    @property
    def unsent_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    @property
    def _taken_bytes(self) -> int:
        return self._written_bytes - self.transport.get_write_buffer_size()

    def _expect_more_taken(self) -> None:
        """Cut the client off if it takes nothing within its time; otherwise check again."""
        patience_s = self._gateway.limits.send_ms_max / 1000
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(patience_s, self._look_at_taken, self._taken_bytes)

    def _look_at_taken(self, before_bytes: int) -> None:
        if self._taken_bytes > before_bytes:
            self._expect_more_taken()
        else:
            self.cut_off()

    def _run(self) -> None:
        call = EagerCall(self._serve(), self._has_run)
        self._call = call
        call.start()

    async def _serve(self) -> None:
        """Run commands until there are none, yielding to other connections in between."""
        turn = this_turn()
        try:
            while not self._is_ending and (taken := self._take()):
                if commands := list(filter(None, taken)):
                    await self.session.run(commands, turn)
                if self._is_ending:
                    return
                self._parser.is_stranger = self.session.is_stranger
                self._resume()
                if self._parser.is_empty:
                    break
                await turn.pause()
            if not self._parser.is_empty or self._unread_bytes:
                self.note_arriving(self._parser.size_bytes)
        except ProtocolError as error:
            self._refuse(f"ERR {error}")
        except GatewayError as error:
            self._refuse(f"ERR {error}")
        except BrokenReply as error:
            log.warning("a long reply was cut off", extra={"reason": str(error)})
            self.cut_off()
        except Exception:  # a defect: nobody waits for a reply that will not come
            self.cut_off()
            raise

    def _take(self) -> list[Words]:
        self._has_more = False
        if self._parser.is_empty:
            return []
        # What a stranger says may let it say more from then on.
        return self._parser.take(1 if self._parser.is_stranger else _COMMANDS_AT_ONCE)

    def _has_run(self, call: EagerCall) -> None:
        if self._call is call:
            self._call = None
        if self._is_ending:
            self.finish()
        elif self._has_more:  # it came when a call that is a task was over, and not yet done
            self._run()
        elif self._has_ended:
            self.finish()
        else:
            self._resume()

    def _refuse(self, text: str) -> None:
        """Send an error, and close when the client has had time to read it."""
        self.write(error_reply(text))
        self._is_ending = True
        loop = asyncio.get_running_loop()
        self._forget_timer()
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._timer = loop.call_later(_LAST_WORDS_S, self.transport.close)
        else:
            self.transport.close()

    def _hold_unread(self) -> None:
        """Count the bytes that wait for a running command; stop reading if there are too many."""
        size_bytes = self._parser.size_bytes
        try:
            self.note_arriving(size_bytes)
        except GatewayError:
            self._pause()
        if size_bytes > UNREAD_BYTES_MAX:
            self._pause()

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()

    def _resume(self) -> None:
        if self._is_paused and not self.transport.is_closing():
            self._is_paused = False
            self.transport.resume_reading()

    def keep(self, size_bytes: int) -> None:
        """Count the connection's memory like incoming bytes. Raises GatewayError over the limit."""
        if size_bytes > self._kept_bytes:
            self._sockets.arrive(size_bytes - self._kept_bytes)
        else:
            self._sockets.arrived(self._kept_bytes - size_bytes)
        self._kept_bytes = size_bytes

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
