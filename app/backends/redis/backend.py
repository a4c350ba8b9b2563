"""Backend: the streams of a Redis or Valkey server, or of a cluster of them, behind the port.

A request is one call of a function in the server that has the stream, so it is atomic there. A
request over several streams is atomic for each of them, and not for all together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from msgspec.structs import replace

from headgate.app.backends.in_order import perform_in_order
from headgate.app.backends.port import (
    Ability,
    BackendActivity,
    ClaimFeed,
    Durable,
    Journaled,
    Leases,
    StreamServers,
    Way,
)
from headgate.app.backends.redis.client import Client, ClientOptions
from headgate.app.backends.redis.counting import Counts
from headgate.app.backends.redis.durability import DurabilityLevel
from headgate.app.backends.redis.faults import as_stream_errors
from headgate.app.backends.redis.leases import GatewayLeases
from headgate.app.backends.redis.performing.housekeeping import Housekeeper
from headgate.app.backends.redis.performing.table import PERFORMERS
from headgate.app.backends.redis.servers import Primaries
from headgate.app.backends.redis.transaction import perform_together
from headgate.app.backends.redis.waiting.claims import Claims
from headgate.app.backends.redis.waiting.group_reads import GroupReaders
from headgate.app.backends.redis.waiting.reads import StreamReaders
from headgate.app.backends.redis.waiting.wait_queues import WaitQueues
from headgate.app.backends.redis.waiting.wake_ups import WakeUps
from headgate.engine.eager import own_task
from headgate.engine.errors import Disconnected, NotSupported, StreamError, Unavailable
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import PlanRead
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
    """Carry out a request without waiting for something to read."""
    performer = PERFORMERS.get(type(request))
    if performer is None:
        raise NotSupported(type(request).__name__)
    return performer.perform(client, request)


class RedisBackend:
    """The streams that servers keep. Several gateways may use the same servers."""

    def __init__(self, options: ClientOptions) -> None:
        """Get ready. `run` connects to the servers.

        Args:
            options: how the servers are used.

        Raises:
            ValueError: an option cannot be used; the text says which.
        """
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
        # Requests that may wait: what they do at once is in the table.
        self._waiting: dict[type[Request[Any]], Callable[[Any], Coroutine[Any, Any, Any]]] = {
            Read: reads.read,
            PlanRead: reads.plan,
            ReadGroup: self._group_reads.read,
            DeleteConsumer: self._group_reads.delete_consumer,
        }
        self._closed = asyncio.Event()

    def way_of(self, kind: type[Request[Any]]) -> Way:
        """Return the way of requests of a kind."""
        performer = PERFORMERS.get(kind)
        return Way.NOT if performer is None else performer.way

    async def perform_all(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        """Carry out requests with nothing in between. See `Backend.perform_all`."""
        at_once = [
            replace(request, wait_ms=0) if isinstance(request, Read | ReadGroup) else request
            for request in requests
        ]
        return await perform_together(self.client, _perform_at_once, at_once)

    async def perform_in_order(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        """Carry out requests one after the other. See `Backend.perform_in_order`.

        Appends that are sent together stay in order, as a server gets them in one pipeline.
        """
        return await perform_in_order(self.perform, requests, {Add})

    async def perform(self, request: Request[T]) -> T:
        """Carry out a request, and return its reply. See `Backend.perform`."""
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
        """Return None: whatever is wrong with the servers, it may get well."""
        return None

    @property
    def refusal(self) -> str | None:
        """Return why requests are refused for now, or None."""
        obstacle = self.client.obstacle
        return None if obstacle is None else str(Disconnected(obstacle))

    @property
    def activity(self) -> BackendActivity:
        """Return the counts of this gateway."""
        return self._counts.activity

    def memory_bytes(self) -> Mapping[str, int]:
        """Return nothing: the streams are not in the memory of this process."""
        return {}

    @property
    def waiter_count(self) -> int:
        """Return how many reads are blocked in this gateway."""
        return len(self._queues)

    @property
    def waited_for(self) -> tuple[int, int]:
        """Return the numbers of streams with blocked reads and with blocked group reads."""
        keys = list(self._queues.keys)
        grouped = {key.stream for key in keys if key.group is not None}
        return len({key.stream for key in keys}), len(grouped)

    @property
    def unsaved_count(self) -> int:
        """Return 0: the servers save what they have."""
        return 0

    @property
    def is_draining(self) -> bool:
        """Tell whether this gateway is about to stop."""
        return self._queues.is_draining

    def drain(self) -> None:
        """Prepare to stop: blocked reads end with `Draining`, and new reads do not block."""
        self._queues.drain()

    async def run(self) -> None:
        """Connect to the servers, and follow them, until `close` is called."""
        works = (self.client, self._wake_ups, self._queues, self._claims, self._leases)
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(work.run()) for work in (*works, self._housekeeping)]
            await self._closed.wait()
            with suppress(Unavailable):
                await self._group_reads.close()
                await self._leases.close()
            for task in running:
                task.cancel()

    async def close(self) -> None:
        """End `run`. The servers have everything that was answered."""
        self._closed.set()

    def _note_changes(self, keys: Sequence[bytes]) -> None:
        """Run the reads again that wait for something that keys may have got."""
        names = self.client.names
        for key in keys:
            if names.is_stream(key):
                self._queues.signal_stream(names.name(key))
            elif not self._claims.signal(key):
                self._queues.signal_side(key)

    def _note_missed(self) -> None:
        """Run everything again, because any key may have been changed."""
        self._queues.signal_all()
        self._claims.signal_all()
