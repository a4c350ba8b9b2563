"""Entries: append, read, delete, trim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, StrEnum
from typing import NamedTuple

from headgate.engine.entry import MAX_ID, MIN_ID, Draft, Entry, EntryId, EntryTimes
from headgate.engine.errors import Invalid, Location
from headgate.engine.limits import U64_MAX
from headgate.engine.patterns import PatternCursor
from headgate.engine.replies import (
    Added,
    Deletion,
    Histogram,
    MatchingPage,
    OpenedRange,
    PackedPage,
    PatternRead,
    StreamRead,
)
from headgate.engine.requests import Request
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.keyspace import NameFilter
from headgate.engine.requests.streams import AttributeChange


class References(StrEnum):
    """The treatment of pending entries when their stream entry is deleted."""

    KEEP = "keep"  # they stay pending without a stream entry
    DELETE = "delete"  # they are removed from the pending entries of all groups
    ACKED = "acked"  # an entry that a group still needs is not deleted


class TrimTo(NamedTuple):
    """Keep the newest `max_length` entries, or the ids from `min_id` on: exactly one is set."""

    max_length: int | None = None
    min_id: EntryId | None = None
    approximate: bool = False  # remove only whole chunks: cheaper, keeps a little more
    limit: int | None = None  # approximate only; None: 100 chunks, 0: no limit
    references: References = References.KEEP


def check_trim(to: TrimTo, *, at: Location = ()) -> None:
    """Raise Invalid if a trim's fields contradict each other; `at` is its place in the request."""
    if to.max_length is not None and to.min_id is not None:
        raise Invalid(
            "a trim goes by max_length or by min_id, not by both", location=(*at, "min_id")
        )
    if to.max_length is None and to.min_id is None:
        raise Invalid("a trim goes by max_length or by min_id", location=(*at, "max_length"))
    if to.max_length is not None and to.max_length < 0:
        raise Invalid("max_length is 0 or more", location=(*at, "max_length"))
    if to.limit is not None and to.limit < 0:
        raise Invalid("limit is 0 or more", location=(*at, "limit"))
    if to.limit is not None and not to.approximate:
        raise Invalid("only an approximate trim has a limit", location=(*at, "limit"))


class Add(Request[Added], frozen=True):
    """Append entries in order, all or none, and then trim (XADD).

    With `idempotent`, a repeat under the same key changes nothing: the reply has the ids of the
    first append, even if the entries have been deleted since. A key is valid for the stream's
    idempotency window. The drafts of an idempotent append have no explicit ids.

    StreamNotFound without `create_stream`; ClosedToAppends unless it is a repeat; LastIdMismatch;
    StreamExists if it is to be new; StreamsChanged if an attribute is not as expected;
    IdNotGreater, IdsExhausted, IdempotencyMismatch, Invalid, LimitReached.
    """

    stream: bytes
    drafts: Sequence[Draft]
    idempotent: Idempotent | None = None
    create_stream: bool = True
    expected_last_id: EntryId | None = None
    trim: TrimTo | None = None
    attributes: AttributeChange | None = None
    is_new: bool = False  # the stream must not exist

    @property
    def is_plain(self) -> bool:
        asked = self.idempotent, self.expected_last_id, self.trim, self.attributes, self.is_new
        return asked == _NOTHING_ASKED  # in one step, as every append is asked twice


_NOTHING_ASKED = (None, None, None, None, False)


class Range(Request[list[Entry]], frozen=True):
    """Return up to `limit` entries from `start` to `end`, both inclusive (XRANGE, XREVRANGE).

    Ids descend with `reverse`. Names and values have at most `size_bytes_max` bytes together, but
    the first entry is always returned. With `whole`, raises ReplyTooLarge if the entries do not fit
    into `size_bytes_max` and `entries_max`; without it, the reply is cut. StreamNotFound.
    """

    stream: bytes
    start: EntryId = MIN_ID
    end: EntryId = MAX_ID
    limit: int | None = None
    size_bytes_max: int | None = None
    reverse: bool = False
    whole: bool = False
    entries_max: int | None = None
    archived: bool = False  # what is archived as well, not with `whole`


