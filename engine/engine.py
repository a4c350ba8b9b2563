"""Engine: the keyspace, the storage, the waiters and the clock behind an asyncio interface.

A request is decided, recorded and applied, and the waiters are served, without an `await` in
between. So each command is atomic without a lock. The only `await` comes last: it waits until
everything that the reply depends on is durable. A long request is decided in several parts. Each
part is atomic, and other requests run between the parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar, cast

from headgate.engine import commands as c
from headgate.engine.clock import Clock, SystemClock
from headgate.engine.decisions import Decision
from headgate.engine.decisions.table import DECISIONS, decide
from headgate.engine.errors import LeaseLost, StreamError, Unavailable
from headgate.engine.journal.storage import Storage
from headgate.engine.limits import APPENDED_AT_ONCE_MAX, IN_ORDER_MS_MAX, WAITERS_MAX
from headgate.engine.loop.activity import TotalActivity
from headgate.engine.loop.adoption import Adoption
from headgate.engine.loop.appends import Appends, is_plain
from headgate.engine.loop.commits import Commits
from headgate.engine.loop.dumps import Dumps
from headgate.engine.loop.executor import Executor
from headgate.engine.loop.extent_reads import ColdReads
from headgate.engine.loop.group_reads import GroupReads
from headgate.engine.loop.housekeeping import Housekeeping
from headgate.engine.loop.lists import Lists
from headgate.engine.loop.pattern_group_reads import PatternGroupReads
from headgate.engine.loop.pattern_reads import PatternReads
from headgate.engine.loop.ranges import Ranges
from headgate.engine.loop.reads import Reads
from headgate.engine.loop.takeovers import TakeoverFeed
from headgate.engine.periodic import Watch, repeat, unwatched
from headgate.engine.replies import Added
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import CommitBatch, PlanRead, SplitRange
from headgate.engine.requests.commits import CommitSteps
from headgate.engine.requests.deliveries import (
    AckAndDelete,
    Autoclaim,
    ListPending,
    Nack,
    ReadGroup,
    ReadGroups,
)
from headgate.engine.requests.entries import (
    Add,
    CloseRange,
    CountByTime,
    Delete,
    OpenRanges,
    Range,
    RangeMatching,
    RangePacked,
    Read,
    ReadOn,
    ReadPattern,
    Trim,
    TrimArchive,
)
from headgate.engine.requests.groups import CreateGroup, DeleteConsumer, ListConsumers, ListGroups
from headgate.engine.requests.keyspace import DumpStream, ListNames, RestoreStream, ScanNames
from headgate.engine.requests.schedules import (
    AwaitSchedules,
    ListSchedules,
    RunSchedule,
    SetSchedule,
)
from headgate.engine.requests.streams import DetailStream, ListStreams, Observe, UpdateStream
from headgate.engine.requests.tables import PutRow
from headgate.engine.state.bounds import KeyspaceBounds
from headgate.engine.state.extent import Missing
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import Memory, MemoryBounds
from headgate.engine.state.schemas import Compile, Schemas
from headgate.engine.threads import this_turn
from headgate.engine.transactions import Transactions

T = TypeVar("T")

_ENDED = "the gateway has failed"

_GROWING = {
    *(Add, CommitBatch, CommitSteps, CreateGroup, PutRow, RestoreStream, RunSchedule, SetSchedule)
}
"""Requests that take memory for good: they wait until a rewrite has made room."""

_LONG = {
    *(AckAndDelete, Autoclaim, CommitBatch, CountByTime, Delete, DeleteConsumer, DetailStream),
    *(DumpStream, ListConsumers, ListGroups, ListNames, ListPending, ListStreams, Observe),
    *(OpenRanges, Range, RangeMatching, RangePacked, ReadOn, ScanNames, SplitRange, Trim),
    *(TrimArchive, UpdateStream),
}
"""Requests whose first part may take a while: it begins in a turn that has time."""


class Begun(NamedTuple, Generic[T]):
    """The outcome of a request that was carried out at once."""

    reply: T
    position: int  # everything up to there has to be durable before anybody gets the reply


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
        has_bucket: bool = False,
        compile_schema: Compile | None = None,
        watch: Watch = unwatched,
    ) -> None:
        """Start with a recovered state.

        Args:
            storage: records commands before they are applied.
            keyspace: the state that the existing records lead to; an empty state by default.
            clock: the source of time; the clock of the machine by default.
            waiters_max: how many reads may be blocked at the same time.
            memory: how much memory the streams may use.
            bounds: how many streams, groups, consumers and producers may exist.
            has_bucket: a bucket is behind the storage, so streams may have archives.
            compile_schema: returns what checks entries by the text of a schema; without it, no
                entry is checked.
            watch: returns what is told of the failures of periodic work.
        """
        self._executor = executor = Executor(
            storage,
            keyspace or Keyspace(),
            clock or SystemClock(),
            waiters_max=waiters_max,
            memory=memory,
            bounds=bounds,
            has_bucket=has_bucket,
            schemas=Schemas(compile_schema),
        )
        self.has_bucket = has_bucket
        self._storage = storage
        self._watch = watch
        self._housekeeping = Housekeeping(
            executor.current, executor.until_carried_out, executor.now_ms, watch
        )
        self._closed = asyncio.Event()
        self._reads = Reads(executor)
        self._appends = appends = Appends(executor)
        self._transactions = Transactions(executor, appends)
        self._group_reads = group_reads = GroupReads(executor)
        lists, dumps = Lists(executor), Dumps(executor)
        self._ranges = ranges = Ranges(executor)
        # Requests that wait, or that need more than one decision. All others need one decision.
        self._performers: dict[type[Request[Any]], Callable[[Any], Coroutine[Any, Any, Any]]] = {
            Add: appends.add,
            CommitBatch: appends.commit_batch,
            Read: self._reads.read,
            PlanRead: self._reads.plan,
            ReadPattern: PatternReads(executor, self._reads).read,
            ReadGroup: group_reads.read,
            ReadGroups: PatternGroupReads(executor, group_reads).read,
            Nack: group_reads.nack,
            CommitSteps: Commits(executor, group_reads).commit,
            Autoclaim: group_reads.autoclaim,
            ListStreams: lists.list_streams,
            ListGroups: lists.list_named,
            ListConsumers: lists.list_named,
            DetailStream: lists.detail_stream,
            Observe: lists.observe,
            SplitRange: lists.split_range,
            CountByTime: lists.count_by_time,
            OpenRanges: ranges.open,
            ReadOn: ranges.read_on,
            CloseRange: ranges.close,
            DumpStream: dumps.dump,
            RestoreStream: dumps.restore,
            AwaitSchedules: lists.await_schedules,
            ListSchedules: lists.list_schedules,
        }

    @property
    def storage(self) -> Storage:
        """Return the storage that records the commands."""
        return self._storage

    @property
    def memory(self) -> Memory:
        """Return how much memory the streams use, by kind."""
        return self.keyspace.memory

    @property
    def cold(self) -> ColdReads:
        """Return the extents in memory, with the counts and times of reads."""
        return self._executor.cold

    @property
    def keyspace(self) -> Keyspace:
        """Return the state, for inspection only; expired streams may still be in it."""
        return self._executor.keyspace

    @property
    def waiter_count(self) -> int:
        """Return how many reads are blocked."""
        return len(self._executor.waiters)

    @property
    def waited_for(self) -> tuple[int, int]:
        """Return the numbers of streams with blocked reads and with blocked group reads."""
        waiters = self._executor.waiters
        return waiters.stream_count, waiters.grouped_stream_count

    @property
    def group_look_count(self) -> int:
        """Return how many streams reads of groups over patterns have looked at since the start."""
        return self._executor.pattern_groups.look_count

    @property
    def activity(self) -> TotalActivity:
        """Return the counts of all streams since the start."""
        return self._executor.activity

    @property
    def unsaved_count(self) -> int:
        """Return how many changes since the start are in no snapshot yet, maybe slightly more."""
        return self._storage.unsaved_count

    def performs(self, kind: type[Request[Any]]) -> bool:
        """Tell whether requests of a kind are carried out."""
        return kind in self._performers or kind in DECISIONS

    async def perform(self, request: Request[T]) -> T:
        """Carry out a request, and return its reply once the reply is durable.

        An error is raised only when the state it depends on is durable, because an error also tells
        something about the state. If that state is lost, the request fails with `Unavailable`
        instead.

        Raises:
            StreamError: one of the errors that the request lists.
            Unavailable: the storage does not accept the changes.
        """
        executor, kind = self._executor, type(request)
        if (withheld := self._storage.withheld) is not None:
            raise withheld
        if executor.must_freeze and kind in _GROWING:
            await executor.until_frozen()
        if kind in _LONG:
            await this_turn().begin()
        perform = self._performers.get(kind)
        if kind is not Add:
            self._appends.decide_gathered()
        try:
            if perform is None:
                performing: Coroutine[Any, Any, T] = executor.run(partial(self._decide, request))
            else:
                performing = perform(request)
            del request  # free it while the task waits for the disk
            return await performing
        except Unavailable:  # the storage may never be durable again: do not wait
            raise
        except StreamError:
            await executor.durable(None)
            raise

    def begin(self, request: Request[T]) -> Begun[T] | None:
        """Carry out a request that needs one decision and does not wait, without a coroutine.

        Whoever performs many requests at once calls this, and then waits once until all of them are
        durable.

        Returns:
            The reply, and what has to be durable before anybody gets it; None if the request needs
            more than this, so that nothing was done: call `perform`.

        Raises:
            StreamError: one of the errors that the request lists. It tells something about the
                state, so everything recorded until now has to be durable before anybody gets it.
            Unavailable: the storage does not accept the changes.
        """
        executor, kind = self._executor, type(request)
        if (withheld := self._storage.withheld) is not None:
            raise withheld
        self._appends.decide_gathered()
        if executor.must_freeze and kind in _GROWING:
            return None
        if kind in _LONG and this_turn().is_over:
            return None
        try:
            if kind is Add:
                decision: Decision[Any] | None = self._appends.decide(cast("Add", request))
            elif kind in self._performers:
                return None
            else:
                decision = self._decide(request)
            if decision is None or decision.next_part is not None:
                return None
            return Begun(executor.settle(decision), executor.storage.position)
        except Missing:
            return None

    def _decide(self, request: Request[T]) -> Decision[T]:
        executor = self._executor
        return decide(executor.current(), request, executor.now_ms())

    def begin_appends(self, requests: Sequence[Add]) -> list[Added | Exception]:
        """Carry out plain appends (`is_plain`) as `begin` does; many at once take far less time.

        Returns:
            The reply to each of them, or what `begin` raises; `Missing` where nothing was done:
            call `perform`. Everything recorded until now has to be durable before anybody gets
            them.
        """
        if (withheld := self._storage.withheld) is not None:
            return [withheld] * len(requests)
        self._appends.decide_gathered()
        if self._executor.must_freeze:
            return [Missing(())] * len(requests)
        return self._appends.add_all(requests)

    async def perform_in_order(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        """Carry out requests one after the other, and wait once until all of them are durable.

        Plain appends beside each other are decided together. A request that needs more than one
        decision, or that may wait, is carried out by itself.

        Returns:
            The replies or errors of the first requests, at least of one: it stops after
            `IN_ORDER_MS_MAX`, or before a request that has to be carried out by itself.
        """
        executor = self._executor
        outcomes: list[Any | StreamError] = []
        over_s = executor.clock.monotonic_ms() + IN_ORDER_MS_MAX
        while len(outcomes) < len(requests):
            at = len(outcomes)
            appends = self._plain_appends(requests, at)
            if appends:
                outcomes += self.begin_appends(appends)
            else:
                begun = self._begin_in_order(requests[at])
                if begun is None:
                    break
                outcomes.append(begun.reply if isinstance(begun, Begun) else begun)
            if executor.clock.monotonic_ms() >= over_s:
                break
        if not outcomes:
            return [await self._outcome_of(requests[0])]
        try:
            return await executor.durable(await self._all_read(requests, outcomes))
        except Unavailable as error:
            return [error.with_traceback(None)] * len(outcomes)

    async def _all_read(
        self, requests: Sequence[Request[Any]], outcomes: list[Any]
    ) -> list[Any | StreamError]:
        """Carry out the requests that could not begin, as what they need was not in memory."""
        for at, outcome in enumerate(outcomes):
            if isinstance(outcome, Missing):
                outcomes[at] = await self._outcome_of(requests[at])
        return outcomes

    async def _outcome_of(self, request: Request[Any]) -> Any | StreamError:
        try:
            return await self.perform(request)
        except StreamError as error:
            return error.with_traceback(None)

    def _begin_in_order(self, request: Request[Any]) -> Begun[Any] | StreamError | None:
        """Carry out a request as `begin` does, also a read that does not wait; or say why not."""
        self._appends.decide_gathered()
        reads: Any
        if (withheld := self._storage.withheld) is not None:
            return withheld
        try:
            match request:
                case Read():
                    reads = self._reads.begin(request)
                case ReadGroup():
                    reads = self._group_reads.begin(request)
                case _:
                    return self.begin(request)
        except StreamError as error:
            return error.with_traceback(None)
        return None if reads is None else Begun(reads, self._executor.storage.position)

    def _plain_appends(self, requests: Sequence[Request[Any]], begin: int) -> list[Add]:
        appends: list[Add] = []
        for request in requests[begin : begin + APPENDED_AT_ONCE_MAX]:
            if type(request) is not Add or not is_plain(request):
                break
            appends.append(request)
        return appends

    async def until_durable(self, position: int) -> None:
        """Return as soon as what `begin` has carried out is durable, up to a position.

        Raises:
            Unavailable: it cannot become durable.
        """
        await self._executor.until_durable(position)

    @property
    def durable_position(self) -> int:
        """Return the position up to which everything is durable."""
        return self._storage.durable_position

    async def perform_all(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        """Carry out requests with nothing in between (MULTI, EXEC); none of them waits.

        A request that fails changes nothing, and its error takes the place of its reply. A request
        fails if it needs more than one decision: a long request that is done in parts, a group read
        that acknowledges first, or the description of a long list. Group policies are not applied
        by these requests; the next ordinary read applies them. All requests are written as one
        record, so a crash leaves either all of them or none.

        Raises:
            StreamsChanged: the first request is `IfUnchanged`, and does not hold. Nothing is done.
            TransactionTooLong: all of them would take too long. Nothing is done.
            Unavailable: the storage does not accept the changes.
        """
        if (withheld := self._storage.withheld) is not None:
            raise withheld
        return await self._transactions.perform(requests)

    def claims(self, stream: bytes, group: bytes, consumer: bytes) -> TakeoverFeed:
        """Return a feed of what other consumers take over from this consumer.

        `run` feeds it: each takeover is put into the feed once it is durable.
        """
        return TakeoverFeed(self._executor.takeovers, (stream, group, consumer))

    @property
    def is_draining(self) -> bool:
        """Tell whether the engine is about to stop."""
        return self._executor.waiters.is_draining

    @property
    def failure(self) -> str | None:
        """Return why nothing can be changed until a restart, or None if all is well."""
        return self._storage.failure

    @property
    def refusal(self) -> str | None:
        """Return why some or all changes are refused, for now or until a restart, or None."""
        return self._storage.refusal

    async def run(self) -> None:
        """Run the storage and the housekeeping until `close` is called.

        If the storage fails, the engine drops all changes that were not durable yet. Durable state
        can still be read. Changes are refused until the storage accepts them again or, if it cannot
        recover, until a restart.

        Raises:
            Exception: an error that the engine cannot recover from. The process has to end.
        """
        executor, watch = self._executor, self._watch

        async def housekeep() -> None:
            await self._storage.until_open()
            await self.run_housekeeping()

        async def feed_takeovers() -> None:
            await executor.takeovers.feed_next(lambda: executor.durable(None))

        try:
            async with asyncio.TaskGroup() as tasks:
                others = [
                    tasks.create_task(housekeep()),
                    tasks.create_task(executor.until_broken()),
                    tasks.create_task(repeat(executor.disposal.free_next, watch("disposal"))),
                    tasks.create_task(repeat(feed_takeovers, watch("takeovers"))),
                ]
                try:
                    await self._storage.run(self._go_back, Adoption(executor))
                    await self._closed.wait()
                except LeaseLost:  # what this process knows does not count any more
                    raise
                except Unavailable as failure:
                    executor.waiters.fail(failure)
                for task in others:
                    task.cancel()
        except BaseException:
            executor.waiters.fail(Unavailable(_ENDED))
            raise

    def _go_back(self, keyspace: Keyspace | None) -> None:
        """Fail all blocked reads, and replace the state by an older one; None: keep the state.

        Blocked reads fail because they may wait for changes that are being dropped.
        """
        executor = self._executor
        executor.takeovers.forget()
        executor.waiters.fail(Unavailable(self.refusal or ""))
        if keyspace is None:
            return
        executor.keyspace.apply(c.AllDeleted())  # its memory is freed in small steps
        executor.adopt(keyspace)
        self._reads.forget()

    async def close(self) -> None:
        """Make all changes durable, and end `run`."""
        self._closed.set()
        await self._storage.close()

    def drain(self) -> None:
        """Prepare to stop: blocked reads end with `Draining`, and new reads do not block."""
        self._executor.waiters.drain()

    async def run_housekeeping(self) -> None:
        """Remove expired entries, consumers and streams as time passes, until cancelled."""
        await self._housekeeping.run()
