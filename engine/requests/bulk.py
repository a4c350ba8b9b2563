"""Bulk: requests of readers and writers that process whole streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headgate.engine.entry import Draft, EntryId
from headgate.engine.replies import Commit, Committed, Portion, Split
from headgate.engine.requests import Request
from headgate.engine.requests.entries import From


class BulkCursor(NamedTuple):
    """A bulk reader's place in a stream; `epoch` tells apart streams of one name; None: any."""

    stream: bytes
    after: EntryId | From
    epoch: int | None = None


class PlanRead(Request[list[Portion]], frozen=True):
    """Plan the next read of each stream: one `Portion` per cursor, in order.

    `entries_max` bounds all streams together, in proportion to what each has; every stream with
    entries gets at least one, if it suffices. If no stream has any, the request waits up to
    `wait_ms` for the first. A missing stream has no entries, and may be created during the wait; so
    may one that is closed, in a later life. A stream of another epoch than its cursor's is read
    from its beginning. TooManyWaiters.
    """

    cursors: Sequence[BulkCursor]
    entries_max: int | None = None
    wait_ms: int = 0


class SplitRange(Request[list[Split]], frozen=True):
    """Cut a range, above `after` and up to `through`, into at most `parts` parts of equal count.

    The counts differ by one at most, unless the stream is trimmed meanwhile. A range without
    entries has no parts. StreamNotFound.
    """

    stream: bytes
    after: EntryId
    through: EntryId
    parts: int


class CommitBatch(Request[Committed], frozen=True):
    """Append a writer's entries to several streams, all or none, and remember the batch.

    A batch is appended only once: if the writer has already committed this batch or a later one,
    nothing changes. A writer is remembered for 90 days after its last commit. At most 10,000
    writers are remembered, those that committed last.

    StreamNotFound without `create_streams`, IdNotGreater (names the stream), IdsExhausted, Invalid,
    LimitReached.
    """

    writer: bytes
    batch: int
    drafts: Mapping[bytes, Sequence[Draft]]
    create_streams: bool = True


class LastCommit(Request[Commit | None], frozen=True):
    """Return the last commit of a writer, or None if the writer is not known."""

    writer: bytes