class RangePacked(Request[PackedPage], frozen=True):
    """Return up to `limit` entries from `start` to `end`, both inclusive, as chunks keep them.

    Who reads many entries unpacks them elsewhere than where requests are carried out. Unpacked,
    they take up to `size_bytes_max`, but the first chunk is always returned. The reply may have
    fewer than the bounds allow, or none: it says up to which id it goes. StreamNotFound.
    """

    stream: bytes
    start: EntryId
    end: EntryId
    limit: int
    size_bytes_max: int
    archived: bool = False  # what is archived as well


class RangeMatching(Request[MatchingPage], frozen=True):
    """Return up to `limit` entries from `start` to `end` for which a filter holds.

    Only the first entries of the range (from `end` down with `reverse`) are looked at: the reply
    says up to which id, and may have no entry at all. StreamNotFound, Invalid.
    """

    stream: bytes
    filters: str  # as JSON
    start: EntryId = MIN_ID
    end: EntryId = MAX_ID
    limit: int | None = None
    size_bytes_max: int | None = None
    reverse: bool = False
    archived: bool = False  # what is archived as well


class FindTimes(Request[dict[EntryId, EntryTimes]], frozen=True):
    """Return the times of those entries that have some (unix times). StreamNotFound."""

    stream: bytes
    ids: Sequence[EntryId]


class From(Enum):
    """Cursors that are not ids."""

    NOW = "$"  # after the last id at the time of the call
    LAST = "+"  # the last entry


class StreamCursor(NamedTuple):
    stream: bytes
    after: EntryId | From


class Budget(NamedTuple):
    """What the streams of a read may take, in order; the first entry is always returned."""

    entries_max: int
    size_bytes_max: int  # names and values
    reply_bytes_max: int | None = None  # as RESP2 writes the entries (MAXSIZE); None: not counted


class RowKeys(NamedTuple):
    """Keys of a table: one, or all that begin with a text."""

    text: bytes
    is_prefix: bool = True


class Read(Request[list[StreamRead]], frozen=True):
    """Return the entries of each stream after its cursor (XREAD): one `StreamRead` per cursor.

    `limit` is for each stream. `size_bytes_max` is for all streams, and each has a share of it. The
    first entry is always returned, and more entries while bytes are left. With a `budget`, the
    streams are read in order until the budget is used up; the streams after that are not in the
    reply.

    If no stream has entries, the request waits up to `wait_ms`: 0 means no wait, None means without
    limit. Every blocked reader gets every new entry. Where all streams are closed there is nothing
    to wait for. With `missing_ok` it waits even then, as Redis does: a stream of that name may
    begin anew.

    With `filters` only entries come for which the filter holds, and `next_after` is behind what was
    looked at. Without a wait only the first entries behind each cursor are looked at: there may be
    more where `next_after` is below the `last_id` of the stream. A wait goes on until an entry
    comes, or until it can be told that entries were trimmed. There is no budget then. With `keys`
    instead of `filters`, only entries come that have one of these keys.

    StreamNotFound, also if one is deleted during the wait, unless `missing_ok`; TooManyWaiters,
    Invalid; with `keys` NotATable.
    """

    cursors: Sequence[StreamCursor]
    limit: int | None = None
    size_bytes_max: int | None = None
    wait_ms: int | None = 0
    missing_ok: bool = False
    budget: Budget | None = None
    filters: str | None = None  # as JSON; None: all entries
    archived: bool = False  # what is archived as well, without a budget
    keys: RowKeys | None = None  # of the streams' tables; None: all entries

    @property
    def is_filtered(self) -> bool:
        return self.filters is not None or self.keys is not None

    def is_answered_by(self, reads: Sequence[StreamRead]) -> bool:
        """Tell whether nobody need wait for more than these reads have."""
        return any(read.entries for read in reads) or (
            not self.missing_ok and all(read.closed_at_ms is not None for read in reads)
        )


class Delete(Request[list[Deletion]], frozen=True):
    """Delete entries (XDEL, XDELEX); the reply has one outcome per id. StreamNotFound.

    An id given twice is found only once. Archived entries go as well, but only with `archived` the
    reply says so: for Redis commands they had gone before.
    """

    stream: bytes
    ids: Sequence[EntryId]
    references: References = References.KEEP
    archived: bool = False


