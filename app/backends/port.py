"""Backend: the one port between the web shell and what keeps the streams.

A backend performs requests (`engine.requests`). Every backend promises:

- **Atomic.** Each request happens as a whole. A request that raises changes nothing. A request that
  settles, deletes or trims many entries may be carried out in several parts, with other requests in
  between. Each part is atomic.
- **Ordered.** The entries of a stream have one order, the order of their ids. Every reader sees
  this order.
- **Durable.** A request returns or raises only when everything that it changed and everything that
  it saw is as durable as `durable` says. Servers promise this of changes only. It holds for errors
  too, because an error also tells something about the state.
- **Fair.** Blocked readers are served in order of arrival. Among the readers of a group, the reader
  that waited first is served first.
- **Cancellable.** A blocked read that is cancelled leaves nothing behind. Entries that were
  delivered to it at the last moment are given back.

An *ability* is something that only some backends have: a set of requests, or one of the Protocols
below. A request that needs an ability which the backend lacks raises `NotSupported`.

Names and ids have the types of the engine: the names of streams, groups and consumers are bytes.
Every error is an `engine.errors.StreamError`. Each request lists the errors that it raises, except
`Unavailable`, which any request may raise.

The port has one method for all commands, because a request is a value. A backend in another process
can receive the value as it is, a transaction is a list of such values, and permissions are decided
by looking at the value.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from headgate.app.runtime.server_facts import ConnectionFacts, ServerSettings
from headgate.engine.buckets import Buckets
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamError
from headgate.engine.replies import JournalStatus, Takeover
from headgate.engine.requests import Request
from headgate.engine.requests.keyspace import IfUnchanged

T = TypeVar("T")


class Ability(StrEnum):
    """Something that only some backends can do."""

    BULK = "bulk"  # plan reads, split ranges, commit batches: `requests.bulk`
    POLICIES = "policies"  # groups have policies: dead letters, delays, bounds
    CLAIM_FEED = "claim_feed"  # a consumer is notified of takeovers of its entries
    COMMANDS = "commands"  # Redis commands, in words
    JOURNAL = "journal"  # a journal on this machine's disk, with a status


class Durable(StrEnum):
    """The durability of a change when it is answered."""

    NOTHING = "nothing"  # the change is in memory; servers keep it as they are set to
    EVERYSEC = "everysec"  # it is written, and forced to disk within a second
    DISK = "disk"  # it is on the disk
    REPLICA = "replica"  # it is on the disks of a primary and of a replica


class BackendActivity(NamedTuple):
    """The counts of a backend of this process since it was opened."""

    appended_count: int = 0
    acked_count: int = 0
    syncs: Buckets | None = None  # how long the journal took to force to disk, in seconds
    commits: Buckets | None = None  # how many records were written together


class Backend(Protocol):
    """A store of streams, their groups, and the deliveries to consumers."""

    @property
    def abilities(self) -> frozenset[Ability]:
        """Return the abilities of this backend beyond the requests that every backend performs."""
        ...

    @property
    def durable(self) -> Durable:
        """Return the durability of a change when it is answered."""
        ...

    async def perform(self, request: Request[T]) -> T:
        """Carry out a request, and return its reply.

        Raises:
            StreamError: one of the errors that the request lists.
            NotSupported: the request needs an ability that this backend lacks.
            Unavailable: the backend cannot change anything now, or the reply is lost.
        """
        ...

    async def perform_in_order(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        """Carry out requests one after the other, and wait once until all are durable.

        Each request sees what those before it have changed, and other requests may come in
        between. None of them waits for something to read.

        Returns:
            The replies or errors of the first requests: at least of one, and of as many as take
            no longer than a turn of the event loop.
        """
        ...

    @property
    def claim_feed(self) -> ClaimFeed | None:
        """Return the feed of takeovers, or None if this backend has no such ability."""
        ...

    @property
    def commands(self) -> Commands | None:
        """Return the runner of Redis commands, or None if this backend has no such ability."""
        ...

    @property
    def leases(self) -> Leases | None:
        """Return the leases of gateways, or None if no other gateway can use the streams."""
        ...

    @property
    def journal(self) -> Journaled | None:
        """Return the journal of this process, or None if it has none."""
        ...

    @property
    def failure(self) -> str | None:
        """Return why nothing can be changed until a restart, or None if all is well.

        Everything that was durable can still be read.
        """
        ...

    @property
    def refusal(self) -> str | None:
        """Return why some or all changes are refused, for now or until a restart, or None."""
        ...

    @property
    def activity(self) -> BackendActivity:
        """Return the counts of this process; nothing, if another process counts."""
        ...

    def memory_bytes(self) -> Mapping[str, int]:
        """Return how many bytes of this process's memory the streams use, by kind."""
        ...

    @property
    def waiter_count(self) -> int:
        """Return how many reads are blocked in this backend."""
        ...

    @property
    def is_draining(self) -> bool:
        """Tell whether this backend is about to stop."""
        ...

    def drain(self) -> None:
        """Prepare to stop: blocked reads end with `Draining`, and new reads do not block."""
        ...

    async def run(self) -> None:
        """Do the background work of the backend until `close` is called.

        Raises:
            Exception: an error that the backend cannot recover from. The process has to end.
        """
        ...

    async def close(self) -> None:
        """Make all changes durable, and end `run`."""
        ...


