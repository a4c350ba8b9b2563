"""Send commands to the primary that has the stream, wherever it is now.

A command that a server did not carry out is sent again for a short time: after a redirect, while a
replica becomes a primary, while a server loads its data. A change whose reply is lost is not sent
again, because it may have happened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, NamedTuple, Self, TypeGuard, cast

from msgspec.structs import asdict
from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from headgate.app.backends.redis.address import Address, Arrangement, Servers
from headgate.app.backends.redis.durability import Durability, DurabilityLevel, durability
from headgate.app.backends.redis.faults import Lost, NotSent, fault_of, is_wrong_type
from headgate.app.backends.redis.features import Feature, facts_of, features_of, obstacle_of
from headgate.app.backends.redis.keys import KeyNames, StreamKeys
from headgate.app.backends.redis.library import Effect, Library, arguments
from headgate.app.backends.redis.node import Node, Word, Words, connection_to
from headgate.app.backends.redis.topology import Topology, discover
from headgate.app.runtime import periodic
from headgate.engine.errors import StreamsChanged, WrongSideKey, WrongType
from headgate.engine.limits import WAITERS_MAX
from headgate.engine.requests import Request
from headgate.engine.requests.keyspace import IfUnchanged
from headgate.engine.state.bounds import KeyspaceBounds

log = logging.getLogger("headgate")

_REDIRECTS_MAX = 8
"""Redirects that are followed at once. After that a command waits before it is sent again."""

_ASKING: tuple[Words, ...] = ((b"ASKING",),)
_CHANGED = b"changed"
"""The kind of a side key that is watched, and changed if a condition does not hold."""

_ABSENT = b"absent"
"""The kind of a side key that never exists. Each function names the one of its stream as its last
key. So while a slot is on its way to another server, in which case some keys of a stream may be
here and others there, both servers answer TRYAGAIN and do nothing: a key that is named is missing.
Without it the function would begin, and end with an error at the first key that has moved."""

_PAUSE_S = 0.05
"""Before a command is sent again that a server could not carry out yet."""

_DISCOVERY_PAUSE_S_MIN, _DISCOVERY_PAUSE_S_MAX = 0.1, 2.0
"""Between two attempts to discover the servers; each pause is twice the one before."""

_NOT_YET = (BusyLoadingError, ClusterDownError, MasterDownError, ReadOnlyError, TryAgainError)
"""The server did not carry out the command, and it or another one soon will."""


class ClientOptions(NamedTuple):
    servers: Servers
    prefix: bytes = b"headgate:"
    durability: DurabilityLevel = DurabilityLevel.NONE
    answer_ms_max: int = 5_000  # how long a server may take to answer
    connect_ms_max: int = 1_000  # how long it may take to connect
    patience_ms: int = 1_000  # for how long a command is sent again that was not carried out
    keyspace: KeyspaceBounds = KeyspaceBounds()  # how much there may be
    lease_ms: int = 10_000  # when other gateways take this one for dead
    waiters_max: int = WAITERS_MAX  # reads blocked in this gateway at the same time


Send = Callable[[int, Callable[[], Sequence[Words]], bool], Coroutine[Any, Any, list[Any]]]
"""Sends commands to the server of a slot, and returns the replies. It is told whether the commands
change the state."""


At = bytes | Sequence[StreamKeys]
"""Where an operation is carried out: a stream, or keys of one slot."""


class _Primary(NamedTuple):
    changes: Node
    reads: Node  # the same, unless changes wait until they are durable
    tasks: Sequence[asyncio.Task[None]]


class Client:
    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.names = KeyNames(options.prefix)
        self._library = Library()
        self._topology = Topology([], [], [])
        self._primaries: dict[Address, _Primary] = {}
        self._durability = Durability(options.durability)
        self._is_known = asyncio.Event()  # where the servers are
        self._is_stale = asyncio.Event()  # the topology has to be discovered anew
        self._is_stale.set()
        self._pause_s = _DISCOVERY_PAUSE_S_MIN  # before it is discovered again
        self._uses_scripts = False  # functions cannot be loaded
        self._loading: dict[Node, asyncio.Future[None]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self.obstacle: str | None = "they are not connected yet"  # why nothing can be asked
        self.on_topology: Callable[[Sequence[Address]], None] = lambda _: None
        self.send: Send = self._attempt

    # What is asked

    async def perform(
        self, effect: Effect, request: Request[Any], /, *words: Word, **more: object
    ) -> Any:
        """Run the operation that is named like the request's class; `more` overrides its fields."""
        facts = {**asdict(request), **more}
        return await self.call(effect, type(request).__name__, facts["stream"], *words, **facts)

    async def call(
        self, effect: Effect, operation: str, at: At, /, *words: Word, **facts: object
    ) -> Any:
        """Run one of our operations on a stream, or on keys of one slot, and return its reply.

        `words` follow the arguments unchanged: entries, which may be long. `facts` are its
        arguments by name; None leaves one out.

        Raises:
            Fault: the operation returned an error.
            WrongType: another client has put something else under a key.
            ResponseError: the server refused it.
            NotSent: no server could carry it out. Nothing has happened.
            Lost: the reply is lost. The operation may have happened.
        """
        keys = [self.names.of(at)] if isinstance(at, bytes) else at
        called = _words(operation, keys, facts, words)
        reply = await self.send(
            keys[0].slot, lambda: [self._calling(effect, called)], effect is not Effect.READ
        )
        if isinstance(reply[0], ResponseError):
            raise self._error_of(reply[0])
        return reply[0]

    async def execute(self, stream: bytes, *words: Word, changes: bool) -> Any:
        """Send a command to the server that has a stream; raises what `call` raises."""
        [reply] = await self.execute_all(self.names.of(stream).slot, [words], changes=changes)
        return reply

    async def execute_all(
        self, slot: int, commands: Sequence[Words], *, changes: bool
    ) -> Sequence[Any]:
        """Send commands to the server of a slot, with nothing of this gateway in between.

        The second word of each is its key. Raises the first error; see `call`.
        """
        replies = await self.execute_together(slot, commands, changes=changes)
        for words, reply in zip(commands, replies, strict=True):
            if isinstance(reply, ResponseError):
                raise self._error_of(reply, cast(bytes, words[1]))
            if isinstance(reply, Exception):
                raise reply
        return replies

    async def execute_together(
        self, slot: int, commands: Sequence[Words], *, changes: bool
    ) -> list[Any]:
        """Like `execute_all`, but the replies include errors."""
        return await self.send(slot, lambda: commands, changes)

    async def execute_everywhere(self, *words: Word, changes: bool) -> list[Any]:
        return await asyncio.gather(
            *(self.execute_at(address, *words, changes=changes) for address in await self.known())
        )

    async def execute_at(self, address: Address, *words: Word, changes: bool) -> Any:
        if address not in self._topology.primaries:
            raise NotSent(f"{address} is no longer a primary")
        primary = self._open(address)
        node = primary.changes if changes else primary.reads
        [reply] = await node.ask_all([words], changes=changes)
        if _is_refusal(reply):
            raise NotSent(_why(reply))
        if isinstance(reply, Exception):
            raise reply
        return reply

    def sending(self, send: Send) -> Self:
        """Return the same client with another way to send commands to the server of a slot."""
        client = copy(self)
        client.send = send
        return client

    async def transact(
        self, slot: int, make: Callable[[], Sequence[Words]], condition: IfUnchanged | None = None
    ) -> list[Any]:
        """Carry out commands on one slot with nothing in between (MULTI, EXEC).

        The condition is checked before them, between WATCH and EXEC; if it fails, a watched key has
        been changed and StreamsChanged is raised. The replies include errors. A ResponseError means
        that none of the commands was carried out; see `call` for the other errors.
        """
        reply = None
        for _ in range(2):
            replies = await self._attempt(
                slot,
                lambda: [*self._checking(condition), (b"MULTI",), *make(), (b"EXEC",)],
                changes=True,
            )
            reply = replies[-1]
            if reply is None:
                raise StreamsChanged
            if isinstance(reply, Exception):
                raise next(filter(_is_error, replies))
            if not any(_is_error(each) and _lacks_library(each) for each in reply):
                break
            # No operation was carried out, as all of them are in the library.
            if not await self._has_loaded(await self._node(slot, changes=True)):
                raise NotSent("the server lacks the functions of the gateway")
        return list(reply or ())

    def look_again(self) -> None:
        self._is_stale.set()

    async def known(self) -> list[Address]:
        """Return the primaries; raises NotSent if they do not become known in time."""
        await self._until_known()
        return self._topology.primaries

    def _checking(self, condition: IfUnchanged | None) -> list[Words]:
        """Return the commands that precede a transaction to make it conditional."""
        if condition is None:
            return []
        keys = list(map(self.names.of, condition.streams))
        watched = [part for each in keys for part in (each.key, each.side(_CHANGED))]
        checks = [
            self._calling(Effect.FREE, _words("if_unchanged", [each], {"revision": revision}))
            for each, revision in zip(keys, condition.revisions, strict=True)
        ]
        return [(b"WATCH", *watched), *checks]

    def _error_of(self, error: ResponseError, key: bytes = b"") -> Exception:
        """Return a command's error with its foreign key; `key` b"": a function's reply names it."""
        fault = fault_of(error)
        if fault is not None and fault.name == "WrongType":
            key, why = fault.facts[0], fault.facts[1].decode(errors="replace")
        elif key and is_wrong_type(error):
            why = "it has another type"
        else:
            return fault or error
        is_stream = self.names.is_stream(key)
        return WrongType(self.names.name(key)) if is_stream else WrongSideKey(key, why)

    def _calling(self, effect: Effect, words: Words) -> Words:
        if self._uses_scripts:
            return [b"EVALSHA", self._library.scripts[effect].sha, *words]
        return [b"FCALL", self._library.names[effect], *words]

    # Where it is sent

    async def _attempt(
        self, slot: int, make: Callable[[], Sequence[Words]], changes: bool
    ) -> list[Any]:
        """Send commands until a server carries them out.

        Redirects are followed, and missing functions are loaded. If a server cannot carry them out
        yet or did not get them, the servers are discovered again until the patience is over. A
        transaction is sent again as a whole: EXEC carried out none of its commands if one of them
        was refused.
        """
        loop = asyncio.get_running_loop()
        over_s: float | None = None  # the patience begins with the first obstacle
        node = await self._node(slot, changes=changes)
        asking: tuple[Words, ...] = ()
        redirects = 0
        while True:
            replies = await self._outcomes(node, [*asking, *make()], changes=changes)
            obstacle = next(filter(_is_refusal, replies), None)
            if obstacle is None:
                return replies[len(asking) :]
            if over_s is None:
                over_s = loop.time() + self.options.patience_ms / 1000
            elif loop.time() >= over_s:
                raise NotSent(_why(obstacle))
            asking = ()
            if isinstance(obstacle, AskError | MovedError) and redirects < _REDIRECTS_MAX:
                redirects += 1
                node = self._open(self._redirected(slot, obstacle)).changes
                if isinstance(obstacle, AskError):
                    asking = _ASKING
                else:
                    self._is_stale.set()
            elif not (_lacks_library(obstacle) and await self._has_loaded(node)):
                self._is_stale.set()
                await asyncio.sleep(_PAUSE_S)
                node = await self._node(slot, changes=changes)

    def _redirected(self, slot: int, redirect: AskError | MovedError) -> Address:
        """Return the target of a redirect; a server may leave out its own host."""
        here = self._topology.of_slot(slot)
        return Address(redirect.host or ("" if here is None else here.host), redirect.port)

    async def _outcomes(self, node: Node, commands: Sequence[Words], *, changes: bool) -> list[Any]:
        """Send commands and return the replies; repeatable failures are errors in their place.

        Raises Lost if the commands may have changed something and their replies are lost.
        """
        try:
            return await node.ask_all(commands, changes=changes)
        except NotSent as error:
            return [error]
        except Lost as error:
            if changes:
                self._is_stale.set()
                raise
            return [error]

    async def _node(self, slot: int, *, changes: bool) -> Node:
        await self._until_known()
        address = self._topology.of_slot(slot)
        if address is None:
            self._is_stale.set()
            raise NotSent("no server has this part of the cluster")
        primary = self._open(address)
        return primary.changes if changes else primary.reads

    async def _until_known(self) -> None:
        if self._is_known.is_set():
            return
        try:
            async with asyncio.timeout(self.options.patience_ms / 1000):
                await self._is_known.wait()
        except TimeoutError:
            raise NotSent(self.obstacle or "they are not known") from None

    async def _has_loaded(self, node: Node) -> bool:
        """Load our functions into a server, once for all calls that miss them together.

        Return whether the server has them now, or cannot take them yet.
        """
        loading = self._loading.get(node)
        if loading is None:
            loading = self._loading[node] = asyncio.ensure_future(self._load_once(node))
            loading.add_done_callback(lambda _: self._loading.pop(node, None))
        try:
            await asyncio.shield(loading)
        except (NotSent, Lost, *_NOT_YET):
            return False
        return True

    async def _load_once(self, node: Node) -> None:
        """Load our functions; where functions are not allowed, load them as scripts."""
        if not self._uses_scripts:
            try:
                text = self._library.text
                await node.ask((b"FUNCTION", b"LOAD", b"REPLACE", text), changes=True)
            except ResponseError as error:
                if not _is_forbidden(error):
                    raise
                extra = {"why": str(error)}
                log.warning(
                    "functions cannot be loaded: the gateway uses scripts instead", extra=extra
                )
                self._uses_scripts = True
        if self._uses_scripts:
            for script in self._library.scripts.values():
                await node.ask((b"SCRIPT", b"LOAD", script.text), changes=False)

    # Which servers there are

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await periodic.repeat("topology of the servers", self._follow_topology)
        finally:
            self._tasks = None
            self._primaries.clear()

    async def _follow_topology(self) -> None:
        await self._is_stale.wait()
        self._is_stale.clear()
        try:
            await self._discover()
        except (NotSent, ResponseError) as error:
            self._is_stale.set()
            self._refuse(str(error))
            self._pause_s = min(2 * self._pause_s, _DISCOVERY_PAUSE_S_MAX)
        except BaseException:
            self._is_stale.set()
            raise
        else:
            self._pause_s = _DISCOVERY_PAUSE_S_MIN
        await asyncio.sleep(self._pause_s)  # bounds how often the servers are asked

    async def _discover(self) -> None:
        options = self.options
        connect_s = options.connect_ms_max / 1000
        topology = await discover(options.servers, self._topology.primaries, connect_s)
        primaries = topology.primaries
        if not self._is_known.is_set():
            await self.prepare(primaries[0])
        for address in set(self._primaries) - set(primaries):
            self._close(address)
        is_other = set(primaries) != set(self._topology.primaries)
        self._topology = topology
        self._is_known.set()
        if self.obstacle is not None:
            log.info("the servers are connected", extra={"servers": str(options.servers)})
        self.obstacle = None
        if is_other:
            self.on_topology(primaries)

    def _refuse(self, why: str) -> None:
        if self.obstacle != why:
            log.warning("the servers cannot be used", extra={"why": why})
        self.obstacle = why

    async def prepare(self, address: Address) -> None:
        """Read the servers' features once, and choose the wait for durability; raises NotSent."""
        options, node = self.options, self._open(address).reads

        async def ask(*words: Word) -> Any:
            try:
                return await node.ask(words, changes=False)
            except (Lost, RedisConnectionError) as error:
                raise NotSent(str(error)) from None

        facts, features = await facts_of(ask), await features_of(ask)
        obstacle = obstacle_of(facts, features, options.durability)
        if obstacle is not None:
            raise NotSent(f"{address}: {obstacle}")
        if facts.evicts:
            text = "the servers delete streams when they are full: set maxmemory-policy noeviction"
            log.warning(text, extra={"policy": facts.eviction})
        self._durability = durability(
            options.durability, options.answer_ms_max // 2, has_waitaof=Feature.WAITAOF in features
        )
        self._close(address)  # changes must wait from now on

    def _open(self, address: Address) -> _Primary:
        primary = self._primaries.get(address)
        if primary is None:
            if self._tasks is None:
                raise NotSent("the gateway is shutting down")
            options, connect_s = self.options, self.options.connect_ms_max / 1000
            connect = partial(connection_to, options.servers, address, timeout_s=connect_s)
            changes = Node(connect, self._durability, options.answer_ms_max / 1000)
            reads = changes
            if self._durability.wait is not None:
                reads = Node(connect, Durability(), options.answer_ms_max / 1000)
            nodes = dict.fromkeys((changes, reads))
            tasks = [self._tasks.create_task(node.run()) for node in nodes]
            primary = self._primaries[address] = _Primary(changes, reads, tasks)
        return primary

    def _close(self, address: Address) -> None:
        for task in self._primaries.pop(address).tasks:
            task.cancel()

    @property
    def is_cluster(self) -> bool:
        return self.options.servers.arrangement is Arrangement.CLUSTER


