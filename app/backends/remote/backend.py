"""The engine of another process of this machine, as a worker uses it.

Requests are sent as they are, and the engine decides them in the order in which this worker sent
them. This module keeps only what several readers can share, what a worker must know at once, and
what becomes of calls when the engine goes and comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from headgate.app.backends.in_order import perform_in_order
from headgate.app.backends.port import (
    BackendActivity,
    ClaimFeed,
    Durable,
    Journaled,
    Leases,
    Relay,
    StreamServers,
    Way,
    abilities_of,
)
from headgate.app.backends.remote.calls import Calls
from headgate.app.backends.remote.connection import ConnectionLost, EngineConnection, Link
from headgate.app.backends.remote.leases import WorkerLeases
from headgate.app.backends.remote.messages import (
    REPLY_TYPES,
    EngineState,
    Hello,
    Rewrite,
    Rewriting,
    version_of_messages,
)
from headgate.app.backends.remote.reads import (
    BlockedReads,
    RemoteClaims,
    RemoteGroupReads,
    SharedReads,
)
from headgate.engine.errors import AnswerLost, Disconnected, StreamError
from headgate.engine.limits import WAITERS_MAX
from headgate.engine.replies import JournalStatus
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import PlanRead
from headgate.engine.requests.deliveries import Ack, AckAndDelete, ReadGroup, ReadGroups
from headgate.engine.requests.entries import Add, Delete, Read, ReadPattern, Trim, TrimArchive
from headgate.engine.requests.keyspace import CountStreams, TellTime
from headgate.engine.requests.streams import DescribeStream

T = TypeVar("T")


_SMALL = frozenset(
    (
        *(Ack, AckAndDelete, Add, CountStreams, Delete, DescribeStream, TellTime),
        *(Trim, TrimArchive),
    )
)
"""Requests of a pipeline that are sent together, as their replies are small."""

_END_S = 5.0
"""Time that `close` waits for calls that are not answered yet."""

_decode_rewriting = msgspec.msgpack.Decoder(Rewriting).decode


class RemoteOptions(NamedTuple):
    """How a worker uses the engine.

    A worker may start before the engine is there, so it knows the engine's abilities from the
    settings that both have. If the engine reports something else, the worker ends.
    """

    path: Path  # of the engine's socket
    durable: Durable = Durable.NOTHING  # what an answer of the engine has waited for
    has_journal: bool = False
    has_bucket: bool = False
    waiters_max: int = WAITERS_MAX  # reads blocked in this worker at the same time
    name: str = "worker"  # for the log of the engine


class RemoteBackend:
    def __init__(self, options: RemoteOptions) -> None:
        self._options = options
        self._claims = RemoteClaims()
        self._link = link = Link(options.path, self._hello, self._connected, self._claims.put)
        self._claims.link = link
        self._calls = calls = Calls(link)
        self._blocked = blocked = BlockedReads(options.waiters_max)
        self._reads = SharedReads(calls, blocked)
        self._group_reads = RemoteGroupReads(calls, blocked)
        self._leases = WorkerLeases(link, calls)
        self.abilities = abilities_of(
            has_journal=options.has_journal, has_bucket=options.has_bucket
        )
        self.durable = options.durable
        self.claim_feed: ClaimFeed | None = self._claims
        self.leases: Leases = self._leases
        self.journal: Journaled | None = RemoteJournal(link) if options.has_journal else None
        self.servers: StreamServers | None = None
        self.relay: Relay | None = None
        # Requests that may wait.
        self._waiting: dict[type[Request[Any]], Callable[[Any], Coroutine[Any, Any, Any]]] = {
            Read: self._reads.read,
            PlanRead: self._reads.plan,
            ReadPattern: self._reads.read_pattern,
            ReadGroup: self._group_reads.read,
            ReadGroups: self._group_reads.read_pattern,
        }
        self._closed = asyncio.Event()
        self._mismatch: str | None = None  # why this engine is none for this worker

    def way_of(self, kind: type[Request[Any]]) -> Way:
        """Return NATIVELY for kinds that can be sent to the engine, and NOT for others."""
        return Way.NATIVELY if kind in REPLY_TYPES else Way.NOT

    def perform(self, request: Request[T]) -> Coroutine[Any, Any, T]:
        return self._waiting.get(type(request), self._calls.perform)(request)

    async def perform_all(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        return await self._calls.perform_all(requests)

    async def perform_in_order(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        """Carry out requests one after the other.

        The engine carries out a worker's requests in the order in which they were sent, so requests
        with small replies are sent together.
        """
        return await perform_in_order(self.perform, requests, _SMALL)

    @property
    def engine(self) -> EngineState:
        return self._link.state

    @property
    def failure(self) -> str | None:
        return self._link.state.failure if self._link.current is not None else None

    @property
    def refusal(self) -> str | None:
        obstacle = self._link.obstacle
        return self._link.state.refusal if obstacle is None else str(Disconnected(obstacle))

    @property
    def activity(self) -> BackendActivity:
        return BackendActivity()

    def memory_bytes(self) -> Mapping[str, int]:
        return self._link.state.memory_bytes

    @property
    def waiter_count(self) -> int:
        return len(self._blocked)

    @property
    def waited_for(self) -> tuple[int, int]:
        return self._blocked.waited_for

    @property
    def unsaved_count(self) -> int:
        return self._link.state.unsaved_count

    @property
    def is_draining(self) -> bool:
        return self._blocked.is_draining or self._link.state.is_draining

    def drain(self) -> None:
        self._blocked.is_draining = True
        self._reads.drain()
        self._link.drain()

    async def run(self) -> None:
        """Connect to the engine and stay connected until `close` is called.

        Raises RuntimeError if the engine is not the one that the settings describe.
        """
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self._link.run()), tasks.create_task(self._leases.run())]
            await self._closed.wait()
            if self._mismatch is not None:
                raise RuntimeError(self._mismatch)
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_S):
                    await self._group_reads.close()
            for task in running:
                task.cancel()

    async def close(self) -> None:
        """End `run`; the engine has everything that was answered."""
        self._closed.set()

    def _hello(self) -> Hello:
        return Hello(version_of_messages(), self._options.name, self._leases.holdings)

    def _connected(self, connection: EngineConnection) -> None:
        welcome = self._link.welcome
        if welcome is not None and (
            welcome.abilities != sorted(self.abilities) or welcome.durable != self.durable
        ):
            text = f"the engine and this worker have different settings: {welcome.durable=}"
            self._mismatch = f"{text}, {welcome.abilities=}"
            self._closed.set()
        self._claims.follow_all(connection)


class RemoteJournal:
    def __init__(self, link: Link) -> None:
        self._link = link

    @property
    def status(self) -> JournalStatus:
        """Return the journal's last reported status: a moment old at most."""
        status = self._link.state.journal
        if status is None:
            raise Disconnected("the engine has not reported the state of its journal yet")
        return status

    async def start_rewrite(self) -> bool:
        connection = await self._link.connection()
        number = connection.next_number()
        try:
            rewriting: Rewriting = await connection.ask(
                number, [Rewrite(number)], _decode_rewriting
            )
        except ConnectionLost:
            raise AnswerLost("the connection to the engine has ended") from None
        self._link.state = rewriting.state
        return rewriting.is_started
