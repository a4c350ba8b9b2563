"""Engine: keyspace, storage, waiters and clock behind asyncio. It is a `Backend` as it stands.

Every method runs to its reply without an `await`: decide, record, apply, serve the waiters. So each
command is atomic without a lock. The one `await` comes last: until all that the reply depends on is
durable. What would take longer than others should wait is decided in parts, each of them atomic;
a long batch is packed before it is decided about. The methods are named as the stream commands
without the X.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from headgate.engine import commands as c
from headgate.engine import signals
from headgate.engine.changes import changes_by
from headgate.engine.clock import Clock, StepWatch, SystemClock
from headgate.engine.decisions import (
    Decision,
    Step,
    bulk,
    deliveries,
    groups,
    policies,
    streams,
    views,
    writes,
)
from headgate.engine.disposal import Disposal
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, Entry, EntryId
from headgate.engine.errors import (
    Invalid,
    MemoryFull,
    StreamError,
    StreamNotFound,
    Unavailable,
)
from headgate.engine.housekeeping import Housekeeping
from headgate.engine.journal.room import takes_room
from headgate.engine.journal.storage import Storage
from headgate.engine.limits import (
    LISTED_AT_ONCE_MAX,
    LOOKUPS_AT_ONCE_MAX,
    MAKING_ROOM_MAX,
    SETTLED_AT_ONCE_MAX,
    SPLITS_AT_ONCE_MAX,
    WAITERS_MAX,
)
from headgate.engine.recent import Recent
from headgate.engine.replies import (
    Added,
    Claimed,
    Committed,
    ConsumerInfo,
    Created,
    Deletion,
    GroupInfo,
    GroupRead,
    GroupState,
    Outcome,
    PendingItem,
    PendingSummary,
    Portion,
    Redriven,
    Split,
    StreamDetail,
    StreamInfo,
    StreamRead,
)
from headgate.engine.requests import (
    BulkCursor,
    ClaimRequest,
    GroupRequest,
    GroupStart,
    NackMode,
    NackRequest,
    PendingRequest,
    References,
    StreamCursor,
    TrimRequest,
    UpdateGroup,
    UpdateStream,
)
from headgate.engine.state.bounds import KeyspaceBounds
from headgate.engine.state.idempotency import Idempotent
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import Memory, MemoryBounds, WhenFull
from headgate.engine.state.packed import HasPartialIds, Packed, PackedDrafts, is_worth_packing, pack
from headgate.engine.state.policy import GroupPolicy
from headgate.engine.state.read_room import ReadRoom
from headgate.engine.state.stream import StreamConfig
from headgate.engine.state.writers import Commit
from headgate.engine.takeovers import TakeoverFeed, Takeovers
from headgate.engine.wait_queue import QueueKey, Waiter
from headgate.engine.waiters import Claimable, Waiters

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Coroutine[Any, Any, Any]])


class _Named(Protocol):
    @property
    def name(self) -> bytes: ...


Named = TypeVar("Named", bound=_Named)

_TOO_MUCH = "this changes too much for a transaction: run it by itself"

_BROKEN = "the state is not what the records lead to, so the process ends"

_ENDED = "the gateway has failed"


class _Wanted(NamedTuple):
    """What a read asks for."""

    cursors: tuple[StreamCursor, ...]
    limit: int | None
    size_bytes_max: int | None
    missing_ok: bool


def _with_durable_errors(method: Method) -> Method:
    """Hold back a method's errors until the state that they tell of is durable, like its replies.

    If that state is lost, the method raises `Unavailable` instead.
    """

    @wraps(method)
    async def call(self: Engine, *args: Any, **kwargs: Any) -> Any:
        calling = method(self, *args, **kwargs)
        del args, kwargs  # what waits for the disk holds nothing it does not need
        try:
            return await calling
        except Unavailable:  # it tells of the storage, which may not come back
            raise
        except StreamError:
            await self._durable(None)
            raise

    return cast("Method", call)


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
        self._bounds = bounds
        self._memory_bounds = memory
        self._trims_oldest = memory.when_full is WhenFull.TRIM_OLDEST
        self._trimmed_name: bytes | None = None  # where the last streams stood that gave entries
        self._clock = clock or SystemClock()
        self._watch = StepWatch(self._clock)
        self._storage = storage
        self._disposal = Disposal()
        self._housekeeping = Housekeeping(self._current, self._carry_out, self._now_ms)
        self._keyspace = self._adopted(keyspace or Keyspace())
        self._closed = asyncio.Event()
        self._broken: BaseException | None = None  # why the state is not what the records say
        self._is_broken = asyncio.Event()
        self._takeovers = Takeovers()
        self._waiters = Waiters(self._steady_ms, self._claimable, waiters_max)
        # What was read last, and when. Who follows a stream asks for three reads in turn: what it
        # waits for, what has come since it was woken, and what comes behind that.
        self._last_reads: Recent[_Wanted, tuple[int, list[StreamRead]]] = Recent()

    @property
    def storage(self) -> Storage:
        """Return where commands are recorded."""
        return self._storage

    @property
    def memory(self) -> Memory:
        """Return what the streams take."""
        return self._keyspace.memory

    @property
    def keyspace(self) -> Keyspace:
        """Return the state, to look at; streams whose time is over may still be in it."""
        return self._keyspace

    @property
    def waiter_count(self) -> int:
        """Return how many reads are blocked."""
        return len(self._waiters)

    @property
    def waited_for(self) -> tuple[int, int]:
        """Return on how many streams reads are blocked, and on how many of them by a group."""
        return self._waiters.stream_count, self._waiters.grouped_stream_count

    # Streams

    @_with_durable_errors
    async def list_streams(
        self, *, prefix: bytes = b"", after: bytes | None = None, limit: int = 100
    ) -> list[StreamInfo]:
        """Describe up to `limit` streams whose names start with `prefix`, in byte order."""

        def page(after: bytes | None, limit: int) -> list[StreamInfo]:
            keyspace = self._current()
            names = views.streams(keyspace, prefix=prefix, after=after, limit=limit)
            return [views.stream_info(keyspace, name) for name in names]

        return await self._listed(page, after, limit)

    @_with_durable_errors
    async def create_stream(self, stream: bytes, config: StreamConfig) -> Created[StreamInfo]:
        """Create a stream unless it is there. See `decisions.streams.create_stream`."""
        now_ms, keyspace = self._now_ms(), self._current()
        decision = streams.create_stream(keyspace, stream, config, now_ms)
        self._commit(decision.commands)
        info = views.stream_info(keyspace, stream)
        return await self._durable(Created(decision.reply, info))

    @_with_durable_errors
    async def update_stream(self, request: UpdateStream) -> StreamInfo:
        """Change a stream's configuration. See `decisions.streams.update_stream`."""
        now_ms, keyspace = self._now_ms(), self._current()
        self._commit(streams.update_stream(keyspace, request, now_ms).commands)
        return await self._durable(views.stream_info(keyspace, request.stream))

    @_with_durable_errors
    async def delete_stream(self, stream: bytes) -> bool:
        """Delete a stream with its groups (DEL); tells whether it was there."""
        return await self._run(streams.delete_stream(self._current(), stream))

    @_with_durable_errors
    async def stream_info(self, stream: bytes) -> StreamInfo:
        """Describe a stream (XINFO STREAM). Raises `StreamNotFound`."""
        return await self._durable(views.stream_info(self._current(), stream))

    @_with_durable_errors
    async def stream_detail(
        self,
        stream: bytes,
        *,
        count: int | None = 10,
        size_bytes_max: int | None = None,
        described_max: int | None = None,
    ) -> StreamDetail:
        """Describe a stream and all below it (XINFO STREAM FULL).

        Args:
            stream: the stream.
            count: entries, and pending entries of each group, to list; None is all.
            size_bytes_max: names and values of entries, as for `range`.
            described_max: what is told of groups, as in `views.group_details`.

        Raises:
            StreamNotFound: there is none, or none any more: requests come in between.
        """
        info = views.stream_info(self._current(), stream)
        entries = await self.range(stream, limit=count, size_bytes_max=size_bytes_max)
        await asyncio.sleep(0)
        details = views.group_details(
            self._current(), stream, count=count, described_max=described_max, now_ms=self._now_ms()
        )
        return await self._durable(StreamDetail(info, entries, details))

    # Entries

    async def add(
        self,
        stream: bytes,
        drafts: Sequence[Draft],
        *,
        create_stream: bool = True,
        expected_last_id: EntryId | None = None,
        trim: TrimRequest | None = None,
    ) -> list[EntryId]:
        """Append entries, all or none (XADD); returns their ids. See `decisions.streams.add`."""
        added = await self.add_once(
            stream,
            drafts,
            None,
            create_stream=create_stream,
            expected_last_id=expected_last_id,
            trim=trim,
        )
        return added.ids

    @_with_durable_errors
    async def add_once(
        self,
        stream: bytes,
        drafts: Sequence[Draft],
        idempotent: Idempotent | None,
        *,
        create_stream: bool = True,
        expected_last_id: EntryId | None = None,
        trim: TrimRequest | None = None,
    ) -> Added:
        """Append entries unless they were appended under the same key before (XADD IDMP).

        See `decisions.streams.add`.
        """
        wanted = await self._packed(drafts) if is_worth_packing(drafts) else drafts
        adding = self._run(
            streams.add(
                self._current(),
                stream,
                wanted,
                create_stream=create_stream,
                expected_last_id=expected_last_id,
                idempotent=idempotent,
                trim=trim,
                # Ids go by the wall clock, whoever sets it: only keys go by how much time passes.
                now_ms=self._clock.wall_ms() if idempotent is None else self._now_ms(),
            )
        )
        del drafts, wanted  # what waits for the disk holds nothing it does not need
        return await adding

    @_with_durable_errors
    async def range(
        self,
        stream: bytes,
        start: EntryId = MIN_ID,
        end: EntryId = MAX_ID,
        *,
        limit: int | None = None,
        size_bytes_max: int | None = None,
    ) -> list[Entry]:
        """Return entries from `start` to `end`, lowest first (XRANGE). Raises `StreamNotFound`."""
        return await self._durable(
            self._current().stream(stream).log.range(start, end, limit, ReadRoom(size_bytes_max))
        )

    @_with_durable_errors
    async def reverse_range(
        self,
        stream: bytes,
        end: EntryId = MAX_ID,
        start: EntryId = MIN_ID,
        *,
        limit: int | None = None,
        size_bytes_max: int | None = None,
    ) -> list[Entry]:
        """Return entries from `end` down to `start` (XREVRANGE). Raises `StreamNotFound`."""
        log = self._current().stream(stream).log
        room = ReadRoom(size_bytes_max)
        return await self._durable(log.reverse_range(end, start, limit, room))

    @_with_durable_errors
    async def read(
        self,
        cursors: Sequence[StreamCursor],
        *,
        limit: int | None = None,
        size_bytes_max: int | None = None,
        wait_ms: int | None = 0,
        missing_ok: bool = False,
    ) -> list[StreamRead]:
        """Read after each cursor, waiting for entries if there are none (XREAD BLOCK).

        Args:
            cursors: where to read; one `StreamRead` each is returned, empty or not.
            limit: entries per stream at most.
            size_bytes_max: names and values of all streams at most, each of which has its share;
                the first entry comes whatever its size.
            wait_ms: how long to wait; 0 does not wait, None waits without end.
            missing_ok: read a missing stream as an empty one, as Redis does.

        Raises:
            StreamNotFound: a stream is missing, now or during the wait, and may not be.
            TooManyWaiters: too many reads are blocked already.
        """
        frozen = tuple(views.freeze(self._current(), cursors))
        wanted = _Wanted(frozen, limit, size_bytes_max, missing_ok)

        def read_once() -> list[StreamRead]:
            return self._read_once(wanted)

        def attempt() -> list[StreamRead] | None:
            reply = read_once()
            return reply if any(one.entries for one in reply) else None

        reply = read_once()
        if wait_ms != 0 and not any(one.entries for one in reply):
            queues = [QueueKey(cursor.stream, None) for cursor in cursors]
            found = await self._block(Waiter(queues, attempt), wait_ms)
            reply = read_once() if found is None else self._with_later(found, read_once)
        return await self._durable(reply)

    def _read_once(self, wanted: _Wanted) -> list[StreamRead]:
        """Read, but once for all who follow a stream side by side, if nothing has changed since."""
        keyspace = self._current()
        position = self._storage.position
        last = self._last_reads.get(wanted)
        if last is not None and last[0] == position:
            return last[1]
        reply = views.read(
            keyspace,
            wanted.cursors,
            limit=wanted.limit,
            size_bytes_max=wanted.size_bytes_max,
            missing_ok=wanted.missing_ok,
        )
        if wanted.size_bytes_max is not None:  # or a whole stream would be held on to
            size_bytes = sum(entry.size_bytes for one in reply for entry in one.entries)
            self._last_reads.put(wanted, (position, reply), size_bytes)
        return reply

    def _with_later(
        self, found: list[StreamRead], read_once: Callable[[], list[StreamRead]]
    ) -> list[StreamRead]:
        """Return what a reader was woken for, and what has come before it had its turn."""
        with suppress(StreamNotFound):
            later = read_once()
            pairs = zip(found, later, strict=True)
            if all(new.entries[: len(was.entries)] == was.entries for was, new in pairs):
                return later
        return found  # some of it is gone by now, and was promised

    @_with_durable_errors
    async def delete(
        self, stream: bytes, ids: Sequence[EntryId], references: References = References.KEEP
    ) -> list[Deletion]:
        """Delete entries (XDEL, XDELEX); tells per id what became of it."""
        keyspace = self._current()
        keyspace.stream(stream)  # here a missing stream is an error
        return await self._run(streams.delete(keyspace, stream, ids, references))

    @_with_durable_errors
    async def trim(self, stream: bytes, request: TrimRequest) -> int:
        """Trim a stream (XTRIM); returns how many entries went. See `decisions.streams.trim`."""
        keyspace = self._current()
        decision = streams.trim(keyspace, stream, request)
        keyspace.stream(stream)  # here a missing stream is an error
        return await self._run(decision)

    # Bulk

    @_with_durable_errors
    async def plan(
        self, cursors: Sequence[BulkCursor], *, entries_max: int | None = None, wait_ms: int = 0
    ) -> list[Portion]:
        """Say up to where each stream is to be read next, waiting if none has anything.

        See `bulk.plan`. A missing stream has nothing yet.

        Raises:
            TooManyWaiters: too many reads are blocked already.
        """
        cursors = bulk.freeze(self._current(), cursors)

        def attempt() -> list[Portion] | None:
            reply = bulk.plan(self._current(), cursors, entries_max)
            return reply if any(one.backlog for one in reply) else None

        reply = attempt()
        if reply is None and wait_ms != 0:
            queues = [QueueKey(cursor.stream, None) for cursor in cursors]
            reply = await self._block(Waiter(queues, attempt), wait_ms)
        return await self._durable(reply or bulk.plan(self._current(), cursors, entries_max))

    @_with_durable_errors
    async def split(
        self, stream: bytes, after: EntryId, through: EntryId, parts: int
    ) -> list[Split]:
        """Cut the range above `after`, up to `through`, into at most `parts` of equal count.

        It is cut bit by bit, as each cut looks into a chunk: what is trimmed meanwhile is missing
        from the last parts. Raises `StreamNotFound`.
        """
        total = self._current().stream(stream).log.count(after, through)
        least, more = divmod(total, parts)
        splits: list[Split] = []
        for at in range(min(parts, total)):
            if at % SPLITS_AT_ONCE_MAX == SPLITS_AT_ONCE_MAX - 1:
                await asyncio.sleep(0)  # requests come between
            log = self._current().stream(stream).log
            cut = log.portion(after, through, least + (at < more))
            if cut is None:
                break
            splits.append(Split(after, cut.through, cut.length))
            after = cut.through
        return await self._durable(splits)

    @_with_durable_errors
    async def commit_batch(
        self,
        writer: bytes,
        batch: int,
        drafts: Mapping[bytes, Sequence[Draft]],
        *,
        create_streams: bool = True,
    ) -> Committed:
        """Append a writer's batch, once. See `decisions.writes.commit_batch`."""
        packed = {
            name: await self._packed(wanted) if is_worth_packing(wanted) else wanted
            for name, wanted in drafts.items()
        }
        decision = writes.commit_batch(
            self._current(),
            writer,
            batch,
            packed,
            create_streams=create_streams,
            now_ms=self._now_ms(),
        )
        return await self._run(decision)

    async def _packed(self, drafts: Sequence[Draft]) -> PackedDrafts | Sequence[Draft]:
        """Return drafts packed if that is possible, with requests in between."""
        chunks: list[Packed] = []
        with suppress(HasPartialIds):
            for some in pack(drafts, self._keyspace.defaults.node_limits):
                chunks += some
                await asyncio.sleep(0)
            return PackedDrafts(drafts, chunks)
        return drafts

    @_with_durable_errors
    async def last_commit(self, writer: bytes) -> Commit | None:
        """Return what a writer has committed last; None if nothing is known of it."""
        last = self._current().writers.by_name.get(writer)
        if last is not None:
            last = last._replace(at_ms=self._current().wall_ms(last.at_ms))
        return await self._durable(last)

    # Groups and consumers

    @_with_durable_errors
    async def create_group(
        self,
        stream: bytes,
        group: bytes,
        start: GroupStart,
        *,
        create_stream: bool = False,
        policy: GroupPolicy | None = None,
    ) -> Created[GroupInfo]:
        """Create a group unless it is there. See `decisions.groups.ensure_group`."""
        now_ms, keyspace = self._now_ms(), self._current()
        decision = groups.ensure_group(
            keyspace,
            stream,
            group,
            start,
            create_stream=create_stream,
            policy=policy,
            now_ms=now_ms,
        )
        self._commit(decision.commands)
        info = views.group(keyspace, stream, group)
        return await self._durable(Created(decision.reply, info))

    @_with_durable_errors
    async def update_group(self, request: UpdateGroup) -> GroupInfo:
        """Change a group's position or policy. See `decisions.groups.update_group`."""
        keyspace = self._current()
        self._commit(groups.update_group(keyspace, request).commands)
        return await self._durable(views.group(keyspace, request.stream, request.group))

    @_with_durable_errors
    async def redrive(
        self, stream: bytes, group: bytes, ids: Sequence[EntryId] | None = None, *, limit: int = 100
    ) -> list[Redriven]:
        """Send dead letters of a group back. See `decisions.policies.redrive`."""
        now_ms = self._now_ms()
        return await self._run(policies.redrive(self._current(), stream, group, ids, limit, now_ms))

    @_with_durable_errors
    async def destroy_group(self, stream: bytes, group: bytes) -> bool:
        """Destroy a group (XGROUP DESTROY); tells whether it was there. Raises `StreamNotFound`."""
        return await self._run(groups.destroy_group(self._current(), stream, group))

    @_with_durable_errors
    async def groups(
        self, stream: bytes, *, after: bytes | None = None, limit: int | None = None
    ) -> list[GroupInfo]:
        """Describe a stream's groups above a name (XINFO GROUPS). Raises `StreamNotFound`."""

        def page(after: bytes | None, limit: int) -> list[GroupInfo]:
            return views.groups(self._current(), stream, after, limit)

        return await self._listed(page, after, limit)

    @_with_durable_errors
    async def group(self, stream: bytes, group: bytes) -> GroupInfo:
        """Describe one group. Raises `GroupNotFound`."""
        return await self._durable(views.group(self._current(), stream, group))

    @_with_durable_errors
    async def create_consumer(
        self, stream: bytes, group: bytes, consumer: bytes
    ) -> Created[ConsumerInfo]:
        """Create a consumer (XGROUP CREATECONSUMER) unless it is there. Raises `GroupNotFound`."""
        now_ms, keyspace = self._now_ms(), self._current()
        decision = groups.create_consumer(keyspace, stream, group, consumer, now_ms)
        self._commit(decision.commands)
        info = views.consumer(keyspace, stream, group, consumer, now_ms)
        assert info is not None
        return await self._durable(Created(decision.reply, info))

    @_with_durable_errors
    async def delete_consumer(
        self, stream: bytes, group: bytes, consumer: bytes, *, release: bool
    ) -> int | None:
        """Delete a consumer (XGROUP DELCONSUMER). See `decisions.groups.delete_consumer`."""
        return await self._run(
            groups.delete_consumer(self._current(), stream, group, consumer, release=release)
        )

    @_with_durable_errors
    async def consumers(
        self, stream: bytes, group: bytes, *, after: bytes | None = None, limit: int | None = None
    ) -> list[ConsumerInfo]:
        """Describe a group's consumers above a name (XINFO CONSUMERS). Raises `GroupNotFound`."""

        def page(after: bytes | None, limit: int) -> list[ConsumerInfo]:
            return views.consumers(self._current(), stream, group, self._now_ms(), after, limit)

        return await self._listed(page, after, limit)

    @_with_durable_errors
    async def consumer(self, stream: bytes, group: bytes, consumer: bytes) -> ConsumerInfo | None:
        """Describe one consumer, None if there is none. Raises `GroupNotFound`."""
        now_ms = self._now_ms()
        return await self._durable(views.consumer(self._current(), stream, group, consumer, now_ms))

    # Delivery

    @_with_durable_errors
    async def read_group(
        self, request: GroupRequest, *, wait_ms: int | None = 0, acked: Sequence[EntryId] = ()
    ) -> list[GroupRead]:
        """Read as a consumer of a group, waiting if there is nothing (XREADGROUP BLOCK).

        With `claim_idle_ms` the wait also ends when the longest-idle pending entry becomes
        claimable. If the caller is cancelled, what was delivered to it goes back at once.

        Args:
            request: who reads what.
            wait_ms: how long to wait; 0 not at all, None without end.
            acked: what the consumer acknowledges first, in each of the streams.

        Returns:
            One `GroupRead` per cursor, served or not.

        Raises:
            GroupNotFound: a group or its stream is missing, now or during the wait.
            LimitReached: the consumer is one too many for a group; then nothing is acknowledged.
            TooManyWaiters: too many reads are blocked already; then nothing is acknowledged.
        """
        await self._wait_turn(request)
        request = self._under_policy(request)
        if acked:  # once it has acknowledged, the read must not be refused
            deliveries.groups_in_read(self._current(), request)
        if len(acked) > SETTLED_AT_ONCE_MAX:  # but for the last of them, requests come between
            early, acked = acked[:-SETTLED_AT_ONCE_MAX], acked[-SETTLED_AT_ONCE_MAX:]
            if wait_ms != 0:
                self._waiters.check_room()
            for cursor in request.cursors:
                await self.ack(cursor.stream, request.group, early, consumer=request.consumer)
        reply = self._read_group_at_once(request, acked, may_wait=wait_ms != 0)
        if not _is_served(reply) and wait_ms != 0:
            reply = await self._wait_to_read_group(request, reply, wait_ms)
        try:
            return await self._durable(reply)
        except asyncio.CancelledError:
            self._undo(request, reply)
            raise

    def _read_group_at_once(
        self, request: GroupRequest, acked: Sequence[EntryId], *, may_wait: bool
    ) -> list[GroupRead]:
        if acked and may_wait:  # once it has acknowledged, the read must not be refused
            self._waiters.check_room()
        acks: list[c.Command] = []
        for cursor in request.cursors if acked else ():
            names = cursor.stream, request.group
            acks += deliveries.ack(self._current(), *names, acked, request.consumer).commands
        self._commit(acks)
        self._dead_letter_before(request)
        decision = self._decide_group_read(request)
        self._hide(decision)
        if may_wait and not _is_served(decision.reply):
            self._waiters.check_room()
        self._commit(decision.commands)
        return decision.reply

    async def _wait_to_read_group(
        self,
        request: GroupRequest,
        found: list[GroupRead],
        wait_ms: int | None,
    ) -> list[GroupRead]:
        """Wait for what was not there when `found` was read."""

        def attempt() -> list[GroupRead] | None:
            self._dead_letter_before(request)
            decision = self._decide_group_read(request)
            self._hide(decision)
            waiter.full = _full(decision.reply)
            if not _is_served(decision.reply):
                return None
            self._commit(decision.commands)
            return decision.reply

        waiter = Waiter(
            _queues_of(request),
            attempt,
            claim_idle_ms=request.idle_ms_min,
            consumer=request.consumer,
            spares_own=not request.claim_own,
        )
        waiter.full = _full(found)
        try:
            reply = await self._block(waiter, wait_ms)
        except asyncio.CancelledError:
            self._undo(request, _served_reply(waiter) or [])
            raise
        if reply is not None:
            return reply
        # Its time is over; what came in the very same moment is still delivered, if nobody who
        # waits longer is to have it.
        await self._wait_turn(request)
        return attempt() or self._decide_group_read(request).reply

    async def _wait_turn(self, request: GroupRequest) -> None:
        if self._waiters.is_serving:
            await self._waiters.wait_turn(_queues_of(request))

    def _under_policy(self, request: GroupRequest) -> GroupRequest:
        """Return the request with what the group's policy says where it says nothing itself."""
        name = request.cursors[0].stream
        policy = self._current().group(name, request.group).policy
        idle_ms, most = request.claim_idle_ms, request.max_pending
        if idle_ms is None:
            idle_ms = policy.claim_idle_ms
        if policy.max_pending is not None:
            most = policy.max_pending if most is None else min(most, policy.max_pending)
        return request._replace(claim_idle_ms=idle_ms, max_pending=most)

    def _dead_letter(self, stream: bytes, group: bytes, claim_idle_ms: int | None) -> None:
        """Move what was delivered too often to the dead letter stream."""
        if stream in self._keyspace.governed:
            now_ms = self._now_ms()
            decision = policies.dead_letter(self._current(), stream, group, claim_idle_ms, now_ms)
            with suppress(Unavailable):  # there may be no room for it: it waits where it is
                self._carry_out(decision)

    def _dead_letter_before(self, request: GroupRequest) -> None:
        """Move what a read would claim, and what was delivered too often, out of its way."""
        if not self._keyspace.governed:
            return
        for cursor in request.cursors:  # a read that is refused moves nothing
            self._current().group(cursor.stream, request.group)
        for cursor in request.cursors:
            if cursor.after is None:
                self._dead_letter(cursor.stream, request.group, request.claim_idle_ms)

    def _decide_group_read(self, request: GroupRequest) -> Decision[list[GroupRead]]:
        return deliveries.read_group(self._current(), request, self._now_ms())

    def claims(self, stream: bytes, group: bytes, consumer: bytes) -> TakeoverFeed:
        """Tell what other consumers take over from one; `run` does it, once that is durable."""
        return TakeoverFeed(self._takeovers, (stream, group, consumer))

    @_with_durable_errors
    async def give_back(
        self, stream: bytes, group: bytes, consumer: bytes, counts: Mapping[EntryId, int]
    ) -> None:
        """Undo deliveries nobody received or settled. See `decisions.deliveries.give_back`."""
        await self._run(deliveries.give_back(self._current(), stream, group, consumer, counts))

    @_with_durable_errors
    async def ack(
        self, stream: bytes, group: bytes, ids: Sequence[EntryId], *, consumer: bytes | None = None
    ) -> list[Outcome]:
        """Acknowledge (XACK); fenced if a consumer is named. Raises `GroupNotFound`."""
        return await self._run(deliveries.ack(self._current(), stream, group, ids, consumer))

    @_with_durable_errors
    async def ack_through(
        self, stream: bytes, group: bytes, consumer: bytes, seen: EntryId
    ) -> None:
        """Acknowledge what came before one entry. See `decisions.deliveries.ack_through`."""
        await self._run(deliveries.ack_through(self._current(), stream, group, consumer, seen))

    @_with_durable_errors
    async def nack(
        self,
        stream: bytes,
        group: bytes,
        ids: Sequence[EntryId],
        *,
        mode: NackMode,
        delay_ms: int | None = None,
        consumer: bytes | None = None,
    ) -> list[Outcome]:
        """Give deliveries back (XNACK); fenced if a consumer is named. Raises `GroupNotFound`.

        Nobody gets them before `delay_ms` is over; None: as the group's policy says. What has been
        delivered too often becomes a dead letter at once.
        """
        request = NackRequest(mode, delay_ms=delay_ms)
        outcomes: list[Outcome] = []
        for at in range(0, max(len(ids), 1), LOOKUPS_AT_ONCE_MAX):
            if at:
                await asyncio.sleep(0)  # requests come between
            some = ids[at : at + LOOKUPS_AT_ONCE_MAX]
            outcomes += await self._nack(stream, group, some, request, consumer)
        return outcomes

    async def _nack(
        self,
        stream: bytes,
        group: bytes,
        ids: Sequence[EntryId],
        request: NackRequest,
        consumer: bytes | None,
    ) -> list[Outcome]:
        def give_back(keyspace: Keyspace, now_ms: int) -> Decision[list[Outcome]]:
            return deliveries.nack(keyspace, stream, group, ids, request, consumer, now_ms)

        def dead_letter(keyspace: Keyspace, now_ms: int) -> Decision[list[Outcome]]:
            dead = policies.dead_letter(keyspace, stream, group, None, now_ms, nacked=ids)
            return Decision([], dead.commands)

        # One record; and nobody is served what has failed for good.
        outcomes, _ = await self.perform_all([give_back, dead_letter])
        if isinstance(outcomes, StreamError):
            raise outcomes
        return outcomes

    @_with_durable_errors
    async def extend(
        self, stream: bytes, group: bytes, ids: Sequence[EntryId], *, consumer: bytes
    ) -> list[Outcome]:
        """Restart the idle clock of one's own entries (XCLAIM JUSTID). Raises `GroupNotFound`."""
        now_ms = self._now_ms()
        decision = deliveries.extend(self._current(), stream, group, ids, consumer, now_ms)
        return await self._run(decision)

    @_with_durable_errors
    async def claim(
        self,
        stream: bytes,
        group: bytes,
        consumer: bytes,
        ids: Sequence[EntryId],
        request: ClaimRequest,
    ) -> Claimed:
        """Take over pending entries by id (XCLAIM). Raises `GroupNotFound`."""
        now_ms = self._now_ms()
        decision = deliveries.claim(self._current(), stream, group, consumer, ids, request, now_ms)
        return await self._run(decision)

    @_with_durable_errors
    async def autoclaim(
        self,
        stream: bytes,
        group: bytes,
        consumer: bytes,
        *,
        min_idle_ms: int,
        start: EntryId = MIN_ID,
        limit: int = 100,
        just_id: bool = False,
    ) -> Claimed:
        """Take over idle entries, a page at a time (XAUTOCLAIM). Raises `GroupNotFound`.

        What was delivered too often for the policy becomes a dead letter first, as in a read.
        """
        self._dead_letter(stream, group, min_idle_ms)
        decision = deliveries.autoclaim(
            self._current(),
            stream,
            group,
            consumer,
            min_idle_ms=min_idle_ms,
            start=start,
            limit=limit,
            just_id=just_id,
            now_ms=self._now_ms(),
        )
        return await self._run(decision)

    @_with_durable_errors
    async def pending(
        self, stream: bytes, group: bytes, request: PendingRequest
    ) -> list[PendingItem]:
        """List pending entries (XPENDING, long form). Raises `GroupNotFound`."""
        now_ms = self._now_ms()
        return await self._run(views.pending(self._current(), stream, group, request, now_ms))

    @_with_durable_errors
    async def pending_summary(self, stream: bytes, group: bytes) -> PendingSummary:
        """Sum up what is pending (XPENDING, short form). Raises `GroupNotFound`."""
        return await self._durable(views.pending_summary(self._current(), stream, group))

    # Housekeeping

    @property
    def is_draining(self) -> bool:
        """Tell whether the engine is about to stop."""
        return self._waiters.is_draining

    @property
    def failure(self) -> str | None:
        """Return why nothing can be changed any more, None if all is well."""
        return self._storage.failure

    @property
    def refusal(self) -> str | None:
        """Return why not everything can be changed, for now or for ever, None if all is well."""
        return self._storage.refusal

    async def run(self) -> None:
        """Keep storage and house, until `close`.

        If the storage fails, everything that was not durable yet is forgotten; what was stays to be
        read, and nothing can be changed until the storage takes it again or, if it never will, a
        restart.

        Raises:
            Exception: something happened that nothing here can mend. The process has to end.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                others = [
                    tasks.create_task(self.run_housekeeping()),
                    tasks.create_task(self._until_broken()),
                    tasks.create_task(self._disposal.run()),
                    tasks.create_task(self._takeovers.run(lambda: self._durable(None))),
                ]
                try:
                    await self._storage.run(self._go_back)
                    await self._closed.wait()
                except Unavailable as failure:
                    self._waiters.fail(failure)
                for task in others:
                    task.cancel()
        except BaseException:
            self._waiters.fail(Unavailable(_ENDED))
            raise

    def _go_back(self, keyspace: Keyspace | None) -> None:
        """Take a state for the one there is; who waits may wait for what was given up."""
        self._takeovers.forget()
        self._waiters.fail(Unavailable(self.refusal or ""))
        if keyspace is None:
            return
        self._keyspace.apply(c.AllDeleted())  # it is freed bit by bit
        self._keyspace = self._adopted(keyspace)
        self._last_reads.clear()

    def _adopted(self, keyspace: Keyspace) -> Keyspace:
        keyspace.dispose = self._disposal.take
        keyspace.bounds = self._bounds
        return keyspace

    async def _until_broken(self) -> None:
        await self._is_broken.wait()
        raise RuntimeError(_BROKEN) from self._broken

    async def close(self) -> None:
        """Make durable what is not yet, and end `run`."""
        self._closed.set()
        await self._storage.close()

    def drain(self) -> None:
        """Get ready to stop: blocked reads end with `Draining`, and no read blocks any more."""
        self._waiters.drain()

    async def run_housekeeping(self) -> None:
        """Let go of what is too old as time passes, until cancelled. See `housekeeping`."""
        await self._housekeeping.run()

    # Steps: decisions of the caller's own making

    @_with_durable_errors
    async def perform(self, step: Step[T]) -> T:
        """Decide, record, apply and serve; returns the reply once it is durable.

        Where the decision has parts, other requests come between them.
        """
        await self._waiters.wait_turn()
        return await self._run(step(self._current(), self._now_ms()))

    @_with_durable_errors
    async def perform_all(self, steps: Sequence[Step[T]]) -> list[T | StreamError]:
        """Perform steps at one moment with nothing in between; waiters are served at the end.

        A step that fails changes nothing, and its error is its reply (MULTI, EXEC). One that would
        take so long that it is done in parts fails. If one raises anything else, those before it
        count all the same.

        1. Each step is decided on what those before it have done, so it is applied before the next.
        2. Before it is applied, storage and memory are asked whether they take its commands.
        3. All commands become one record at the end: a crash leaves all of them or none.

        So the record comes behind what it says, unlike anywhere else. Storage cannot refuse it:
        nothing is awaited in between, and what is refused as a whole is refused in part. Should it
        fail all the same, the state is not what the records lead to, and the process ends.
        """
        await self._waiters.wait_turn()
        keyspace, now_ms = self._current(), self._now_ms()
        replies: list[T | StreamError] = []
        commands: list[c.Command] = []
        try:
            for step in steps:
                try:
                    decision = step(keyspace, now_ms)
                    self._hide(decision)
                    self._storage.check(decision.commands)
                    self._check_memory(decision.commands)
                    if decision.rest is not None:
                        raise Invalid(_TOO_MUCH)
                except StreamError as error:
                    replies.append(error)
                else:
                    self._apply(decision.commands)
                    commands += decision.commands
                    replies.append(decision.reply)
        finally:
            self._record_applied(commands)  # one record: all of it is recovered, or nothing
            self._waiters.serve()
        return await self._durable(replies)

    @_with_durable_errors
    async def perform_blocking(
        self,
        step: Step[T | None],
        queues: Sequence[QueueKey],
        *,
        wait_ms: int | None,
        claim_idle_ms: int | None = None,
    ) -> T | None:
        """Perform a step; while its reply is None, wait and perform it again.

        Args:
            step: the whole read. What it changes without a reply counts only the first time.
            queues: where it waits.
            wait_ms: how long at most; None is without end.
            claim_idle_ms: it takes pending entries idle for so long.

        Raises:
            TooManyWaiters: too many reads are blocked already.
            Draining: it would have to wait, and the engine is about to stop.
        """

        def attempt() -> T | None:
            decision = step(self._current(), self._now_ms())
            self._hide(decision)
            if decision.reply is not None:
                self._commit(decision.commands)
            return decision.reply

        await self._waiters.wait_turn(queues)
        first = step(self._current(), self._now_ms())
        self._carry_out(first)
        reply = first.reply
        if reply is None:
            waiter = Waiter(queues, attempt, claim_idle_ms=claim_idle_ms)
            reply = await self._block(waiter, wait_ms)
            if reply is None:
                await self._waiters.wait_turn(queues)
        return await self._durable(attempt() if reply is None else reply)

    # Decide, record, apply, serve; then wait

    def _current(self) -> Keyspace:
        """Return the state to decide on, once what has no place in it any more has gone.

        That is recorded as any change is. Whoever answers a request begins with this, and begins
        again with it after each wait: the state may be another one by then.

        1. Streams whose time is over go: nobody sees them again.
        2. If memory is full, and that is what it is to mean, the oldest entries go.
        """
        if self._keyspace.expiring:
            with suppress(Unavailable):  # they go later
                self._commit(streams.expire(self._keyspace, self._now_ms()).commands)
        if self._trims_oldest:
            with suppress(Unavailable):
                self._make_room()
        return self._keyspace

    def _now_ms(self) -> int:
        """Return unix time; that the clock was set is recorded before anything goes by it."""
        now_ms, keyspace = self._clock.wall_ms(), self._keyspace
        set_by_ms = self._watch.look(keyspace.steady_ms(now_ms), keyspace.latest_ms)
        if set_by_ms:
            with suppress(Unavailable):  # it is tried again at the next look
                self._record_and_apply([c.ClockSet(set_by_ms)])
        return now_ms

    def _steady_ms(self) -> int:
        self._now_ms()
        return self._watch.steady_ms()

    async def _run(self, decision: Decision[T]) -> T:
        self._carry_out(decision)
        while decision.rest is not None:
            await asyncio.sleep(0)  # requests come between
            decision = decision.rest(self._current(), self._now_ms())
            self._carry_out(decision)
        reply = decision.reply
        del decision  # many entries may be in it, and they are appended
        return await self._durable(reply)

    def _carry_out(self, decision: Decision[Any]) -> None:
        self._hide(decision)
        self._commit(decision.commands)

    def _hide(self, decision: Decision[Any]) -> None:
        for found in decision.unclaimable:
            self._keyspace.hide(*found)

    def _commit(self, commands: list[c.Command]) -> None:
        if commands:
            self._record_and_apply(commands)
            self._waiters.serve()

    def _record_and_apply(self, commands: list[c.Command]) -> None:
        if commands:
            self._check_memory(commands)
            self._storage.append(commands)
            self._apply(commands)

    def _check_memory(self, commands: list[c.Command]) -> None:
        """Raise `MemoryFull` if there is no memory for what would be added."""
        bounds, size_bytes = self._memory_bounds, self._keyspace.memory.size_bytes
        if not bounds.is_full(size_bytes):
            return
        if takes_room(commands):
            raise MemoryFull
        if bounds.is_beyond(size_bytes) and any(
            isinstance(command, c.EntriesDelivered) and command.delivered for command in commands
        ):
            raise MemoryFull

    def _make_room(self) -> None:
        """Let the oldest entries go if memory is full."""
        for _ in range(MAKING_ROOM_MAX):
            if not self._memory_bounds.is_full(self._keyspace.memory.size_bytes):
                return
            trimming = streams.trim_oldest(self._keyspace, self._trimmed_name)
            self._trimmed_name = trimming.reply
            self._record_and_apply(trimming.commands)

    def _record_applied(self, commands: list[c.Command]) -> None:
        if commands and self._broken is None:
            try:
                self._storage.append(commands)
            except BaseException as error:
                self._break(error)
                raise

    def _apply(self, commands: list[c.Command]) -> None:
        try:
            self._storage.change_count += changes_by(self._keyspace, commands)
            for command in commands:
                if self._takeovers:
                    self._takeovers.note(self._keyspace, command)
                freed = signals.holders_before(self._keyspace, self._waiters, command)
                self._keyspace.apply(command)
                signals.tell(self._waiters, command)
                for names in freed:
                    self._waiters.freed(*names)
        except BaseException as error:
            self._break(error)
            raise

    def _break(self, error: BaseException) -> None:
        """End: the state is no longer what the records lead to, so nothing may be made of it."""
        self._broken = error
        self._is_broken.set()
        self._storage.abandon(_BROKEN)
        self._waiters.fail(Unavailable(_BROKEN))

    async def _listed(
        self,
        page: Callable[[bytes | None, int], list[Named]],
        after: bytes | None,
        limit: int | None,
    ) -> list[Named]:
        """Return what is listed by name, with requests in between: each is told as it is then.

        Args:
            page: returns what comes after a name, up to so many; fewer if there are no more.
            after: the name to begin after; None is at the beginning.
            limit: how many at most; None is all.
        """
        found: list[Named] = []
        while True:
            left = LISTED_AT_ONCE_MAX if limit is None else limit - len(found)
            some = page(after, min(left, LISTED_AT_ONCE_MAX))
            found += some
            if len(some) < LISTED_AT_ONCE_MAX:
                return await self._durable(found)
            after = some[-1].name
            await asyncio.sleep(0)

    async def _durable(self, reply: T) -> T:
        position = self._storage.position
        if self._broken is not None:
            raise Unavailable(_BROKEN)
        if position > self._storage.durable_position:
            await self._storage.wait_durable(position)
        return reply

    async def _block(self, waiter: Waiter[T], wait_ms: int | None) -> T | None:
        """Wait until the read is served, fails, or its time is over (None)."""
        if self.failure is not None:  # nothing will come any more
            raise Unavailable(self.failure)
        self._waiters.add(waiter)
        loop = asyncio.get_running_loop()
        timer = None if wait_ms is None else loop.call_later(wait_ms / 1000, waiter.expire)
        try:
            return await waiter.served
        finally:
            if timer is not None:
                timer.cancel()
            self._waiters.remove(waiter)
            waiter.forget()

    def _undo(self, request: GroupRequest, reply: list[GroupRead]) -> None:
        """Give back what was delivered to a reader that is no longer there."""
        for cursor, one in zip(request.cursors, reply, strict=False):
            if cursor.after is None:  # its history was the reader's before, and stays so
                counts = {each.id: each.delivery_count for each in one.deliveries}
                names = one.stream, request.group, request.consumer
                with suppress(Unavailable):  # then the delivery itself is not durable either
                    decision = deliveries.give_back(self._current(), *names, counts)
                    self._commit(decision.commands)
                    while decision.rest is not None:
                        decision = decision.rest(self._current(), self._now_ms())
                        self._commit(decision.commands)

    def _claimable(self, key: QueueKey, waiter: Waiter[Any]) -> Claimable:
        stream = self._current().find(key.stream)
        group = None if stream is None or key.group is None else stream.groups.get(key.group)
        if group is None or waiter.claim_idle_ms is None:
            return Claimable(None, is_for_all=True)
        own = waiter.consumer if waiter.spares_own else None
        at_ms, is_for_all = deliveries.claimable_at(
            key.stream, group, waiter.claim_idle_ms, own, self._steady_ms()
        )
        return Claimable(at_ms, is_for_all)


def _queues_of(request: GroupRequest) -> list[QueueKey]:
    return [QueueKey(cursor.stream, request.group) for cursor in request.cursors]


def _is_served(reply: list[GroupRead]) -> bool:
    return any(one.served for one in reply)


def _full(reply: list[GroupRead]) -> frozenset[bytes]:
    """Return in which streams the consumer holds all it may."""
    return frozenset(one.stream for one in reply if one.state is GroupState.MAX_PENDING)


def _served_reply(waiter: Waiter[T]) -> T | None:
    """Return what a cancelled waiter was served at the very last moment, if it was."""
    served = waiter.served
    if not served.done() or served.cancelled() or served.exception() is not None:
        return None
    return served.result()
