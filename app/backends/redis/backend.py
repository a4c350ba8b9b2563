"""The streams of a Redis or Valkey server or cluster, behind the port.

A request is one call of a function in the server that has the stream, so it is atomic there. A
request over several streams is atomic for each of them, but not for all together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace
from redis.exceptions import ResponseError

from headgate.app.backends.in_order import perform_in_order
from headgate.app.backends.port import (
    Ability,
    BackendActivity,
    ClaimFeed,
    Durable,
    Journaled,
    Leases,
    Relay,
    ServerFacts,
    StreamServers,
    Way,
)
from headgate.app.backends.redis.client import Client, ClientOptions
from headgate.app.backends.redis.durability import DurabilityLevel
from headgate.app.backends.redis.faults import as_stream_errors
from headgate.app.backends.redis.features import read_info
from headgate.app.backends.redis.leases import GatewayLeases
from headgate.app.backends.redis.node import Words
from headgate.app.backends.redis.performing import (
    PerformBy,
    Performers,
    bulk,
    deliveries,
    details,
    dumps,
    entries,
    group_reads,
    groups,
    keyspace,
    policies,
    schedules,
    streams,
    writes,
)
from headgate.app.backends.redis.performing.housekeeping import Housekeeper
from headgate.app.backends.redis.relay import ChannelRelay
from headgate.app.backends.redis.waiting.claims import Claims
from headgate.app.backends.redis.waiting.group_reads import GroupReaders
from headgate.app.backends.redis.waiting.reads import StreamReaders
from headgate.app.backends.redis.waiting.wait_queues import WaitQueues
from headgate.app.backends.redis.waiting.wake_ups import WakeUps
from headgate.engine.eager import own_task
from headgate.engine.errors import (
    Disconnected,
    Invalid,
    NotSupported,
    SeveralSlots,
    StreamError,
    Unavailable,
)
from headgate.engine.replies import Added, Committed, Deletion, Outcome
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import CommitBatch, PlanRead
from headgate.engine.requests.deliveries import (
    Ack,
    AckAndDelete,
    AckThrough,
    Autoclaim,
    Claim,
    GiveBack,
    Nack,
    ReadGroup,
)
from headgate.engine.requests.entries import Add, Delete, Read
from headgate.engine.requests.groups import DeleteConsumer
from headgate.engine.requests.keyspace import IfUnchanged

PERFORMERS: Performers = {
    request: performer
    for module in (
        *(bulk, deliveries, details, dumps, entries, group_reads, groups, keyspace),
        *(policies, schedules, streams, writes),
    )
    for request, performer in module.PERFORMERS.items()
}


class Counts:
    """Counts since the start, without what other clients of the servers do."""

    def __init__(self) -> None:
        self._appended_count = self._acked_count = 0

    @property
    def activity(self) -> BackendActivity:
        return BackendActivity(self._appended_count, self._acked_count)

    def note(self, request: Request[Any], reply: Any) -> None:
        kind = type(request)
        if kind in _APPENDED:
            self._appended_count += _APPENDED[kind](reply)
        elif kind in _ACKED:
            self._acked_count += _ACKED[kind](reply)


def _of_append(added: Added) -> int:
    return 0 if added.is_repeat else len(added.ids)


def _of_batch(committed: Committed) -> int:
    return sum(written.entries for written in committed.streams)


_APPENDED: dict[type[Request[Any]], Callable[[Any], int]] = {
    Add: _of_append,
    CommitBatch: _of_batch,
}

_ACKED: dict[type[Request[Any]], Callable[[Any], int]] = {
    Ack: lambda outcomes: sum(outcome is Outcome.ACKED for outcome in outcomes),
    AckAndDelete: lambda outcomes: sum(each is not Deletion.NOT_FOUND for each in outcomes),
}


_AT_ONCE_MS = 1
"""Wait of a server before it answers, at most: others use the connection, too."""


class Primaries:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def replica_count(self) -> int:
        """Return how many replicas have everything that this gateway has written (WAIT)."""
        with as_stream_errors(b""):
            counts = await self._client.execute_everywhere(b"WAIT", 0, _AT_ONCE_MS, changes=True)
        return min(map(int, counts))

    async def synced_counts(self, wanted: int) -> tuple[int, int]:
        """Return how many primaries and replicas have all of it on disk (WAITAOF), at least.

        Raises Invalid if the servers refuse, or are older than 7.2.
        """
        words = (b"WAITAOF", wanted, 0, _AT_ONCE_MS)
        with as_stream_errors(b""):
            try:
                counts = await self._client.execute_everywhere(*words, changes=True)
            except ResponseError as error:
                raise Invalid(str(error)) from None
        return min(int(count[0]) for count in counts), min(int(count[1]) for count in counts)

    async def facts(self) -> Sequence[ServerFacts]:
        with as_stream_errors(b""):
            texts = await self._client.execute_everywhere(b"INFO", changes=False)
        return [*map(_facts, texts)]


def _facts(text: bytes) -> ServerFacts:
    info = dict(read_info(text))
    product = "valkey" if "valkey_version" in info else "redis"
    names = (f"{product}_version", "used_memory", "connected_slaves")
    return ServerFacts(product, *(info.get(name, "") for name in names))


# Transaction: requests that one server carries out with nothing in between (MULTI, EXEC).
#
# 1. Perform each request with a client that holds its commands back.
# 2. When each request waits for its replies, send the commands of all together.
# 3. Give each request its replies. What has more to read then, reads it; what has more to change
#    fails.

_TOO_MUCH = "this changes too much for a transaction: run it separately"


class _Held(NamedTuple):
    slot: int
    commands: Sequence[Words]
    replies: asyncio.Future[list[Any]]


class _Step:
    def __init__(self, perform: PerformBy, client: Client, request: Request[Any]) -> None:
        self.held: list[_Held] = []
        self._send = client.send
        self._holds = asyncio.get_running_loop().create_future()
        self._is_sent = False
        self.task = asyncio.create_task(self._run(perform, client, request))

    async def _run(self, perform: PerformBy, client: Client, request: Request[Any]) -> Any:
        stream, group = getattr(request, "stream", b""), getattr(request, "group", b"")
        try:
            with as_stream_errors(stream, group):
                return await perform(client.sending(self._hold), request)
        except StreamError as error:
            return error.with_traceback(None)  # or its frames lead back to it

    async def _hold(
        self, slot: int, make: Callable[[], Sequence[Words]], changes: bool
    ) -> list[Any]:
        if self._is_sent:
            if changes:
                raise Invalid(_TOO_MUCH)
            return await self._send(slot, make, changes)
        replies: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self.held.append(_Held(slot, make(), replies))
        if not self._holds.done():
            self._holds.set_result(None)
        return await replies

    async def until_held(self) -> None:
        await asyncio.wait({self.task, self._holds}, return_when=asyncio.FIRST_COMPLETED)

    def send(self) -> list[_Held]:
        self._is_sent = True
        return self.held


async def perform_together(
    client: Client, perform: PerformBy, requests: Sequence[Request[Any]]
) -> list[Any | StreamError]:
    """Carry out requests for streams of one slot with nothing in between.

    `perform` must not wait. The first request may be a condition: StreamsChanged means that it does
    not hold. Raises SeveralSlots if the streams are in several slots, and another StreamError if
    the server carried out none of the requests.
    """
    with as_stream_errors(b""):
        await client.known()
    condition = requests[0] if requests and isinstance(requests[0], IfUnchanged) else None
    if condition is not None:
        requests = requests[1:]
    steps = [_Step(perform, client, request) for request in requests]
    try:
        for step in steps:
            await step.until_held()
        held = [each for step in steps for each in step.send()]
        slots = [each.slot for each in held]
        if condition is not None:
            slots += [client.names.of(stream).slot for stream in condition.streams]
        if client.is_cluster and len(set(slots)) > 1:
            raise SeveralSlots("transactions")
        if slots:
            with as_stream_errors(b""):
                replies = await client.transact(
                    slots[0], lambda: [words for each in held for words in each.commands], condition
                )
            _give_out(held, replies)
        outcomes = [await step.task for step in steps]
        return outcomes if condition is None else [None, *outcomes]
    finally:
        for step in steps:
            step.task.cancel()


def _give_out(held: Sequence[_Held], replies: Sequence[Any]) -> None:
    at = 0
    for each in held:
        end = at + len(each.commands)
        each.replies.set_result(list(replies[at:end]))
        at = end


T = TypeVar("T")

_ABILITIES = frozenset({Ability.BULK, Ability.POLICIES, Ability.CLAIM_FEED, Ability.COMMANDS})

_DURABLE = {
    DurabilityLevel.NONE: Durable.NOTHING,
    DurabilityLevel.FSYNC: Durable.DISK,
    DurabilityLevel.REPLICA: Durable.REPLICA,
}

_FREEING = (Ack, AckAndDelete, AckThrough, Autoclaim, Claim, Delete, DeleteConsumer, GiveBack, Nack)
"""Requests after which a consumer may hold less, and so may get more."""


def _perform_at_once(client: Client, request: Request[Any]) -> Coroutine[Any, Any, Any]:
    performer = PERFORMERS.get(type(request))
    if performer is None:
        raise NotSupported(type(request).__name__)
    return performer.perform(client, request)


class RedisBackend:
    def __init__(self, options: ClientOptions) -> None:
        self.client = client = Client(options)
        self._queues = queues = WaitQueues(
            client.names, options.waiters_max, lambda: self._wake_ups.are_live
        )
        self._claims = Claims(client)
        self._wake_ups = WakeUps(
            options,
            client.names.tracked(),
            self._note_changes,
            self._note_missed,
            on_lost=client.look_again,
        )
        client.on_topology = self._wake_ups.follow
        self._counts = Counts()
        self._leases = GatewayLeases(client, self.perform)
        self._housekeeping = Housekeeper(client)
        self._group_reads = GroupReaders(client, queues)
        reads = StreamReaders(client, queues)
        self.abilities = _ABILITIES
        self.durable = _DURABLE[options.durability]
        self.claim_feed: ClaimFeed | None = self._claims
        self.leases: Leases = self._leases
        self.journal: Journaled | None = None
        self.servers: StreamServers | None = Primaries(client)
        self._relay = ChannelRelay(client)
        self.relay: Relay | None = self._relay
        # Requests that may wait: what they do at once is in the table.
        self._waiting: dict[type[Request[Any]], Callable[[Any], Coroutine[Any, Any, Any]]] = {
            Read: reads.read,
            PlanRead: reads.plan,
            ReadGroup: self._group_reads.read,
            DeleteConsumer: self._group_reads.delete_consumer,
        }
        self._closed = asyncio.Event()

    def way_of(self, kind: type[Request[Any]]) -> Way:
        performer = PERFORMERS.get(kind)
        return Way.NOT if performer is None else performer.way

    async def perform_all(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        at_once = [
            replace(request, wait_ms=0) if isinstance(request, Read | ReadGroup) else request
            for request in requests
        ]
        return await perform_together(self.client, _perform_at_once, at_once)

    async def perform_in_order(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        """Carry out requests one after the other.

        Appends that are sent together stay in order, as a server gets them in one pipeline.
        """
        return await perform_in_order(self.perform, requests, {Add})

    async def perform(self, request: Request[T]) -> T:
        await own_task()  # what waits for a server has a timeout
        stream, group = getattr(request, "stream", b""), getattr(request, "group", b"")
        with as_stream_errors(stream, group):
            wait = self._waiting.get(type(request))
            performing = _perform_at_once(self.client, request) if wait is None else wait(request)
            reply: T = await performing
        self._counts.note(request, reply)
        if isinstance(request, _FREEING):
            self._queues.freed(stream)
        return reply

    @property
    def failure(self) -> str | None:
        """Return None: whatever is wrong with the servers may recover."""
        return None

    @property
    def refusal(self) -> str | None:
        obstacle = self.client.obstacle
        return None if obstacle is None else str(Disconnected(obstacle))

    @property
    def activity(self) -> BackendActivity:
        return self._counts.activity

    def memory_bytes(self) -> Mapping[str, int]:
        """Return nothing: the streams are not in the memory of this process."""
        return {}

    @property
    def waiter_count(self) -> int:
        return len(self._queues)

    @property
    def waited_for(self) -> tuple[int, int]:
        return self._queues.stream_count, self._queues.grouped_stream_count

    @property
    def unsaved_count(self) -> int:
        """Return 0: the servers save what they have."""
        return 0

    @property
    def is_draining(self) -> bool:
        return self._queues.is_draining

    def drain(self) -> None:
        self._queues.drain()

    async def run(self) -> None:
        works = (self.client, self._wake_ups, self._queues, self._claims, self._leases, self._relay)
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(work.run()) for work in (*works, self._housekeeping)]
            await self._closed.wait()
            with suppress(Unavailable):
                await self._group_reads.close()
                await self._leases.close()
            for task in running:
                task.cancel()

    async def close(self) -> None:
        """End `run`; the servers have everything that was answered."""
        self._closed.set()

    def _note_changes(self, keys: Sequence[bytes]) -> None:
        """Run the blocked reads again for which these keys may have something."""
        names = self.client.names
        for key in keys:
            if names.is_stream(key):
                self._queues.signal_stream(names.name(key))
            elif not self._claims.signal(key):
                self._queues.signal_side(key)

    def _note_missed(self) -> None:
        """Run all blocked reads again, because any key may have changed."""
        self._queues.signal_all()
        self._claims.signal_all()
