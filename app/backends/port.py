"""Backend: the one port between the web shell and what keeps the streams.

The engine satisfies it as it stands. What every backend promises:

- **Atomic.** Each call happens as a whole or, when it raises, not at all. What settles, deletes or
  trims many entries may happen in parts with other calls in between; each part is whole.
- **Ordered.** The entries of a stream have one order, that of their ids, and every reader sees it.
- **Durable.** A call returns, or raises, when what it changed and what it saw cannot be lost any
  more: an error tells of the state as a reply does.
- **Cancellable.** A blocked read that is cancelled leaves nothing behind; entries that were handed
  to it in its last moment are given back.

Names and ids are the engine's types: stream, group and consumer names are bytes. Every error is an
`engine.errors.StreamError`; each method names those beyond `Unavailable`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from headgate.engine.entry import MAX_ID, MIN_ID, Draft, Entry, EntryId
from headgate.engine.replies import (
    Added,
    Claimed,
    Committed,
    ConsumerInfo,
    Created,
    Deletion,
    GroupInfo,
    GroupRead,
    Outcome,
    PendingItem,
    PendingSummary,
    Portion,
    Redriven,
    Split,
    StreamDetail,
    StreamInfo,
    StreamRead,
    Takeover,
)
from headgate.engine.requests import (
    BulkCursor,
    ClaimRequest,
    GroupRequest,
    GroupStart,
    NackMode,
    PendingRequest,
    References,
    StreamCursor,
    TrimRequest,
    UpdateGroup,
    UpdateStream,
)
from headgate.engine.state.idempotency import Idempotent
from headgate.engine.state.policy import GroupPolicy
from headgate.engine.state.stream import StreamConfig
from headgate.engine.state.writers import Commit


class Backend(Protocol):
    """Streams, their groups, and what is delivered to whom."""

    @property
    def failure(self) -> str | None:
        """Return why nothing can be changed any more, None if all is well.

        What was durable can still be read.
        """
        ...

    @property
    def refusal(self) -> str | None:
        """Return why not everything can be changed, for now or for ever, None if all is well."""
        ...

    # Streams

    async def list_streams(
        self, *, prefix: bytes = b"", after: bytes | None = None, limit: int = 100
    ) -> list[StreamInfo]:
        """Describe up to `limit` streams whose names start with `prefix`, in byte order.

        `after` is the last name of the page before; None starts at the beginning. Each is told as
        it is at some moment of the call.
        """
        ...

    async def create_stream(self, stream: bytes, config: StreamConfig) -> Created[StreamInfo]:
        """Create an empty stream, unless it is there with this configuration.

        Raises:
            StreamExists: it is there with another configuration.
            LimitReached: there are as many streams as there may be.
        """
        ...

    async def update_stream(self, request: UpdateStream) -> StreamInfo:
        """Change a stream's configuration; entries it no longer allows go at once.

        Raises:
            StreamNotFound: there is none.
        """
        ...

    async def delete_stream(self, stream: bytes) -> bool:
        """Delete a stream with its groups; false if there is none. Its blocked readers are told."""
        ...

    async def stream_info(self, stream: bytes) -> StreamInfo:
        """Describe a stream.

        Raises:
            StreamNotFound: there is none.
        """
        ...

    async def stream_detail(
        self,
        stream: bytes,
        *,
        count: int | None = 10,
        size_bytes_max: int | None = None,
        described_max: int | None = None,
    ) -> StreamDetail:
        """Describe a stream with `count` entries and pending entries per group (None: all).

        `size_bytes_max` bounds the entries as in `range`; `described_max` groups, consumers and
        pending entries together: the groups come first, then what is in the first of them.

        Raises:
            StreamNotFound: there is none.
        """
        ...

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
        """Append entries in order, all or none, then trim; returns their ids.

        Blocked readers are served in order of arrival, many of them in turns: nobody who reads
        later gets an entry of a group before them.

        Raises:
            StreamNotFound: there is none and `create_stream` is false.
            LastIdMismatch: the last id is not `expected_last_id`.
            IdNotGreater: an explicit id is not above the one before it.
            IdsExhausted: there is no greater id.
            Invalid: an entry has no fields or is too large, or `trim` contradicts itself.
            LimitReached: the stream would be one too many.
        """
        ...

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
        """Append as `add` does, unless it was done under the same key before.

        A repeat changes nothing; its reply is the first one's ids, whatever became of the entries.
        A key protects for the stream's idempotency window, and ids of its drafts must be left to
        the stream.

        Raises:
            IdempotencyMismatch: the key was used for another request.
            LimitReached: the stream or the key's producer would be one too many.
        """
        ...

    async def range(
        self,
        stream: bytes,
        start: EntryId = MIN_ID,
        end: EntryId = MAX_ID,
        *,
        limit: int | None = None,
        size_bytes_max: int | None = None,
    ) -> list[Entry]:
        """Return up to `limit` entries from `start` to `end`, both inclusive, lowest id first.

        Names and values add up to `size_bytes_max` at most, but the first entry always comes.

        Raises:
            StreamNotFound: there is none.
        """
        ...

    async def reverse_range(
        self,
        stream: bytes,
        end: EntryId = MAX_ID,
        start: EntryId = MIN_ID,
        *,
        limit: int | None = None,
        size_bytes_max: int | None = None,
    ) -> list[Entry]:
        """Return up to `limit` entries from `end` down to `start`, both inclusive.

        Raises:
            StreamNotFound: there is none.
        """
        ...

    async def read(
        self,
        cursors: Sequence[StreamCursor],
        *,
        limit: int | None = None,
        size_bytes_max: int | None = None,
        wait_ms: int | None = 0,
        missing_ok: bool = False,
    ) -> list[StreamRead]:
        """Return what each stream has after its cursor, one `StreamRead` each, empty or not.

        `limit` is for each stream, `size_bytes_max` for all: each has its share. The first entry
        always comes, and others while something is left.

        If no stream has anything, wait for it: up to `wait_ms`, 0 not at all, None without end.
        Every waiting reader gets every entry.

        Raises:
            StreamNotFound: a stream is missing, now or during the wait, and `missing_ok` is false.
            TooManyWaiters: too many reads are blocked already.
        """
        ...

    async def delete(
        self, stream: bytes, ids: Sequence[EntryId], references: References = References.KEEP
    ) -> list[Deletion]:
        """Delete entries; tells per id what became of it.

        Raises:
            StreamNotFound: there is no stream.
        """
        ...

    async def trim(self, stream: bytes, request: TrimRequest) -> int:
        """Remove the oldest entries; returns how many went.

        Raises:
            StreamNotFound: there is no stream.
            Invalid: the request contradicts itself.
        """
        ...

    # Bulk: for readers and writers that take a stream as a whole

    async def plan(
        self, cursors: Sequence[BulkCursor], *, entries_max: int | None = None, wait_ms: int = 0
    ) -> list[Portion]:
        """Say up to where each stream is to be read next, one `Portion` per cursor, in order.

        `entries_max` bounds all streams together, and is shared in proportion to what each has;
        a stream that has anything gets at least one, if that is possible. If none has anything,
        wait for it up to `wait_ms`. A missing stream has nothing, and may come to be meanwhile. A
        stream of another epoch than its cursor's is counted from its beginning.

        Raises:
            TooManyWaiters: too many reads are blocked already.
        """
        ...

    async def split(
        self, stream: bytes, after: EntryId, through: EntryId, parts: int
    ) -> list[Split]:
        """Cut a range, above `after` and up to `through`, into at most `parts` by count.

        Their sizes differ by one at most, unless the stream is trimmed meanwhile. A range without
        entries has no parts.

        Raises:
            StreamNotFound: there is none, now or in the middle.
        """
        ...

    async def commit_batch(
        self,
        writer: bytes,
        batch: int,
        drafts: Mapping[bytes, Sequence[Draft]],
        *,
        create_streams: bool = True,
    ) -> Committed:
        """Append what a writer has for each stream, all or none, and remember its batch.

        A batch is appended once: if the writer has committed this one or a later, nothing changes.
        Writers are remembered for 90 days after their last commit, the newest 10,000 of them.

        Raises:
            StreamNotFound: one is missing and `create_streams` is false.
            IdNotGreater: an explicit id is not above the one before it; it names the stream.
            IdsExhausted: there is no greater id.
            Invalid: an entry has no fields or is too large.
            LimitReached: the streams that are missing are too many.
        """
        ...

    async def last_commit(self, writer: bytes) -> Commit | None:
        """Return what a writer has committed last; None if nothing is known of it."""
        ...

    # Groups and consumers; each raises GroupNotFound where the group must be there and is not

    async def create_group(
        self,
        stream: bytes,
        group: bytes,
        start: GroupStart,
        *,
        create_stream: bool = False,
        policy: GroupPolicy | None = None,
    ) -> Created[GroupInfo]:
        """Create a group that acts by a policy, unless it is there: then it stays as it is.

        Raises:
            Invalid: the policy contradicts itself.
            StreamNotFound: there is no stream and `create_stream` is false.
            GroupExists: it is there with another policy than this one; None: any will do.
            LimitReached: the stream or the group would be one too many.
        """
        ...

    async def update_group(self, request: UpdateGroup) -> GroupInfo:
        """Set a group's position, forward or back, or change its policy; all or nothing.

        What is pending stays so, and nobody is woken. The policy holds from the next read on.

        Raises:
            Invalid: the policy would contradict itself.
        """
        ...

    async def destroy_group(self, stream: bytes, group: bytes) -> bool:
        """Destroy a group; false if there is none. Its blocked readers are told.

        Raises:
            StreamNotFound: there is no stream.
        """
        ...

    async def groups(
        self, stream: bytes, *, after: bytes | None = None, limit: int | None = None
    ) -> list[GroupInfo]:
        """Describe up to `limit` of a stream's groups, by name, above `after`; each as it is then.

        Raises:
            StreamNotFound: there is no stream.
        """
        ...

    async def group(self, stream: bytes, group: bytes) -> GroupInfo:
        """Describe one group."""
        ...

    async def create_consumer(
        self, stream: bytes, group: bytes, consumer: bytes
    ) -> Created[ConsumerInfo]:
        """Create a consumer, unless it is there.

        Raises:
            LimitReached: the group has as many consumers as it may have.
        """
        ...

    async def delete_consumer(
        self, stream: bytes, group: bytes, consumer: bytes, *, release: bool
    ) -> int | None:
        """Delete a consumer; returns how many entries it held, None if it was not there.

        With `release` they are anybody's now; without, they are pending no more, for good.
        """
        ...

    async def consumers(
        self, stream: bytes, group: bytes, *, after: bytes | None = None, limit: int | None = None
    ) -> list[ConsumerInfo]:
        """Describe up to `limit` of a group's consumers, as `groups` does groups."""
        ...

    async def consumer(self, stream: bytes, group: bytes, consumer: bytes) -> ConsumerInfo | None:
        """Describe one consumer; None if there is none."""
        ...

    # Delivery; each raises GroupNotFound if there is no such group

    async def read_group(
        self, request: GroupRequest, *, wait_ms: int | None = 0, acked: Sequence[EntryId] = ()
    ) -> list[GroupRead]:
        """Hand entries to a consumer, one `GroupRead` per cursor, served or not.

        If there is nothing, wait: up to `wait_ms`, 0 not at all, None without end; also for the
        moment at which a pending entry has been idle for the request's `claim_idle_ms`. Among the
        readers of a group the first to wait is the first served. `acked` is acknowledged first.

        Raises:
            GroupNotFound: a group or its stream is missing, now or during the wait.
            LimitReached: the consumer is one too many for a group; then nothing is acknowledged.
            TooManyWaiters: too many reads are blocked already; then nothing is acknowledged.
        """
        ...

    async def give_back(
        self, stream: bytes, group: bytes, consumer: bytes, counts: Mapping[EntryId, int]
    ) -> None:
        """Undo deliveries nobody received or settled; the next reader gets the entries at once.

        `counts` has the delivery count of each entry, this delivery included: what was delivered
        again since, to whomever, is left alone. A missing group has nothing to give back.
        """
        ...

    async def ack(
        self, stream: bytes, group: bytes, ids: Sequence[EntryId], *, consumer: bytes | None = None
    ) -> list[Outcome]:
        """Acknowledge; an outcome per id. With a consumer, what others own stays theirs."""
        ...

    async def ack_through(
        self, stream: bytes, group: bytes, consumer: bytes, seen: EntryId
    ) -> None:
        """Acknowledge what the consumer holds up to an id and was delivered no later than that.

        If that one is pending no more, nothing is.
        """
        ...

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
        """Give deliveries back; an outcome per id.

        The next reader gets them once they have rested: for `delay_ms`, or as the policy says. What
        has been delivered too often for the policy becomes a dead letter, in one step.
        """
        ...

    async def redrive(
        self, stream: bytes, group: bytes, ids: Sequence[EntryId] | None = None, *, limit: int = 100
    ) -> list[Redriven]:
        """Send dead letters of the group back, the oldest first, in one step.

        Raises:
            Invalid: the group's policy names no dead letter stream.
        """
        ...

    async def extend(
        self, stream: bytes, group: bytes, ids: Sequence[EntryId], *, consumer: bytes
    ) -> list[Outcome]:
        """Restart the idle clock of what the consumer owns; an outcome per id."""
        ...

    async def claim(
        self,
        stream: bytes,
        group: bytes,
        consumer: bytes,
        ids: Sequence[EntryId],
        request: ClaimRequest,
    ) -> Claimed:
        """Take over pending entries by id; those not idle enough are left out.

        Raises:
            LimitReached: the consumer is one too many for the group.
        """
        ...

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
        """Take over idle entries in id order, a page at a time.

        Of these, what was delivered too often for the policy becomes a dead letter instead.

        Raises:
            LimitReached: the consumer is one too many for the group.
        """
        ...

    async def pending(
        self, stream: bytes, group: bytes, request: PendingRequest
    ) -> list[PendingItem]:
        """List pending entries in id order."""
        ...

    async def pending_summary(self, stream: bytes, group: bytes) -> PendingSummary:
        """Sum up what is pending and with whom."""
        ...

    # The backend itself

    @property
    def is_draining(self) -> bool:
        """Tell whether this backend is about to stop."""
        ...

    def drain(self) -> None:
        """Get ready to stop: blocked reads end with `Draining`, and no read blocks any more."""
        ...

    @property
    def waiter_count(self) -> int:
        """Return how many reads are blocked here."""
        ...


@runtime_checkable
class ClaimFeed(Protocol):
    """An ability: a consumer can be told what others take over from it."""

    def claims(
        self, stream: bytes, group: bytes, consumer: bytes
    ) -> AbstractAsyncContextManager[AsyncIterator[Takeover]]:
        """Tell what other consumers take over from one, while the context lasts.

        A takeover is told once it is durable. By then an entry may have come back, with a greater
        count. What one consumer has taken in several steps may be told as one takeover. Whoever
        does not take them in time loses the oldest ids of many thousands. The iteration ends with
        the context.
        """
        ...
