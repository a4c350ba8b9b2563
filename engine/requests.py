"""Requests: what may be asked of a backend, one value for each command; nothing of the state in it.

A patch says what is to be changed: `None` removes what can be left out, `UNSET` leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, StrEnum
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.limits import COUNT_MAX

S = TypeVar("S", bound=msgspec.Struct)


class StreamPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What to change of a `StreamConfig`."""

    max_length: int | UnsetType | None = UNSET
    max_age_ms: int | UnsetType | None = UNSET
    idempotency_window_ms: int | UnsetType | None = UNSET
    idempotency_max: int | UnsetType | None = UNSET


class PolicyPatch(msgspec.Struct, frozen=True, kw_only=True):
    """What to change of a `GroupPolicy`."""

    claim_idle_ms: int | UnsetType | None = UNSET
    max_deliveries: int | UnsetType | None = UNSET
    dead_letter_stream: bytes | UnsetType | None = UNSET
    backoff_ms: tuple[int, ...] | UnsetType = UNSET
    max_pending: int | UnsetType | None = UNSET
    keeps: bool | UnsetType = UNSET
    consumer_ttl_ms: int | UnsetType | None = UNSET


class UpdateStream(NamedTuple):
    """Change the configuration of a stream."""

    stream: bytes
    config: StreamPatch


class UpdateGroup(NamedTuple):
    """Change where a group reads on, or by what policy it acts: all of it, or nothing."""

    stream: bytes
    group: bytes
    last_id: EntryId | UnsetType | None = UNSET  # None: the stream's last id (`$`)
    entries_read: int | UnsetType = UNSET  # unknown if only `last_id` is given
    policy: PolicyPatch = PolicyPatch()

    @property
    def moves(self) -> bool:
        """Tell whether it changes the position."""
        return self.last_id is not UNSET or self.entries_read is not UNSET


class From(Enum):
    """Cursors that are no ids."""

    NOW = "$"  # after the last id at the time of the call
    LAST = "+"  # the last entry


class StreamCursor(NamedTuple):
    """One stream of a read, and the id to read after."""

    stream: bytes
    after: EntryId | From


class BulkCursor(NamedTuple):
    """How far one stream has been read, and in which life of its name (None: in any)."""

    stream: bytes
    after: EntryId | From
    epoch: int | None = None


class References(StrEnum):
    """What becomes of pending entries whose stream entry goes."""

    KEEP = "keep"  # they stay pending, and dangle
    DELETE = "delete"  # they leave every group's pending entries
    ACKED = "acked"  # an entry that a group still needs does not go


class TrimRequest(NamedTuple):
    """What to keep: the newest `max_length` entries, or ids from `min_id` on. One of the two."""

    max_length: int | None = None
    min_id: EntryId | None = None
    approximate: bool = False  # only whole chunks: cheaper, and keeps a little more
    limit: int | None = None  # of an approximate trim: entries at most; None: 100 chunks, 0: all
    references: References = References.KEEP


class GroupStart(NamedTuple):
    """Where a group begins reading."""

    last_id: EntryId | None  # None: after the stream's last id (`$`)
    entries_read: int | None = None  # None: unknown


class GroupCursor(NamedTuple):
    """One stream of a group read. `after` None is `>`: entries new to the group."""

    stream: bytes
    after: EntryId | None = None


class GroupRequest(NamedTuple):
    """A group read (XREADGROUP)."""

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

    @property
    def idle_ms_min(self) -> int | None:
        """Return how long an owned entry must be idle to be taken; None: nothing pending is."""
        if self.claim_idle_ms is None and self.claim_released:
            return COUNT_MAX  # nothing is idle for so long, and what nobody owns is taken at once
        return self.claim_idle_ms


class NackMode(StrEnum):
    """Why a delivery is given back, and so what becomes of its count (XNACK)."""

    SILENT = "silent"  # it was never tried: one less
    FAIL = "fail"  # it was tried: unchanged
    FATAL = "fatal"  # it cannot work: the greatest count there is


class NackRequest(NamedTuple):
    """How deliveries are given back (XNACK)."""

    mode: NackMode
    retry_count: int | None = None  # set the delivery count to this, whatever the mode
    force: bool = False  # make live entries pending that are not
    delay_ms: int | None = None  # nobody gets them before that; None: as the policy says


class ClaimRequest(NamedTuple):
    """What XCLAIM does besides changing the owner."""

    min_idle_ms: int
    idle_ms: int | None = None  # set the idle time to this
    time_ms: int | None = None  # set the delivery time to this unix time
    retry_count: int | None = None  # set the delivery count to this
    force: bool = False  # make live entries pending that are not
    just_id: bool = False  # do not count this as a delivery
    last_id: EntryId = MIN_ID  # raise the group's position to this


class PendingRequest(NamedTuple):
    """Which pending entries to list (XPENDING, the long form)."""

    start: EntryId = MIN_ID
    end: EntryId = MAX_ID
    limit: int = 100
    consumer: bytes | None = None
    min_idle_ms: int = 0


def patched(value: S, patch: StreamPatch | PolicyPatch) -> S:
    """Return a configuration or a policy with what a patch says changed."""
    said = msgspec.structs.asdict(patch)
    return msgspec.structs.replace(
        value, **{name: new for name, new in said.items() if new is not UNSET}
    )
