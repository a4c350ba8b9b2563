"""Entries: append, read, delete, trim."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, StrEnum
from typing import NamedTuple

from headgate.engine.entry import MAX_ID, MIN_ID, Draft, Entry, EntryId
from headgate.engine.replies import Added, Deletion, StreamRead
from headgate.engine.requests import Request
from headgate.engine.requests.idempotency import Idempotent


class References(StrEnum):
    """What becomes of pending entries whose stream entry goes."""

    KEEP = "keep"  # they stay pending, and dangle
    DELETE = "delete"  # they leave every group's pending entries
    ACKED = "acked"  # an entry that a group still needs does not go


class TrimTo(NamedTuple):
    """What a trim keeps: the newest `max_length` entries, or ids from `min_id` on. One of them."""

    max_length: int | None = None
    min_id: EntryId | None = None
    approximate: bool = False  # only whole chunks: cheaper, and keeps a little more
    limit: int | None = None  # of an approximate trim: entries at most; None: 100 chunks, 0: all
    references: References = References.KEEP


class Add(Request[Added], frozen=True):
    """Append entries in order, all or none, then trim (XADD).

    With `idempotent`, a repeat under the same key changes nothing: its reply has the ids of the
    first one, whatever became of the entries. A key protects for the stream's idempotency window,
    and the drafts leave their ids to the stream.

    Raises:
        StreamNotFound: there is none and `create_stream` is false.
        LastIdMismatch: the last id is not `expected_last_id`.
        IdNotGreater: an explicit id is not above the one before it.
        IdsExhausted: there is no greater id.
        IdempotencyMismatch: the key was used for another request.
        Invalid: an entry has no fields or is too large, or `trim` contradicts itself.
        LimitReached: the stream, or the key's producer, would be one too many.
    """

    stream: bytes
    drafts: Sequence[Draft]
    idempotent: Idempotent | None = None
    create_stream: bool = True
    expected_last_id: EntryId | None = None
    trim: TrimTo | None = None


class Range(Request[list[Entry]], frozen=True):
    """Return up to `limit` entries from `start` to `end`, both inclusive (XRANGE, XREVRANGE).

    The lowest id comes first, or with `reverse` the highest. Names and values add up to
    `size_bytes_max` at most, but the first entry always comes. With `whole`, entries that do not
    fit into `size_bytes_max` and `entries_max` are refused, not cut.

    Raises:
        StreamNotFound: there is none.
        ReplyTooLarge: there is more than the bounds allow, and `whole` is true.
    """

    stream: bytes
    start: EntryId = MIN_ID
    end: EntryId = MAX_ID
    limit: int | None = None
    size_bytes_max: int | None = None
    reverse: bool = False
    whole: bool = False
    entries_max: int | None = None


class From(Enum):
    """Cursors that are no ids."""

    NOW = "$"  # after the last id at the time of the call
    LAST = "+"  # the last entry


class StreamCursor(NamedTuple):
    """One stream of a read, and the id to read after."""

    stream: bytes
    after: EntryId | From


class Budget(NamedTuple):
    """What all streams of a read may give together: the first of them gives first.

    The first entry always comes. What does not fit is read by the next request.
    """

    entries_max: int
    size_bytes_max: int  # names and values
    reply_bytes_max: int | None = None  # as RESP2 writes the entries (MAXSIZE); None: not counted


class Read(Request[list[StreamRead]], frozen=True):
    """Return what each stream has after its cursor (XREAD): one `StreamRead` each, empty or not.

    `limit` is for each stream, `size_bytes_max` for all: each has its share. The first entry always
    comes, and others while something is left. With a `budget` the streams are filled in order, and
    the reply ends with the last one that has its turn.

    If no stream has anything, wait for it: up to `wait_ms`, 0 not at all, None without end. Every
    waiting reader gets every entry.

    Raises:
        StreamNotFound: a stream is missing, now or during the wait, and `missing_ok` is false.
        TooManyWaiters: too many reads are blocked already.
    """

    cursors: Sequence[StreamCursor]
    limit: int | None = None
    size_bytes_max: int | None = None
    wait_ms: int | None = 0
    missing_ok: bool = False
    budget: Budget | None = None


class Delete(Request[list[Deletion]], frozen=True):
    """Delete entries (XDEL, XDELEX); replies per id what became of it.

    An id named twice is there the first time only.

    Raises:
        StreamNotFound: there is no stream.
    """

    stream: bytes
    ids: Sequence[EntryId]
    references: References = References.KEEP


class Trim(Request[int], frozen=True):
    """Remove the oldest entries (XTRIM); replies how many went.

    Raises:
        StreamNotFound: there is no stream.
        Invalid: `to` contradicts itself.
    """

    stream: bytes
    to: TrimTo
