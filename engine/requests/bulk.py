"""Bulk: for readers and writers that take a stream as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headgate.engine.entry import Draft, EntryId
from headgate.engine.replies import Commit, Committed, Portion, Split
from headgate.engine.requests import Request
from headgate.engine.requests.entries import From


class BulkCursor(NamedTuple):
    """How far one stream has been read, and in which life of its name (None: in any)."""

    stream: bytes
    after: EntryId | From
    epoch: int | None = None


class PlanRead(Request[list[Portion]], frozen=True):
    """Say up to where each stream is to be read next: one `Portion` per cursor, in order.

    `entries_max` bounds all streams together, and is shared in proportion to what each has; a
    stream that has anything gets at least one, if that is possible. If none has anything, wait for
    it up to `wait_ms`. A missing stream has nothing, and may come to be meanwhile. A stream of
    another epoch than its cursor's is counted from its beginning.

    Raises:
        TooManyWaiters: too many reads are blocked already.
    """

    cursors: Sequence[BulkCursor]
    entries_max: int | None = None
    wait_ms: int = 0


class SplitRange(Request[list[Split]], frozen=True):
    """Cut a range, above `after` and up to `through`, into at most `parts` by count.

    Their sizes differ by one at most, unless the stream is trimmed meanwhile. A range without
    entries has no parts.

    Raises:
        StreamNotFound: there is none, now or in the middle.
    """

    stream: bytes
    after: EntryId
    through: EntryId
    parts: int


class CommitBatch(Request[Committed], frozen=True):
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

    writer: bytes
    batch: int
    drafts: Mapping[bytes, Sequence[Draft]]
    create_streams: bool = True


class LastCommit(Request[Commit | None], frozen=True):
    """Return what a writer has committed last; None if nothing is known of it."""

    writer: bytes
