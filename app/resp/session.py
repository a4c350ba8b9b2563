"""The conversation with a Redis client, from one command to the next.

It knows who the client is, its version of RESP, its name, and its open transaction. Commands about
streams go to the runner of `/v1/commands`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from headgate.app.auth.access import Access
from headgate.app.auth.principal import Unauthenticated
from headgate.app.auth.usage import Patience
from headgate.app.gateway.gateway import Gateway
from headgate.app.redis_syntax.catalog import has_arity
from headgate.app.redis_syntax.replies import NULL_ARRAY, Reply, Status, long_ranges_in
from headgate.app.redis_syntax.runs import CommandRunner, check_length
from headgate.app.redis_syntax.words import CommandError, wrong_arity
from headgate.app.resp.clients import NAME_BYTES_MAX, Clients
from headgate.app.resp.encoder import Replies
from headgate.app.resp.parser import Words
from headgate.app.resp.subscriptions import ALLOWED, Subscriptions, not_while_subscribed, pong
from headgate.app.runtime.connections import OpenConnection
from headgate.app.transport.sockets import UNTAKEN_BYTES_MAX
from headgate.app.wire.problems import GatewayError
from headgate.engine.errors import Draining, StreamError
from headgate.engine.requests.keyspace import IfUnchanged
from headgate.engine.threads import Turn


class OwnCommand(NamedTuple):
    """A command of sessions."""

    carry_out: Callable[[RespSession, Sequence[bytes]], Awaitable[Reply]]
    for_strangers: bool = False  # also before the client has said who it is
    at_once: bool = False  # also while a transaction is put together
    in_transactions: bool = True
    check_more: Callable[[Sequence[bytes]], object] | None = None  # refuses wrong words

    async def run(self, session: RespSession, words: Sequence[bytes]) -> Reply:
        """Carry out a command, and return its reply.

        Raises:
            StreamError, GatewayError: it failed.
        """
        self.check(words)
        return await self.carry_out(session, words)

    def check(self, words: Sequence[bytes]) -> None:
        """Raise `CommandError` if there is no such subcommand, or a wrong number of words."""
        if self.check_more is not None:
            self.check_more(words)
        name = words[0].decode("latin-1").lower()
        if not has_arity(words, name):
            raise wrong_arity(name)

    def name(self, words: Sequence[bytes]) -> str:
        """Return the name of the command, with that of its subcommand; raises as `check`."""
        self.check(words)
        count = 1 + (words[0].upper() == b"CLIENT")
        return "|".join(word.decode("latin-1").lower() for word in words[:count])


OwnCommands = Mapping[bytes, OwnCommand]
"""Commands by their names in capitals."""


WORD_BYTES = 60
"""Memory of a word besides its bytes, about; a command takes as much as two words."""

_LISTING = [b"CLIENT", b"LIST"]
_LISTINGS_MAX = 4  # each has a line of all connections


def size_of(commands: Iterable[Sequence[bytes]]) -> int:
    """Return how many bytes commands take, about."""
    return sum(sum(map(len, words)) + WORD_BYTES * (len(words) + 2) for words in commands)


class QueuedCommands:
    """The commands between MULTI and EXEC."""

    def __init__(self) -> None:
        """Begin with none."""
        self.commands: list[Words] = []
        self.about_streams: list[Words] = []  # those of them that are not about the connection
        self.is_broken = False  # a command could not be queued: nothing of it will be run
        self.size_bytes = 0  # what they take, about
        self._word_count = self._listing_count = 0

    def queue(self, words: Words, *, is_own: bool) -> None:
        """Add a command that was checked.

        Raises:
            CommandError: there are too many.
        """
        if self.is_broken:
            return
        check_length(len(self.commands) + 1, self._word_count + len(words))
        self._listing_count += is_own and [each.upper() for each in words[:2]] == _LISTING
        if self._listing_count > _LISTINGS_MAX:
            raise CommandError(f"ERR a transaction has CLIENT LIST at most {_LISTINGS_MAX} times")
        self._word_count += len(words)
        self.size_bytes += size_of([words])
        self.commands.append(words)
        if not is_own:
            self.about_streams.append(words)

    def break_off(self) -> None:
        """Let go of all commands, as EXEC will run none of them."""
        self.is_broken = True
        self.commands, self.about_streams = [], []
        self._word_count = self.size_bytes = 0


_ATTACKS: Final = frozenset({b"POST", b"HOST:"})
"""Words of a web page that was made to send commands here (Redis: the same)."""

_BLOCKING: Final = frozenset({b"XREAD", b"XREADGROUP"})

_UNLIKE_OTHERS: Final = _ATTACKS | _BLOCKING

_NO_AUTH: Final = "NOAUTH Authentication required."

_NOT_IN_TRANSACTIONS: Final = "ERR Command not allowed inside a transaction"

_NOTHING_READ: Final = NULL_ARRAY
"""The reply of a read that ends without entries."""

_STRANGER_S: Final = 10.0
"""Time for a client's login, if it needs one."""

