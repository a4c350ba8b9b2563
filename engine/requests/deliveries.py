"""Deliveries: group reads, acknowledgements, releases, claims, lists of pending entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from headgate.engine.config import GroupPolicy
from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.limits import COUNT_MAX
from headgate.engine.replies import (
    Claimed,
    Deletion,
    GroupRead,
    GroupsRead,
    Outcome,
    PendingItem,
    PendingSummary,
    Redriven,
)
from headgate.engine.requests import Request
from headgate.engine.requests.entries import Budget, References
from headgate.engine.requests.groups import GroupStart
from headgate.engine.requests.keyspace import NameFilter


class GroupCursor(NamedTuple):
    """One stream of a group read. `after` None means entries that are new to the group (`>`)."""

    stream: bytes
    after: EntryId | None = None


class ReadGroup(Request[list[GroupRead]], frozen=True):
    """Deliver entries to a consumer (XREADGROUP): one `GroupRead` per cursor, served or not.

    The consumer first acknowledges `acked` in each of the streams. If there is nothing to read, the
    request waits up to `wait_ms`: 0 means no wait, None means without limit. With `claim_idle_ms`,
    the wait also ends when a pending entry has been idle for this long. Among the blocked readers
    of a group, the first to wait is the first to be served. If the reader is cancelled, the entries
    that were delivered to it are given back.

    With a `budget`, the streams are read in order until the budget is used up; the streams after
    that get nothing. A read does not wait for a stream that is closed and of which all is settled
    in the group. If `by_policy` is false, it does, the group's policy does not change the request,
    and no entries become dead letters (as in Redis).

    Entries that are gone from the stream are not claimed. They stay pending, or a backend drops
    them. GroupNotFound also if a group is deleted during the wait. LimitReached and TooManyWaiters
    come before anything is acknowledged.
    """

    group: bytes
    consumer: bytes
    cursors: Sequence[GroupCursor]
    limit: int | None = None  # entries per stream
    claim_idle_ms: int | None = None  # first claim entries idle for this long; None: none
    no_ack: bool = False  # new entries do not become pending
    max_pending: int | None = None  # how many entries the consumer may hold
    size_bytes_max: int | None = None  # names and values; the first entry always fits
    claim_own: bool = True  # also claim entries that the consumer itself holds
    claim_released: bool = False  # first claim entries without an owner; `claim_idle_ms` implies it
    wait_ms: int | None = 0
    acked: Sequence[EntryId] = ()
    budget: Budget | None = None
    by_policy: bool = True

    @property
    def idle_ms_min(self) -> int | None:
        if self.claim_idle_ms is None and self.claim_released:
            return COUNT_MAX  # no entry is idle for this long; one without an owner is claimable
        return self.claim_idle_ms


class MissingGroups(NamedTuple):
    """The groups that a read creates in streams that have none of its name."""

    start: GroupStart
    policy: GroupPolicy | None = None
    only: NameFilter | None = None  # the streams in which one may be created; None: all
    targets_exist: bool = False  # as in `CreateGroup`
    since_ms: int | None = None  # streams made later are read whole; None: than the first read

    @property
    def targets(self) -> list[bytes]:
        return [] if self.policy is None else self.policy.other_streams


class ReadGroups(Request[GroupsRead], frozen=True):
    """Deliver entries to a consumer of the groups of one name in all streams that match a glob.

    Each delivery is that of a `ReadGroup` of its stream by the group's policy. The streams take
    turns: in each turn a stream gives as many entries as its weight says, or a multiple of that if
    few streams have something. If nothing is there, the request waits up to `wait_ms`, for a new
    entry, or for the moment a pending one may be claimed. Streams that are made later are among
    those that match. With `create`, the group is created in each that has none, except where its
    policy moves entries to.

    `max_pending` counts what the consumer holds in all of the streams; a group's policy bounds it
    in each of them. `only` says which streams may be read; None: all. TooManyWaiters, LimitReached,
    Invalid.
    """

    pattern: bytes
    group: bytes
    consumer: bytes
    limit: int = 100
    size_bytes_max: int = 2**20  # names and values; the first entry always fits
    claim_idle_ms: int | None = None  # first claim entries idle for this long; None: by the policy
    claim_own: bool = True  # also claim entries that the consumer itself holds
    no_ack: bool = False  # new entries do not become pending
    max_pending: int | None = None  # how many entries the consumer may hold
    weights: Mapping[bytes, int] = {}  # by stream; 1 for all others
    create: MissingGroups | None = None
    wait_ms: int | None = 0
    only: NameFilter | None = None
    own_after: GroupCursor | None = None  # what the consumer holds behind here, by name and id
    is_temporary: bool = False  # if the read is cancelled, the consumer goes where it holds nothing


class GiveBack(Request[None], frozen=True):
    """Undo deliveries that nobody received or settled; the next reader gets the entries at once.

    `counts` includes this delivery; an entry that was delivered again meanwhile stays as it is. A
    temporary consumer is deleted if it holds nothing any more.
    """

    stream: bytes
    group: bytes
    consumer: bytes
    counts: Mapping[EntryId, int]
    is_temporary: bool = False


class Ack(Request[list[Outcome]], frozen=True):
    """Acknowledge entries (XACK), one outcome per id; with a consumer, only those it owns.

    With `counts`, only deliveries that stand, of these counts.
    """

    stream: bytes
    group: bytes
    ids: Sequence[EntryId]
    consumer: bytes | None = None
    counts: Mapping[EntryId, int] | None = None


class AckThrough(Request[None], frozen=True):
    """Acknowledge up to an id what the consumer received no later than that entry.

    If that entry is no longer pending with the consumer, nothing is acknowledged.
    """

    stream: bytes
    group: bytes
    consumer: bytes
    seen: EntryId


class AckAndDelete(Request[list[Deletion]], frozen=True):
    """Acknowledge and delete entries (XACKDEL), one outcome per id; those not pending stay."""

    stream: bytes
    group: bytes
    ids: Sequence[EntryId]
    references: References = References.KEEP


class NackMode(StrEnum):
    """Why a delivery is given back. It decides the new delivery count (XNACK)."""

    SILENT = "silent"  # the entry was not tried: the count is reduced by one
    FAIL = "fail"  # the entry was tried: the count stays
    FATAL = "fatal"  # the entry can never succeed: the greatest count there is


class Nack(Request[list[Outcome]], frozen=True):
    """Give deliveries back (XNACK); the reply has one outcome per id.

    With a consumer, entries that other consumers own stay with them. The next reader gets the
    entries after a delay: `delay_ms`, or the delay of the policy. An entry that was delivered too
    often for the policy becomes a dead letter in the same step.

    The error is kept with the entries while they are pending, until another nack carries one. It
    comes with the next deliveries, and goes into the dead letter.

    With `counts`, an entry that was delivered again or given back in the meantime stays as it is.
    """

    stream: bytes
    group: bytes
    ids: Sequence[EntryId]
    mode: NackMode
    delay_ms: int | None = None  # before the next delivery; None: by the policy
    error: bytes | None = None  # what went wrong; None: what is kept stays
    consumer: bytes | None = None
    retry_count: int | None = None  # set the delivery count to this, whatever the mode
    force: bool = False  # also take entries of the stream that are not pending
    by_policy: bool = True  # entries delivered too often become dead letters
    counts: Mapping[EntryId, int] | None = None  # only deliveries that stand, of these counts


class Extend(Request[list[Outcome]], frozen=True):
    """Restart the idle time of the consumer's entries (XCLAIM JUSTID); one outcome per id."""

    stream: bytes
    group: bytes
    ids: Sequence[EntryId]
    consumer: bytes
    counts: Mapping[EntryId, int] | None = None  # only deliveries that stand, of these counts


