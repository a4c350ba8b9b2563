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

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeVar

from headgate.engine.buckets import Buckets
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamError
from headgate.engine.replies import JournalStatus, Takeover
from headgate.engine.requests import Request

T = TypeVar("T")


class Ability(StrEnum):
    """Something that only some backends can do."""

    BULK = "bulk"  # plan reads, split ranges, commit batches: `requests.bulk`
    POLICIES = "policies"  # groups have policies: dead letters, delays, bounds
    CLAIM_FEED = "claim_feed"  # a consumer is notified of takeovers of its entries
    PATTERNS = "patterns"  # all streams that match a pattern are followed, or read as one group
    COMMANDS = "commands"  # requests with nothing in between, as Redis commands need them
    ARCHIVES = "archives"  # what trims remove of a stream stays readable, if it is set so
    SCHEMAS = "schemas"  # new entries are checked by the schema of their stream
    JOURNAL = "journal"  # a journal on this machine's disk, with a status


def abilities_of(*, has_journal: bool, has_bucket: bool) -> frozenset[Ability]:
    """Return the abilities of an engine."""
    lacking = {Ability.JOURNAL: not has_journal, Ability.ARCHIVES: not has_bucket}
    return frozenset(ability for ability in Ability if not lacking.get(ability))


class Durable(StrEnum):
    """The durability of a change when it is answered."""

    NOTHING = "nothing"  # the change is in memory; servers keep it as they are set to
    EVERYSEC = "everysec"  # it is written, and forced to disk within a second
    DISK = "disk"  # it is on the disk
    BUCKET = "bucket"  # it is on the disk, and in the bucket
    REPLICA = "replica"  # it is on the disks of a primary and of a replica


class Way(StrEnum):
    """The way of a kind of request through a backend."""

    NATIVELY = "natively"  # what keeps the streams does it by itself
    BY_FUNCTION = "by function"  # a function of the gateway does it, inside of a server
    NOT = "not"  # `NotSupported`


class BackendActivity(NamedTuple):
    """The counts of a backend of this process since it was opened."""

    appended_count: int = 0
    acked_count: int = 0
    syncs: Buckets | None = None  # how long the journal took to force to disk, in seconds
    commits: Buckets | None = None  # how many records were written together
    cold_hit_count: int | None = None  # looks at extents that were in memory
    cold_read_count: int | None = None  # extents that were read from disk
    cold_reads: Buckets | None = None  # how long that took, in seconds


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

    def way_of(self, kind: type[Request[Any]]) -> Way:
        """Return the way of requests of a kind."""
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

    async def perform_all(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        """Carry out requests with nothing in between; none of them waits (MULTI, EXEC).

        A request that fails changes nothing, and its error takes the place of its reply.

        Raises:
            StreamsChanged: the first of them is `IfUnchanged`, and does not hold. Nothing is done.
            StreamError: the requests are too many or too long together, or belong to several
                servers. Nothing is done.
        """
        ...

    @property
    def claim_feed(self) -> ClaimFeed | None:
        """Return the feed of takeovers, or None if this backend has no such ability."""
        ...

    @property
    def leases(self) -> Leases:
        """Return the leases of connections."""
        ...

    @property
    def journal(self) -> Journaled | None:
        """Return the journal of this process, or None if it has none."""
        ...

    @property
    def servers(self) -> StreamServers | None:
        """Return the servers that keep the streams, or None if an engine keeps them."""
        ...

    @property
    def relay(self) -> Relay | None:
        """Return what carries messages between gateways, or None if no servers do."""
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
        """Return how many bytes of memory the streams use, by kind; nothing, if servers keep them.

        That of an engine in another process is a moment old.
        """
        ...

    @property
    def waiter_count(self) -> int:
        """Return how many reads are blocked in this backend."""
        ...

    @property
    def waited_for(self) -> tuple[int, int]:
        """Return the number of streams with blocked reads, and with blocked group reads."""
        ...

    @property
    def unsaved_count(self) -> int:
        """Return how many changes are in no snapshot yet; 0, if servers keep the streams."""
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


class Perform(Protocol):
    """Carries out a request, as `Backend.perform` does."""

    def __call__(self, request: Request[T], /) -> Awaitable[T]:
        """Carry out a request, and return its reply."""
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
    """The holdings of connections: if this gateway dies, others release them, if there are any."""

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


class ServerFacts(NamedTuple):
    """The facts of a server, from INFO; an empty text is unknown."""

    product: str
    version: str
    used_memory: str
    connected_replicas: str


class StreamServers(Protocol):
    """An ability: servers keep the streams, and say by themselves how they are."""

    async def replica_count(self) -> int:
        """Return how many replicas have everything that this gateway has written."""
        ...

    async def synced_counts(self, wanted: int) -> tuple[int, int]:
        """Return the primaries (0 or 1) and replicas with all of it on their disks.

        Args:
            wanted: how many primaries the client asks for: 0 or 1.

        Raises:
            StreamError: the servers cannot say that.
        """
        ...

    async def facts(self) -> Sequence[ServerFacts]:
        """Return the facts of each primary."""
        ...


class Relay(Protocol):
    """An ability: servers carry messages of channels between all gateways that use them.

    Each method but `leave` raises Unavailable if the servers are not there.
    """

    @property
    def realm(self) -> bytes:
        """Return what distinguishes the streams of these gateways from others at the servers."""
        ...

    on_message: Callable[[bytes, bytes, bytes | None], Awaitable[None]]
    """Called with the channel and the data of a message, and the pattern by which it came; the next
    one is not read before it returns."""

    async def publish(self, channel: bytes, data: bytes) -> int:
        """Publish a message; return to how many it went, of whom a gateway is one (PUBLISH)."""
        ...

    async def listen(self, name: bytes, *, is_pattern: bool) -> None:
        """Return once the messages of a channel, or of those that match, come."""
        ...

    def leave(self, name: bytes, *, is_pattern: bool) -> None:
        """Let them come no more."""
        ...

    async def names(self, pattern: bytes | None) -> list[bytes]:
        """Return the channels to which somebody listens by name (PUBSUB CHANNELS)."""
        ...

    async def counts(self, names: Sequence[bytes]) -> list[int]:
        """Return how many listen to each of these channels by name (PUBSUB NUMSUB)."""
        ...

    async def pattern_count(self) -> int:
        """Return to how many patterns somebody listens (PUBSUB NUMPAT)."""
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
