"""Deliveries: read as a consumer of a group, settle, claim, list what is pending."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.limits import COUNT_MAX
from headgate.engine.replies import (
    Claimed,
    Deletion,
    GroupRead,
    Outcome,
    PendingItem,
    PendingSummary,
    Redriven,
)
from headgate.engine.requests import Request
from headgate.engine.requests.entries import Budget, References


class GroupCursor(NamedTuple):
    """One stream of a group read. `after` None is `>`: entries new to the group."""

    stream: bytes
    after: EntryId | None = None


class ReadGroup(Request[list[GroupRead]], frozen=True):
    """Hand entries to a consumer (XREADGROUP): one `GroupRead` per cursor, served or not.

    The consumer first acknowledges `acked`, in each of the streams. If there is nothing to read,
    wait: up to `wait_ms`, 0 not at all, None without end; also for the moment at which a pending
    entry has been idle for `claim_idle_ms`. Among the readers of a group the first to wait is the
    first served. A reader that is cancelled gives back what was delivered to it.

    With a `budget` the streams are filled in order, and those behind get nothing. Without
    `by_policy` the group's policy adds nothing to the request, and moves nothing to the dead
    letters (Redis).

    Raises:
        GroupNotFound: a group or its stream is missing, now or during the wait.
        LimitReached: the consumer is one too many for a group; then nothing is acknowledged.
        TooManyWaiters: too many reads are blocked already; then nothing is acknowledged.
    """

    group: bytes
    consumer: bytes
    cursors: Sequence[GroupCursor]
    limit: int | None = None  # entries per stream
    claim_idle_ms: int | None = None  # first take pending entries idle for so long; None: take none
    no_ack: bool = False  # new entries are not made pending
    max_pending: int | None = None  # the consumer may hold so many; then it gets no more
    size_bytes_max: int | None = None  # names and values at most, but for the first entry read
    claim_own: bool = True  # claim also what the consumer holds itself
    claim_released: bool = False  # first take what nobody owns, as `claim_idle_ms` does as well
    wait_ms: int | None = 0
    acked: Sequence[EntryId] = ()
    budget: Budget | None = None
    by_policy: bool = True

    @property
    def idle_ms_min(self) -> int | None:
        """Return how long an owned entry must be idle to be taken; None: nothing pending is."""
        if self.claim_idle_ms is None and self.claim_released:
            return COUNT_MAX  # nothing is idle for so long, and what nobody owns is taken at once
        return self.claim_idle_ms


class GiveBack(Request[None], frozen=True):
    """Undo deliveries that nobody received or settled; the next reader gets the entries at once.

    `counts` has the delivery count of each entry, this delivery included: an entry that was
    delivered again since, to any consumer, stays as it is. A missing group has nothing to give
    back.
    """

    stream: bytes
    group: bytes
    consumer: bytes
    counts: Mapping[EntryId, int]


class Ack(Request[list[Outcome]], frozen=True):
    """Acknowledge (XACK); an outcome per id. With a consumer, what others own stays theirs."""

    stream: bytes
    group: bytes
    ids: Sequence[EntryId]
    consumer: bytes | None = None


class AckThrough(Request[None], frozen=True):
    """Acknowledge what the consumer holds up to an id and was delivered no later than that.

    If the entry of that id is pending no more, nothing is acknowledged.
    """

    stream: bytes
    group: bytes
    consumer: bytes
    seen: EntryId


class AckAndDelete(Request[list[Deletion]], frozen=True):
    """Acknowledge entries and delete them (XACKDEL); replies per id what became of it.

    An id that is not pending in the group stays as it is. A missing stream or group has none.
    """

    stream: bytes
    group: bytes
    ids: Sequence[EntryId]
    references: References = References.KEEP


class NackMode(StrEnum):
    """Why a delivery is given back, and so what becomes of its count (XNACK)."""

    SILENT = "silent"  # it was never tried: one less
    FAIL = "fail"  # it was tried: unchanged
    FATAL = "fatal"  # it cannot work: the greatest count there is


class Nack(Request[list[Outcome]], frozen=True):
    """Give deliveries back (XNACK); an outcome per id. With a consumer, others keep what they own.

    The next reader gets the entries after their delay: `delay_ms`, or what the policy says. An
    entry that was delivered too often for the policy becomes a dead letter, in one step.
    """

    stream: bytes
    group: bytes
    ids: Sequence[EntryId]
    mode: NackMode
    delay_ms: int | None = None  # nobody gets them before that; None: as the policy says
    consumer: bytes | None = None
    retry_count: int | None = None  # set the delivery count to this, whatever the mode
    force: bool = False  # make live entries pending that are not
    by_policy: bool = True  # move to the dead letters what was delivered too often


class Extend(Request[list[Outcome]], frozen=True):
    """Restart the idle clock of what the consumer owns (XCLAIM JUSTID); an outcome per id."""

    stream: bytes
    group: bytes
    ids: Sequence[EntryId]
    consumer: bytes


class Claim(Request[Claimed], frozen=True):
    """Take over pending entries by id (XCLAIM); those not idle enough are left out.

    Raises:
        LimitReached: the consumer is one too many for the group.
    """

    stream: bytes
    group: bytes
    consumer: bytes
    ids: Sequence[EntryId]
    min_idle_ms: int
    idle_ms: int | None = None  # set the idle time to this
    time_ms: int | None = None  # set the delivery time to this unix time
    retry_count: int | None = None  # set the delivery count to this
    force: bool = False  # make live entries pending that are not
    just_id: bool = False  # do not count this as a delivery
    last_id: EntryId = MIN_ID  # raise the group's position to this


class Autoclaim(Request[Claimed], frozen=True):
    """Take over idle entries in id order, a page at a time (XAUTOCLAIM).

    Of these, what was delivered too often for the policy becomes a dead letter instead; not without
    `by_policy`.

    Raises:
        LimitReached: the consumer is one too many for the group.
    """

    stream: bytes
    group: bytes
    consumer: bytes
    min_idle_ms: int
    start: EntryId = MIN_ID
    limit: int = 100
    just_id: bool = False
    by_policy: bool = True


class ListPending(Request[list[PendingItem]], frozen=True):
    """List pending entries in id order (XPENDING, the long form)."""

    stream: bytes
    group: bytes
    start: EntryId = MIN_ID
    end: EntryId = MAX_ID
    limit: int = 100
    consumer: bytes | None = None
    min_idle_ms: int = 0


class SumPending(Request[PendingSummary], frozen=True):
    """Sum up what is pending, and with whom (XPENDING, the short form).

    Of the consumers that hold entries the first `DESCRIBED_MAX` by name are described, and all are
    counted.
    """

    stream: bytes
    group: bytes


class Redrive(Request[list[Redriven]], frozen=True):
    """Send dead letters of the group back, the oldest first, in one step.

    Raises:
        Invalid: the group's policy names no dead letter stream.
    """

    stream: bytes
    group: bytes
    ids: Sequence[EntryId] | None = None  # None: all, up to the limit
    limit: int = 100