class TrimArchive(Request[int], frozen=True):
    """Remove archived entries below an id; the reply is how many. StreamNotFound."""

    stream: bytes
    before: EntryId | None = None  # None: all of them


class Trim(Request[int], frozen=True):
    """Remove the oldest entries (XTRIM); the reply is how many. StreamNotFound, Invalid."""

    stream: bytes
    to: TrimTo


class Span(NamedTuple):
    """A range of entries of one stream, both ends inclusive."""

    stream: bytes
    start: EntryId = MIN_ID
    end: EntryId = MAX_ID


class OpenRanges(Request[list[OpenedRange]], frozen=True):
    """Keep ranges of entries as they are now, and return the first page of each.

    Later appends, deletes and trims change nothing of them. A range with more than its first page
    is open until its last page is read, or until `CloseRange`. LimitExceeded if too many are open;
    StreamNotFound unless `missing_ok`.
    """

    spans: Sequence[Span]
    reverse: bool = False
    limit: int | None = None  # of each
    missing_ok: bool = False


class ReadOn(Request[list[Entry]], frozen=True):
    """Return the next page of an open range; the last page closes it. RangeClosed."""

    stream: bytes
    number: int


class CloseRange(Request[None], frozen=True):
    stream: bytes
    number: int


class CountByTime(Request[Histogram], frozen=True):
    """Count the entries from `start` to `end`, both inclusive, by the time in their ids.

    The range is divided into at most `buckets_max` buckets of equal duration. `MIN_ID` means from
    the first entry on, `MAX_ID` up to the last id. Other requests run meanwhile, so an entry
    removed in the course of it may be counted or not. StreamNotFound; Invalid if there are too many
    entries.
    """

    stream: bytes
    start: EntryId = MIN_ID
    end: EntryId = MAX_ID
    buckets_max: int = 60


class TimeBucket(NamedTuple):
    """The ids of one bucket: above `after`, up to and including `through`."""

    after: EntryId
    through: EntryId


class TimeBuckets(NamedTuple):
    start: EntryId
    end: EntryId
    bucket_ms: int

    @classmethod
    def of(cls, request: CountByTime, first_id: EntryId | None, last_id: EntryId) -> TimeBuckets:
        """Divide the range of a request; `first_id` is None if the stream is empty."""
        open_start = last_id.next() if first_id is None else first_id
        start = open_start if request.start == MIN_ID else request.start
        end = last_id if request.end == MAX_ID else request.end
        duration_ms = max(end.ms - start.ms + 1, 1)
        return cls(start, end, -(-duration_ms // request.buckets_max))

    def ranges(self) -> Iterator[TimeBucket]:
        after = self.start.previous()
        while after < self.end:
            number = (after.next().ms - self.start.ms) // self.bucket_ms
            last_ms = min(self.start.ms + (number + 1) * self.bucket_ms - 1, U64_MAX)
            through = min(EntryId(last_ms, U64_MAX), self.end)
            yield TimeBucket(after, through)
            after = through

    def counted(self, counts: list[int]) -> Histogram:
        return Histogram(self.start.ms, self.end.ms, self.bucket_ms, counts)


class ReadPattern(Request[PatternRead], frozen=True):
    """Return entries of all streams whose names match a glob of Redis, behind a cursor.

    Streams that are made later are among them, from their beginning. Without a cursor reading
    begins now. If nothing is there, the request waits up to `wait_ms`: 0 means no wait, None means
    without limit. `only` says which streams may be read; None: all. With `filters` only entries
    come for which the filter holds. TooManyWaiters, Invalid.

    The next request has the cursor of the reply before it. The order of entries holds within each
    stream. An entry comes once as long as requests follow each other. Behind a cursor that was kept
    for longer an entry may come again; `engine/loop/pattern_notes.py` says which.
    """

    pattern: bytes
    after: PatternCursor | None = None
    limit: int = 1_000
    size_bytes_max: int = 2**20
    wait_ms: int | None = 0
    only: NameFilter | None = None
    filters: str | None = None  # as JSON; None: all entries