class ClaimFeed(Protocol):
    """An ability: a consumer is notified when other consumers take over its entries."""

    def claims(
        self, stream: bytes, group: bytes, consumer: bytes
    ) -> AbstractAsyncContextManager[AsyncIterator[Takeover]]:
        """Open a feed of what other consumers take over from this consumer.

        A takeover is in the feed once it is durable. By that time the entry may have come back to
        the consumer, with a greater delivery count. Several takeovers by the same consumer may be
        returned as one. The feed holds many thousands of ids. If it is not read in time, it drops
        the oldest ids. The iteration ends when the context is closed.
        """
        ...


class Holding(NamedTuple):
    """A consumer that a connection of this gateway reads as."""

    stream: bytes
    group: bytes
    consumer: bytes
    is_temporary: bool  # the consumer was made for the connection, and ends with it


class Leases(Protocol):
    """An ability: if this gateway dies, another one releases what its connections hold."""

    async def register(self, holding: Holding) -> None:
        """Note that a connection reads as a consumer."""
        ...

    async def unregister(self, holding: Holding) -> None:
        """Note that a connection has ended, and has released what it held."""
        ...

    def release_later(self, holding: Holding, counts: Mapping[EntryId, int]) -> None:
        """Release a connection's entries, and unregister it, once the servers are there again.

        Args:
            holding: the consumer that the connection read as.
            counts: the delivery counts of the entries that it held.
        """
        ...


class Status(str):
    """A simple string reply of a Redis command, such as OK."""

    __slots__ = ()


class Verbatim(bytes):
    """A bulk string of plain text; RESP3 says that it is one."""

    __slots__ = ()


class Pairs(list["Reply"]):
    """A map as RESP2 has it: an array of key, value, key, value. RESP3 has maps."""

    __slots__ = ()


class KeyedArrays(list["Reply"]):
    """An array of pairs, each a key and an array, in RESP2; a map in RESP3."""

    __slots__ = ()


class Members(list["Reply"]):
    """An array in RESP2, a set in RESP3."""

    __slots__ = ()


class NullArray:
    """The null that stands where an array was asked for; RESP2 has two nulls, RESP3 has one."""

    __slots__ = ()


NULL_ARRAY = NullArray()


Reply = None | int | bytes | Status | NullArray | Sequence["Reply"]
"""RESP2: null, integer, bulk string, simple string, null array, array. Some know what they are in
RESP3."""