class Claim(Request[Claimed], frozen=True):
    """Take over pending entries by id (XCLAIM).

    Entries that are not idle for long enough are left out. The claim ends before the first entry
    that exceeds `size_bytes_max`: it and all after it stay as they are. LimitReached.
    """

    stream: bytes
    group: bytes
    consumer: bytes
    ids: Sequence[EntryId]
    min_idle_ms: int
    idle_ms: int | None = None  # set the idle time to this
    time_ms: int | None = None  # set the delivery time to this unix time
    retry_count: int | None = None  # set the delivery count to this
    force: bool = False  # also take entries of the stream that are not pending
    just_id: bool = False  # do not count this as a delivery
    last_id: EntryId = MIN_ID  # raise the group's position to this
    size_bytes_max: int | None = None  # names and values; the first entry always fits


class Autoclaim(Request[Claimed], frozen=True):
    """Take over idle entries in id order, a page at a time (XAUTOCLAIM).

    Entries that were delivered too often for the policy become dead letters instead, unless
    `by_policy` is false. A page ends before the first entry that exceeds `size_bytes_max`.
    LimitReached.
    """

    stream: bytes
    group: bytes
    consumer: bytes
    min_idle_ms: int
    start: EntryId = MIN_ID
    limit: int = 100
    just_id: bool = False
    by_policy: bool = True
    size_bytes_max: int | None = None  # names and values; the first entry always fits


class ListPending(Request[list[PendingItem]], frozen=True):
    stream: bytes
    group: bytes
    start: EntryId = MIN_ID
    end: EntryId = MAX_ID
    limit: int = 100
    consumer: bytes | None = None
    min_idle_ms: int = 0


class SumPending(Request[PendingSummary], frozen=True):
    """Summarize the pending entries and the consumers that hold them (XPENDING, the short form).

    At most `DESCRIBED_MAX` consumers are described, the first by name. All of them are counted.
    """

    stream: bytes
    group: bytes


class Redrive(Request[list[Redriven]], frozen=True):
    """Send dead letters back, the oldest first, each in one step; Invalid without such a stream."""

    stream: bytes
    group: bytes
    ids: Sequence[EntryId] | None = None  # None: all, up to the limit
    limit: int = 100
