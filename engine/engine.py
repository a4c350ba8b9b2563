"""Engine: keyspace, storage, waiters and clock behind asyncio.

Every request runs to its reply without an `await`: decide, record, apply, serve the waiters. So
each command is atomic without a lock. The one `await` comes last: until all that the reply depends
on is durable. A long request is decided in parts, each of them atomic, so that others run in
between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from headgate.engine import commands as c
from headgate.engine.clock import Clock, SystemClock
from headgate.engine.decisions.table import decide
from headgate.engine.errors import StreamError, Unavailable
from headgate.engine.journal.storage import Storage
from headgate.engine.limits import WAITERS_MAX
from headgate.engine.loop.appends import Appends
from headgate.engine.loop.executor import Executor
from headgate.engine.loop.group_reads import GroupReads
from headgate.engine.loop.housekeeping import Housekeeping
from headgate.engine.loop.lists import Lists
from headgate.engine.loop.reads import Reads
from headgate.engine.loop.takeovers import TakeoverFeed
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import CommitBatch, PlanRead, SplitRange
from headgate.engine.requests.deliveries import Autoclaim, Nack, ReadGroup
from headgate.engine.requests.entries import Add, Read
from headgate.engine.requests.groups import ListConsumers, ListGroups
from headgate.engine.requests.streams import DetailStream, ListStreams
from headgate.engine.state.bounds import KeyspaceBounds
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import Memory, MemoryBounds

T = TypeVar("T")

_ENDED = "the gateway has failed"


class Engine:
    """The streams of one process."""

    def __init__(
        self,
        storage: Storage,
        *,
        keyspace: Keyspace | None = None,
        clock: Clock | None = None,
        waiters_max: int = WAITERS_MAX,
        memory: MemoryBounds = MemoryBounds(),  # noqa: B008 it is a value
        bounds: KeyspaceBounds = KeyspaceBounds(),  # noqa: B008 it is a value
    ) -> None:
        """Start with what was recovered.

        Args:
            storage: where commands are recorded before they are applied.
            keyspace: what the records so far have led to; nothing unless given.
            clock: what time it is; the machine's unless given.
            waiters_max: how many reads may be blocked at once.
            memory: how much of it the streams may take.
            bounds: how many streams, groups, consumers and producers there may be.
        """
        self._executor = executor = Executor(
            storage,
            keyspace or Keyspace(),
            clock or SystemClock(),
            waiters_max=waiters_max,
            memory=memory,
            bounds=bounds,
        )
        self._storage = storage
        self._housekeeping = Housekeeping(executor.current, executor.carry_out, executor.now_ms)
        self._closed = asyncio.Event()
        self._reads = Reads(executor)
        group_reads, lists, appends = GroupReads(executor), Lists(executor), Appends(executor)
        # Requests that wait, or that are more than one decision; all others are decided at once.
        self._performers: dict[type[Request[Any]], Callable[[Any], Coroutine[Any, Any, Any]]] = {
            Add: appends.add,
            CommitBatch: appends.commit_batch,
            Read: self._reads.read,
            PlanRead: self._reads.plan,
            ReadGroup: group_reads.read,
            Nack: group_reads.nack,
            Autoclaim: group_reads.autoclaim,
            ListStreams: lists.list_named,
            ListGroups: lists.list_named,
            ListConsumers: lists.list_named,
            DetailStream: lists.detail_stream,
            SplitRange: lists.split_range,
        }

    @property
    def storage(self) -> Storage:
        """Return where commands are recorded."""
        return self._storage

    @property
    def memory(self) -> Memory:
        """Return what the streams take."""
        return self.keyspace.memory

    @property
    def keyspace(self) -> Keyspace:
        """Return the state, to look at; streams whose time is over may still be in it."""
        return self._executor.keyspace

    @property
    def waiter_count(self) -> int:
        """Return how many reads are blocked."""
        return len(self._executor.waiters)

    @property
    def waited_for(self) -> tuple[int, int]:
        """Return on how many streams reads are blocked, and on how many of them by a group."""
        waiters = self._executor.waiters
        return waiters.stream_count, waiters.grouped_stream_count

    @property
    def unsaved_count(self) -> int:
        """Return how many changes no snapshot has yet, since the start; a few more at most."""
        return self._storage.unsaved_count

    async def perform(self, request: Request[T]) -> T:
        """Carry out a request; returns its reply once that is durable.

        Errors wait for the disk as replies do: an error tells of the state as well. If that state
        is lost, the request fails with `Unavailable` instead.

        Raises:
            StreamError: what the request says that it raises.
            Unavailable: the storage does not take what it changes.
        """
        executor, perform = self._executor, self._performers.get(type(request))
        try:
            if perform is None:
                decision = decide(executor.current(), request, executor.now_ms())
                performing: Coroutine[Any, Any, T] = executor.run(decision)
                del decision
            else:
                performing = perform(request)
            del request  # what waits for the disk holds nothing it does not need
            return await performing
        except Unavailable:  # it tells of the storage, which may not come back
            raise
        except StreamError:
            await executor.durable(None)
            raise

    async def perform_all(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        """Carry out requests at one moment with nothing in between (MULTI, EXEC); none waits.

        A request that fails changes nothing, and its error is its reply. One that takes more than
        one decision fails: because it is done in parts, acknowledges before it reads, or describes
        a long list. What groups do by their policy waits for the next read. All requests are one
        record: a crash leaves all or none.

        Raises:
            Unavailable: the storage does not take what they change.
        """
        await self._executor.waiters.wait_turn()
        steps = [partial(_decide, request) for request in requests]
        return await self._executor.run_all(steps)

    def claims(self, stream: bytes, group: bytes, consumer: bytes) -> TakeoverFeed:
        """Tell what other consumers take over from one; `run` does it, once that is durable."""
        return TakeoverFeed(self._executor.takeovers, (stream, group, consumer))

    @property
    def is_draining(self) -> bool:
        """Tell whether the engine is about to stop."""
        return self._executor.waiters.is_draining

    @property
    def failure(self) -> str | None:
        """Return why nothing can be changed any more, None if all is well."""
        return self._storage.failure

    @property
    def refusal(self) -> str | None:
        """Return why not everything can be changed, for now or for ever, None if all is well."""
        return self._storage.refusal

    async def run(self) -> None:
        """Keep the storage, and let go of what is old, until `close`.

        If the storage fails, everything that was not durable yet is forgotten; what was stays to be
        read, and nothing can be changed until the storage takes it again or, if it never will, a
        restart.

        Raises:
            Exception: something happened that nothing here can mend. The process has to end.
        """
        executor = self._executor
        try:
            async with asyncio.TaskGroup() as tasks:
                others = [
                    tasks.create_task(self.run_housekeeping()),
                    tasks.create_task(executor.until_broken()),
                    tasks.create_task(executor.disposal.run()),
                    tasks.create_task(executor.takeovers.run(lambda: executor.durable(None))),
                ]
                try:
                    await self._storage.run(self._go_back)
                    await self._closed.wait()
                except Unavailable as failure:
                    executor.waiters.fail(failure)
                for task in others:
                    task.cancel()
        except BaseException:
            executor.waiters.fail(Unavailable(_ENDED))
            raise

    def _go_back(self, keyspace: Keyspace | None) -> None:
        """Take a state for the one there is; who waits may wait for what was given up."""
        executor = self._executor
        executor.takeovers.forget()
        executor.waiters.fail(Unavailable(self.refusal or ""))
        if keyspace is None:
            return
        executor.keyspace.apply(c.AllDeleted())  # it is freed bit by bit
        executor.adopt(keyspace)
        self._reads.forget()

    async def close(self) -> None:
        """Make durable what is not yet, and end `run`."""
        self._closed.set()
        await self._storage.close()

    def drain(self) -> None:
        """Get ready to stop: blocked reads end with `Draining`, and no read blocks any more."""
        self._executor.waiters.drain()

    async def run_housekeeping(self) -> None:
        """Let go of what is too old as time passes, until cancelled. See `housekeeping`."""
        await self._housekeeping.run()


def _decide(request: Request[T], keyspace: Keyspace, now_ms: int) -> Any:
    return decide(keyspace, request, now_ms)