class Caller(Protocol):
    """A caller of commands: has rights, and carries out requests within them."""

    @property
    def name(self) -> str:
        """Return the name of the caller's user in Redis."""
        ...

    @property
    def is_limited(self) -> bool:
        """Tell whether the caller may use only so much."""
        ...

    def check(self, verbs: AbstractSet[Any]) -> None:
        """Raise an error of the shell if the caller has none of these verbs."""
        ...

    def admit(self, request: Request[T]) -> Request[T]:
        """Return the request as the caller may make it, or raise an error of the shell."""
        ...

    def refusal(
        self, request: Request[T], admitted: Request[T], error: StreamError
    ) -> Exception | None:
        """Return the error of the shell that is meant by the error of an admitted request.

        None: it is meant as it is.
        """
        ...

    def perform(self, request: Request[T]) -> Coroutine[Any, Any, T]:
        """Carry out a request that the caller may make, as `Backend.perform` does."""
        ...

    async def perform_in_order(self, requests: Sequence[Request[Any]]) -> list[Any | Exception]:
        """Carry out requests that the caller may make, as `Backend.perform_in_order` does.

        A request that the caller may not make is not carried out, and has an error of the shell.
        """
        ...

    def charge(self, requests: Sequence[Request[Any]]) -> None:
        """Take account of requests before they are performed, or raise an error of the shell."""
        ...

    def settle(self, requests: Sequence[Request[Any]], outcomes: Sequence[Any]) -> None:
        """Take account of what has become of them: a reply or a `StreamError` for each."""
        ...


class Commands(Protocol):
    """An ability: Redis commands, given as words. A command that fails raises a `StreamError`."""

    def by(self, caller: Caller) -> Self:
        """Return the same, which runs commands in the name of a caller."""
        ...

    def with_long_arrays(self) -> Self:
        """Return the same, whose replies may be as long as they are, if it can."""
        ...

    def attach(
        self,
        settings: ServerSettings | None = None,
        connections: Callable[[], ConnectionFacts] | None = None,
    ) -> None:
        """Let commands about the server show how it is set, and the connections that it has.

        Args:
            settings: how it is set; None: as was said before.
            connections: returns what is known of them; None: likewise.
        """
        ...

    @property
    def delivered_count(self) -> int:
        """Return how many entries were in replies to commands, whoever has run them."""
        ...

    def may_wait(self, words: Sequence[bytes]) -> bool:
        """Tell whether a command may take a long time."""
        ...

    def only_reads(self, words: Sequence[bytes]) -> bool:
        """Tell whether a command changes nothing.

        Raises:
            StreamError: the command does not exist.
        """
        ...

    def check(self, words: Sequence[bytes]) -> None:
        """Refuse a command that the caller could not run, whatever its arguments are.

        Raises:
            StreamError: it is unknown, has a wrong number of words, or needs a right.
        """
        ...

    async def run(self, words: Sequence[bytes]) -> Reply:
        """Run one command. A blocking command waits.

        Raises:
            StreamError: the command failed.
        """
        ...

    async def run_each(self, commands: Sequence[Sequence[bytes]]) -> Sequence[Reply | StreamError]:
        """Run commands in order, each by itself, and wait once until all are durable (a pipeline).

        None of them blocks. A command that fails does not stop the commands after it.

        Returns:
            The replies or errors of the first commands: at least of one, and of as many as take no
            longer than a turn of the event loop.
        """
        ...

    async def watch(self, streams: Sequence[bytes]) -> IfUnchanged:
        """Return the condition that streams do not change from now on (WATCH).

        Raises:
            StreamError: the caller has no right for one of the streams, or there are too many.
        """
        ...

    async def run_all(
        self, commands: Sequence[Sequence[bytes]], condition: IfUnchanged | None = None
    ) -> list[Reply | StreamError]:
        """Run commands in order with nothing in between; none of them waits (MULTI, EXEC).

        A command that fails does not stop the commands after it.

        Args:
            commands: the commands.
            condition: what has to hold for any of them to be run; see `watch`.

        Raises:
            StreamsChanged: the condition does not hold. In this case no command is run.
            StreamError: a command is unknown or has a wrong number of words. In this case no
                command is run.
        """
        ...


class Journaled(Protocol):
    """An ability: a journal on this machine's disk."""

    @property
    def status(self) -> JournalStatus:
        """Return the status of the journal. That of another process is a moment old."""
        ...

    async def start_rewrite(self) -> bool:
        """Start to replace the history by a snapshot; return False if a rewrite is already running.

        Raises:
            Unavailable: the disk has failed, or the journal does not write to it now.
        """
        ...