_LAST_READ_S: Final = 0.1
"""Block of a read whose client sends no more: long enough to get present entries."""


class Wire(Protocol):
    transport: asyncio.Transport

    def write(self, data: bytes) -> None: ...

    def finish(self) -> None:
        """Close once the running commands are answered."""
        ...

    def cut_off(self) -> None:
        """Close now, whatever is still unsent."""
        ...

    async def until_taken(self, size_bytes: int) -> None:
        """Wait until the client has at most so many bytes to take."""
        ...

    def keep(self, size_bytes: int) -> None:
        """Count the connection's memory like incoming bytes. Raises GatewayError over the limit."""
        ...

    @property
    def unread_bytes(self) -> int: ...

    @property
    def unsent_bytes(self) -> int: ...


class ServedClient(NamedTuple):
    """A client in the audit log: it has no names and no operation."""

    address: str
    names: Mapping[str, str] = {}
    operation: None = None


class RespSession:
    def __init__(self, gateway: Gateway, clients: Clients, wire: Wire, own: OwnCommands) -> None:
        self.gateway = gateway
        self.clients = clients
        self.wire = wire
        self._own = own
        self.id = clients.next_id()
        self.access = self.anonymous()
        self.runner: CommandRunner = self._runner()
        self.replies = Replies(wire.write, wire.until_taken)
        self.subscriptions = Subscriptions(self, gateway.channels)
        self._is_running = False  # replies are being made
        self.name = b""
        self.library: dict[bytes, bytes] = {}
        self.transaction: QueuedCommands | None = None
        self.condition: IfUnchanged | None = None  # what is watched
        self.watched_bytes = 0  # what that takes
        self.switches: set[str] = set()  # of CLIENT LIST: no-evict, no-touch
        self._is_finishing = False
        self.began_s = self.active_s = asyncio.get_running_loop().time()
        self._since_ms = gateway.auth.now_ms()
        self.last_command = b"NULL"
        self._waiting: asyncio.Task[Reply] | None = None  # a read that blocks
        self._unblocked_by: bytes | None = None  # why it ends before its time
        self._has_heard_all = False  # the client sends no more
        self._patience = Patience()  # with a client that has to send more slowly
        self._forget_credential: Callable[[], None] = _nothing
        self._is_counted = False

    # The life of a session

    def begin(self) -> None:
        """Count the connection, or raise GatewayError; it must authenticate in time."""
        self.access.usage.connections.take()
        self._is_counted = True
        self._watch_credential()

    def end(self) -> None:
        """Release everything of the connection, and run nothing more."""
        self._is_finishing = True
        self.subscriptions.close()
        if self._waiting is not None:
            self._waiting.cancel()
        self._forget_credential()
        self._forget_credential = _nothing
        if self._is_counted:
            self._is_counted = False
            self.access.usage.connections.give_back()

    def describe(self, subscriptions_max: int) -> OpenConnection:
        del subscriptions_max
        transport = self.wire.transport
        return OpenConnection(
            str(self.id),
            "redis",
            self.served.address,
            self.access.principal.id,
            self._since_ms,
            transport.get_write_buffer_size(),
        )

    def cut_off(self) -> None:
        """Close the connection for an operator, as CLIENT KILL does."""
        self.drain()

    def drain(self) -> None:
        """Close once the client has the replies that it waits for."""
        self._is_finishing = True
        self.unblock(b"TIMEOUT")
        self.wire.finish()

    @property
    def is_blocked(self) -> bool:
        return self._waiting is not None

    def push(self, message: bytes) -> None:
        """Send a message that no command waits for, at once or with the replies being made."""
        self.replies.push(message)
        if not self._is_running or self.is_blocked:
            self.replies.flush()

    @property
    def is_stranger(self) -> bool:
        """Return whether the client must authenticate first."""
        return not self.access.principal.verbs

    @property
    def served(self) -> ServedClient:
        """Return the origin of the client, for the audit log and rate limits."""
        peer = self.wire.transport.get_extra_info("peername")
        return ServedClient(str(peer[0]) if isinstance(peer, tuple) else "unknown")

    def anonymous(self) -> Access:
        return self.gateway.auth.anonymous(self.served).slowed()

    def become(self, access: Access) -> None:
        """Continue as another principal (AUTH). Raises GatewayError at its limit."""
        access.usage.connections.take()
        self.access.usage.connections.give_back()
        self.access = access.slowed()
        self.runner = self._runner()
        self._watch_credential()

    def reset(self) -> None:
        self.transaction = self.condition = None
        self.subscriptions.clear()
        self.name = b""
        self.replies.reset()
        self.switches.clear()
        self.become(self.anonymous())

    def unblock(self, how: bytes) -> bool:
        if self._waiting is None or self._waiting.done():
            return False
        self._unblocked_by = how
        return self._waiting.cancel()

    def end_input(self) -> None:
        """Note that the client sends no more; a blocking read then ends the connection.

        It ends at once, as the client has gone in most cases, and must not be given anything.
        """
        self._has_heard_all = True
        self._give_up()

    def switch(self, flag: str, *, is_on: bool) -> None:
        (self.switches.add if is_on else self.switches.discard)(flag)

    # Commands

    async def run(self, commands: Sequence[Words], turn: Turn) -> None:
        """Run commands in order, and send the replies. No command is empty.

        Consecutive commands about streams are decided together, and wait once until all are
        durable. Raises RateLimited if the client exceeds its rate for too long.
        """
        self.active_s = asyncio.get_running_loop().time()
        self._is_running = True
        try:
            await self._run(commands, turn)
        finally:
            self._is_running = False
            self.replies.flush()

    async def _run(self, commands: Sequence[Words], turn: Turn) -> None:
        if self.access.usage.is_rated:
            await self._wait_turn(commands)
        at = end = 0  # those before `end` may be decided together
        is_usual = self.transaction is None and not self.subscriptions.count
        if len(commands) > 1 and is_usual and not self._may_be_alone(commands):
            end = len(commands)
        while at < len(commands) and not self._is_finishing:
            if at >= end and self._is_alone(commands[at]):
                await self._run_alone(commands, at)
                at += 1
            else:
                end = max(end, at + 1)
                while end < len(commands) and not self._is_alone(commands[end]):
                    end += 1
                at += await self._run_together(commands[at:end])
            if self.replies.are_large:
                await self._send()
            if at < len(commands) and turn.is_over:
                await self._send()
                await turn.pause()
        await self._send()

    async def _wait_turn(self, commands: Sequence[Sequence[bytes]]) -> None:
        """Charge commands, and wait while over the rate; raises RateLimited in the end."""
        usage = self.access.usage
        requests, size_bytes = len(commands), sum(len(word) for each in commands for word in each)
        delay_s = usage.delay_s(requests=requests, size_bytes=size_bytes)
        if self._patience.is_over(delay_s, asyncio.get_running_loop().time()):
            usage.charge(requests=requests, size_bytes=size_bytes)  # refused: it owes
        if delay_s:
            await asyncio.sleep(delay_s)

    def is_own(self, words: Sequence[bytes]) -> bool:
        return words[0].upper() in self._own

    async def run_own(self, words: Sequence[bytes]) -> Reply | StreamError:
        own = self._own[words[0].upper()]
        try:
            if self.is_stranger and not own.for_strangers:
                raise CommandError(_NO_AUTH)
            return await own.run(self, words)
        except StreamError as error:
            return error.with_traceback(None)
        except Unauthenticated:
            return CommandError(_NO_AUTH)
        except GatewayError as error:
            return CommandError(f"{'LIMIT' if error.code == 'rate_limited' else 'NOPERM'} {error}")

    def _may_be_alone(self, commands: Sequence[Words]) -> bool:
        names = {words[0] for words in commands}  # few: a pipeline is of one kind mostly
        upper = [*map(bytes.upper, names)]
        return not (_UNLIKE_OTHERS.isdisjoint(upper) and self._own.keys().isdisjoint(upper))

    def _is_alone(self, words: Sequence[bytes]) -> bool:
        """Return whether a command must not be decided together with others."""
        name = words[0].upper()
        return (
            self.transaction is not None
            or self.subscriptions.are_exclusive
            or name in self._own
            or name in _ATTACKS
            or (name in _BLOCKING and is_blocking(words))
        )

    async def _run_together(self, commands: Sequence[Words]) -> int:
        """Run commands about streams; return how many were run, at least one."""
        self.last_command = commands[-1][0][:NAME_BYTES_MAX]
        if self.is_stranger:
            for _ in commands:
                await self.replies.add(CommandError(_NO_AUTH))
            return len(commands)
        if self.clients.is_paused:
            await self._wait_for_pause(commands)
        outcomes = list(await self.runner.run_each(commands))
        count = len(outcomes)
        texts = [outcome for outcome in outcomes if type(outcome) is bytes]
        if len(texts) == count:
            self.replies.add_texts(texts)
        else:
            outcomes.reverse()
            try:
                while outcomes:  # none is kept while the next one waits to be sent
                    await self.replies.add(outcomes.pop())
            finally:  # the client may have gone, or the beginning of a reply is all that it gets
                for long in (each for outcome in outcomes for each in long_ranges_in(outcome)):
                    await long.close()
        return count

    async def _run_alone(self, commands: Sequence[Words], at: int) -> None:
        words = commands[at]
        name = words[0].upper()
        if name in _ATTACKS:
            self.wire.cut_off()
            self._is_finishing = True
            return
        self.last_command = words[0][:NAME_BYTES_MAX]
        own = self._own.get(name)
        if self.subscriptions.are_exclusive and (name not in ALLOWED or name == b"PING"):
            await self.replies.add(self._while_subscribed(words))
            return
        is_at_once = own is not None and own.at_once and has_arity(words, name.decode().lower())
        if self.transaction is not None and not is_at_once:
            await self.replies.add(self._queued(self.transaction, own, words))
        elif own is not None:
            await self.replies.add(await self._run_own_in_turn(words))
        else:
            await self._block(words, size_of(commands[at:]))

    def _while_subscribed(self, words: Words) -> Reply | StreamError:
        """Answer a client that may only subscribe, as it speaks RESP2."""
        own = self._own.get(words[0].upper())
        try:
            name = self.runner.name(words) if own is None else own.name(words)
        except StreamError as error:
            return error.with_traceback(None)
        if name != "ping":
            return not_while_subscribed(name)
        return pong(words) if len(words) <= 2 else wrong_arity(name)

    async def _run_own_in_turn(self, words: Words) -> Reply | StreamError:
        """Run a command about the connection, and count the memory that it keeps after it."""
        outcome = await self.run_own(words)
        try:
            self._account()
        except CommandError as error:  # it watches too much
            self.condition = None
            self._account()
            return error
        return outcome

    def _account(self, waiting_bytes: int = 0) -> None:
        """Count queued, watched and waiting bytes like incoming ones, or raise CommandError."""
        queued = 0 if self.transaction is None else self.transaction.size_bytes
        watched = 0 if self.condition is None else self.watched_bytes
        if self._is_finishing:  # all of it goes with the connection
            return
        try:
            self.wire.keep(queued + watched + waiting_bytes)
        except GatewayError as error:
            raise CommandError(f"ERR {error}") from None

    def _queued(
        self, transaction: QueuedCommands, own: OwnCommand | None, words: Words
    ) -> Reply | StreamError:
        try:
            if own is None:
                self.runner.check(words)
            else:
                own.check(words)
                if not own.in_transactions:
                    raise CommandError(_NOT_IN_TRANSACTIONS)
            transaction.queue(words, is_own=own is not None)
            self._account()
        except StreamError as error:
            transaction.break_off()
            self._account()
            if words[0].upper() == b"EXEC":  # with a wrong number of words
                self.transaction = self.condition = None
            return error.with_traceback(None)
        return Status("QUEUED")

    async def _block(self, words: Words, size_bytes: int) -> None:
        """Run a read that may block. Until it ends, nothing else of this client is run."""
        self.replies.flush()
        if self.is_stranger:
            await self.replies.add(CommandError(_NO_AUTH))
            return
        try:
            self._account(size_bytes)
        except CommandError as error:
            await self.replies.add(error)
            return
        if self.clients.is_paused:
            await self._wait_for_pause([words])
        self._waiting = asyncio.ensure_future(self.runner.run(words))
        if self._has_heard_all:
            asyncio.get_running_loop().call_later(_LAST_READ_S, self._give_up)
        try:
            await self.replies.add(await self._waiting)
        except Draining:
            await self.replies.add(_NOTHING_READ)
            self.drain()
        except StreamError as error:
            await self.replies.add(error.with_traceback(None))
        except asyncio.CancelledError:
            how, self._unblocked_by = self._unblocked_by, None
            if how is None:
                raise
            if how == b"ERROR":
                text = "UNBLOCKED client unblocked via CLIENT UNBLOCK"
                await self.replies.add(CommandError(text))
            else:
                await self.replies.add(_NOTHING_READ)
        finally:
            self._waiting = None
            self._account()

    def _give_up(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._is_finishing = True
            self._waiting.cancel()
            self.wire.finish()

    def _runner(self) -> CommandRunner:
        commands = self.gateway.commands
        assert commands is not None
        return commands.by(self.access).with_long_arrays()

    async def _wait_for_pause(self, commands: Sequence[Words]) -> None:
        only_reads = all(self._only_reads(words) for words in commands)
        await self.clients.until_going_on(only_reads=only_reads)

    def _only_reads(self, words: Sequence[bytes]) -> bool:
        try:
            return self.runner.only_reads(words)
        except StreamError:
            return True

    async def _send(self) -> None:
        self.replies.flush()
        await self.wire.until_taken(UNTAKEN_BYTES_MAX)

    # Who the client is

    def _watch_credential(self) -> None:
        """Close when the credential expires, or the client does not authenticate in time."""
        self._forget_credential()
        if self.is_stranger:
            timer = asyncio.get_running_loop().call_later(_STRANGER_S, self.drain)
            self._forget_credential = timer.cancel
        else:
            principal = self.access.principal
            self._forget_credential = self.gateway.auth.at_end(principal, self.drain)


def is_blocking(words: Sequence[bytes]) -> bool:
    """Return whether a read may block: BLOCK is among its options, before STREAMS."""
    for word in words[1:]:
        option = word.upper()
        if option == b"BLOCK":
            return True
        if option == b"STREAMS":
            return False
    return False


def _nothing() -> None:
    """Forget nothing."""
