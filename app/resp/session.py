"""Session: what a Redis client says, from one command to the next.

It knows who the client is, which version of RESP it speaks, what it is called, and the transaction
that it is putting together. Commands about streams go to the runner of `/v1/commands`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from headgate.app.auth.access import Access
from headgate.app.auth.limits.usage import Patience
from headgate.app.auth.principal import Unauthenticated
from headgate.app.backends.port import Commands, Reply, Status
from headgate.app.http.dependencies import Gateway
from headgate.app.redis_syntax.words import CommandError
from headgate.app.resp import client_commands, handshake, transaction
from headgate.app.resp.client_filter import ClientFacts
from headgate.app.resp.clients import Clients
from headgate.app.resp.encoder import RESP2, encode_in_turns
from headgate.app.resp.own_command import OwnCommand, OwnCommands
from headgate.app.resp.transaction import QueuedCommands
from headgate.app.wire.problems import GatewayError
from headgate.engine.errors import Draining, StreamError
from headgate.engine.requests.keyspace import IfUnchanged

_ATTACKS: Final = frozenset({b"POST", b"HOST:"})
"""What a web page sends that was made to send commands here (Redis: the same)."""

_BLOCKING: Final = frozenset({b"XREAD", b"XREADGROUP"})

_NO_AUTH: Final = "NOAUTH Authentication required."

_OWN: OwnCommands = {**transaction.COMMANDS, **handshake.COMMANDS, **client_commands.COMMANDS}

_STRANGER_S: Final = 10.0
"""How long a client has to say who it is, where it must."""


class Wire(Protocol):
    """The connection of a session."""

    transport: asyncio.Transport

    def write(self, data: bytes) -> None:
        """Send bytes."""
        ...

    def finish(self) -> None:
        """End the connection once what is being run is answered and sent."""
        ...

    def cut_off(self) -> None:
        """End the connection now."""
        ...

    @property
    def unread_bytes(self) -> int:
        """Return how many bytes have come and are not run."""
        ...


class RespSession:
    """The conversation with one client."""

    SENT: Final = Status()
    """Instead of a reply that was sent already."""

    def __init__(self, gateway: Gateway, clients: Clients, wire: Wire) -> None:
        """Begin with a client that has said nothing yet."""
        self.gateway = gateway
        self.clients = clients
        self.wire = wire
        self.id = clients.next_id()
        self.access = self.anonymous()
        self.runner: Commands = self._runner()
        self.protocol = RESP2
        self.name = b""
        self.library: dict[bytes, bytes] = {}
        self.transaction: QueuedCommands | None = None
        self.condition: IfUnchanged | None = None  # what is watched
        self._switches: set[str] = set()  # of CLIENT LIST: no-evict, no-touch
        self._sends_all = True  # or else replies are left out,
        self._skips = 0  # only so many, unless it is 0
        self._is_finishing = False
        self._began_s = self._active_s = asyncio.get_running_loop().time()
        self._last_command = b"NULL"
        self._waiting: asyncio.Task[Reply] | None = None  # a read that blocks
        self._unblocked_by: bytes | None = None  # why it ends before its time
        self._patience = Patience()  # with a client that has to send more slowly
        self._out: list[bytes] = []
        self._forget_credential: Callable[[], None] = _nothing
        self._is_counted = False

    # The life of a session

    def begin(self) -> None:
        """Count the connection, and end it in time if the client does not say who it is.

        Raises:
            GatewayError: there are as many as this principal may have.
        """
        self.access.usage.connections.take()
        self._is_counted = True
        self._watch_credential()

    def end(self) -> None:
        """Let go of everything that belongs to the connection."""
        self.stop_waiting()
        self._forget_credential()
        self._forget_credential = _nothing
        if self._is_counted:
            self._is_counted = False
            self.access.usage.connections.give_back()

    def drain(self) -> None:
        """End the connection once the client has the replies that it waits for."""
        self._is_finishing = True
        self.unblock(b"TIMEOUT")
        self.wire.finish()

    @property
    def is_stranger(self) -> bool:
        """Tell whether the client may do nothing before it says who it is."""
        return not self.access.principal.verbs

    def anonymous(self) -> Access:
        """Return the access of a client that has not said who it is."""
        client = self.wire.transport.get_extra_info("peername")
        scope: dict[str, Any] = {
            "client": client if isinstance(client, tuple) else None,
            "headers": [],
        }
        return self.gateway.auth.anonymous(scope).slowed()

    def become(self, access: Access) -> None:
        """Go on as another principal (AUTH).

        Raises:
            GatewayError: it has as many connections as it may have.
        """
        access.usage.connections.take()
        self.access.usage.connections.give_back()
        self.access = access.slowed()
        self.runner = self._runner()
        self._watch_credential()

    def reset(self) -> None:
        """Go back to the beginning (RESET)."""
        self.transaction = self.condition = None
        self.protocol, self.name, self._sends_all, self._skips = RESP2, b"", True, 0
        self._switches.clear()
        self.become(self.anonymous())

    def unblock(self, how: bytes) -> bool:
        """End a read that blocks, with nothing or with an error; tells whether there was one."""
        if self._waiting is None or self._waiting.done():
            return False
        self._unblocked_by = how
        return self._waiting.cancel()

    def stop_waiting(self) -> None:
        """End a read that blocks, as nobody is there any more."""
        if self._waiting is not None:
            self._waiting.cancel()

    def switch(self, flag: str, *, is_on: bool) -> None:
        """Show a flag in CLIENT LIST, or not."""
        (self._switches.add if is_on else self._switches.discard)(flag)

    # Commands

    async def run(self, commands: Sequence[list[bytes]]) -> None:
        """Run commands in order, and send the replies.

        Commands with nothing of another kind between them are decided together, and wait once
        until all of them are durable.

        Raises:
            RateLimited: the client has sent more than it may for too long.
        """
        self._active_s = asyncio.get_running_loop().time()
        if self.access.usage.is_rated:
            await self._wait_turn(commands)
        at = 0
        while at < len(commands) and not self._is_finishing:
            words = commands[at]
            if self._is_alone(words):
                await self._run_alone(words)
                at += 1
            else:
                end = at + 1
                while end < len(commands) and not self._is_alone(commands[end]):
                    end += 1
                at += await self._run_together(commands[at:end])
        self._flush()

    async def _wait_turn(self, commands: Sequence[Sequence[bytes]]) -> None:
        """Take account of commands, and wait if they are more than the principal may send.

        Raises:
            RateLimited: the client has gone on for too long.
        """
        usage = self.access.usage
        requests, size_bytes = len(commands), sum(len(word) for each in commands for word in each)
        delay_s = usage.delay_s(requests=requests, size_bytes=size_bytes)
        if self._patience.is_over(delay_s, asyncio.get_running_loop().time()):
            usage.charge(requests=requests, size_bytes=size_bytes)  # refused: it owes
        if delay_s:
            await asyncio.sleep(delay_s)

    def is_own(self, words: Sequence[bytes]) -> bool:
        """Tell whether a command is about the connection."""
        return words[0].upper() in _OWN

    async def run_own(self, words: Sequence[bytes]) -> Reply | StreamError:
        """Run a command about the connection; returns its reply or its error."""
        own = _OWN[words[0].upper()]
        try:
            if self.is_stranger and not own.for_strangers:
                raise CommandError(_NO_AUTH)
            return await own.run(self, words)
        except StreamError as error:
            return error.with_traceback(None)
        except Unauthenticated:
            return CommandError(_NO_AUTH)
        except GatewayError as error:
            return CommandError(f"NOPERM {error}")

    def _is_alone(self, words: Sequence[bytes]) -> bool:
        """Tell whether nothing else may be decided together with a command."""
        name = words[0].upper()
        return (
            self.transaction is not None
            or name in _OWN
            or name in _ATTACKS
            or (name in _BLOCKING and is_blocking(words))
        )

    async def _run_together(self, commands: Sequence[list[bytes]]) -> int:
        """Run commands about streams; returns how many of them were run, at least one."""
        self._last_command = commands[-1][0]
        if self.is_stranger:
            for _ in commands:
                await self.send_outcome(CommandError(_NO_AUTH))
            return len(commands)
        if self.clients.is_paused:
            await self._wait_for_pause(commands)
        outcomes = await self.runner.run_each(commands)
        for outcome in outcomes:
            if type(outcome) is bytes and self._sends_all:
                self._out.append(b"$%d\r\n%b\r\n" % (len(outcome), outcome))
            else:
                await self.send_outcome(outcome)
        return len(outcomes)

    async def _run_alone(self, words: list[bytes]) -> None:
        name = words[0].upper()
        if name in _ATTACKS:
            self.wire.cut_off()
            self._is_finishing = True
            return
        self._last_command = words[0]
        own = _OWN.get(name)
        is_at_once = own is not None and own.at_once and own.has_arity_of(words)
        if self.transaction is not None and not is_at_once:
            await self.send_outcome(self._queued(self.transaction, own, words))
        elif own is not None:
            await self.send_outcome(await self.run_own(words))
        else:
            await self._block(words)

    def _queued(
        self, transaction: QueuedCommands, own: OwnCommand | None, words: list[bytes]
    ) -> Reply | StreamError:
        try:
            if own is None:
                self.runner.check(words)
            else:
                own.check(words)
            transaction.queue(words)
        except StreamError as error:
            transaction.is_broken = True
            if words[0].upper() == b"EXEC":  # with a wrong number of words
                self.transaction = self.condition = None
            return error.with_traceback(None)
        return Status("QUEUED")

    async def _block(self, words: list[bytes]) -> None:
        """Run a read that may wait. Until it ends, nothing else of this client is run."""
        self._flush()
        if self.is_stranger:
            await self.send_outcome(CommandError(_NO_AUTH))
            return
        if self.clients.is_paused:
            await self._wait_for_pause([words])
        self._waiting = asyncio.ensure_future(self.runner.run(words))
        try:
            await self.send_outcome(await self._waiting)
        except Draining:
            await self.send_outcome(client_commands.NOTHING_READ)
            self.drain()
        except StreamError as error:
            await self.send_outcome(error.with_traceback(None))
        except asyncio.CancelledError:
            how, self._unblocked_by = self._unblocked_by, None
            if how is None:
                raise
            if how == b"ERROR":
                text = "UNBLOCKED client unblocked via CLIENT UNBLOCK"
                await self.send_outcome(CommandError(text))
            else:
                await self.send_outcome(client_commands.NOTHING_READ)
        finally:
            self._waiting = None

    def _runner(self) -> Commands:
        commands = self.access.commands
        assert commands is not None
        return commands

    async def _wait_for_pause(self, commands: Sequence[list[bytes]]) -> None:
        only_reads = all(self._only_reads(words) for words in commands)
        await self.clients.until_going_on(only_reads=only_reads)

    def _only_reads(self, words: Sequence[bytes]) -> bool:
        try:
            return self.runner.only_reads(words)
        except StreamError:
            return True

    # Replies

    async def send_outcome(self, outcome: Reply | StreamError) -> None:
        """Send what has become of a command."""
        if outcome is not self.SENT:
            self._send(await encode_in_turns(outcome, self.protocol))

    def change_replies(self, mode: bytes) -> Reply:
        """Send replies, or none, or none to the next command (CLIENT REPLY)."""
        if mode == b"SKIP":
            if self._sends_all:
                self._sends_all, self._skips = False, 1
            return self.SENT
        self._sends_all, self._skips = mode == b"ON", 0
        return Status("OK") if self._sends_all else self.SENT

    def _send(self, data: bytes) -> None:
        if self._sends_all:
            self._out.append(data)
        elif self._skips:
            self._skips -= 1
            self._sends_all = not self._skips

    def _flush(self) -> None:
        if self._out:
            out, self._out = self._out, []
            data = b"".join(out)
            self.clients.output_bytes += len(data)
            self.wire.write(data)

    # What others see of the client

    def facts(self) -> ClientFacts:
        """Return what a filter looks at."""
        transport, now_s = self.wire.transport, asyncio.get_running_loop().time()
        return ClientFacts(
            self.id,
            _address_of(transport, "peername"),
            _address_of(transport, "sockname"),
            self._user(),
            int(now_s - self._began_s),
        )

    def line(self) -> str:
        """Describe the client as CLIENT LIST does."""
        facts, transport = self.facts(), self.wire.transport
        flags = "".join(
            [
                "b" * (self._waiting is not None),
                "x" * (self.transaction is not None),
                *sorted(self._switches),
            ]
        )
        queued = -1 if self.transaction is None else len(self.transaction.commands)
        unsent = transport.get_write_buffer_size()
        watched = 0 if self.condition is None else len(self.condition.streams)
        values: dict[str, object] = {
            "id": facts.id,
            "addr": facts.address,
            "laddr": facts.local_address,
            "fd": _descriptor_of(transport),
            "name": self.name.decode("latin-1"),
            "age": facts.age_s,
            "idle": int(asyncio.get_running_loop().time() - self._active_s),
            "flags": flags or "N",
            "db": 0,
            "sub": 0,
            "psub": 0,
            "ssub": 0,
            "multi": queued,
            "watch": watched,
            "qbuf": self.wire.unread_bytes,
            "qbuf-free": 0,
            "argv-mem": 0,
            "multi-mem": 0,
            "rbs": 0,
            "rbp": 0,
            "obl": unsent,
            "oll": 0,
            "omem": unsent,
            "tot-mem": unsent + self.wire.unread_bytes,
            "events": "r",
            "cmd": self._last_command.decode("latin-1").lower(),
            "user": facts.user,
            "redir": -1,
            "resp": self.protocol,
            "lib-name": self.library.get(b"lib-name", b"").decode("latin-1"),
            "lib-ver": self.library.get(b"lib-ver", b"").decode("latin-1"),
        }
        return " ".join(f"{name}={value}" for name, value in values.items())

    def _user(self) -> str:
        principal = self.access.principal
        return "default" if principal.is_home or principal.is_anonymous else principal.id

    def _watch_credential(self) -> None:
        """End the connection with its credential, or if a client does not say who it is."""
        self._forget_credential()
        if self.is_stranger:
            timer = asyncio.get_running_loop().call_later(_STRANGER_S, self.drain)
            self._forget_credential = timer.cancel
        else:
            principal = self.access.principal
            self._forget_credential = self.gateway.auth.at_end(principal, self.drain)


def is_blocking(words: Sequence[bytes]) -> bool:
    """Tell whether a read may wait: BLOCK is among its options, before STREAMS."""
    for word in words[1:]:
        option = word.upper()
        if option == b"BLOCK":
            return True
        if option == b"STREAMS":
            return False
    return False


def _address_of(transport: asyncio.Transport, name: str) -> str:
    """Return an end of a connection as Redis writes it."""
    address = transport.get_extra_info(name)
    if not isinstance(address, tuple):
        return f"{address or 'unknown'}:0"
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    return f"{host}:{address[1]}"


def _descriptor_of(transport: asyncio.Transport) -> int:
    socket = transport.get_extra_info("socket")
    return -1 if socket is None else int(socket.fileno())


def _nothing() -> None:
    """Forget nothing."""