def _words(
    operation: str,
    keys: Sequence[StreamKeys],
    facts: Mapping[str, object],
    words: Sequence[Word] = (),
) -> Words:
    """Return the words that call an operation, without the function's name."""
    called: list[Word] = [len(keys) + 1, *(each.key for each in keys), keys[0].side(_ABSENT)]
    called += operation, arguments(facts)
    for each in keys:
        called += each.head, each.tail
    return [*called, *words]


def _is_error(reply: object) -> TypeGuard[Exception]:
    return isinstance(reply, Exception)


def _is_refusal(reply: object) -> TypeGuard[Exception]:
    """Tell whether a reply refuses a command that may be sent again."""
    if not isinstance(reply, Exception):
        return False
    redirects = (AskError, MovedError, NotSent, Lost)
    return isinstance(reply, (*redirects, *_NOT_YET)) or _lacks_library(reply)


def _why(obstacle: Exception) -> str:
    if isinstance(obstacle, AskError | MovedError | TryAgainError):
        return "the slot of the stream is moving to another server"
    return str(obstacle) or type(obstacle).__name__


def _lacks_library(error: Exception) -> bool:
    text = str(error)
    return isinstance(error, ResponseError) and (
        "Function not found" in text or "No matching script" in text
    )


def _is_forbidden(error: ResponseError) -> bool:
    text = str(error).lower()
    return "no permissions" in text or "unknown command" in text or "not allowed" in text
