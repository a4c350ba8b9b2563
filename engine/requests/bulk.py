"""Bulk: requests of readers and writers that process whole streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headgate.engine.entry import Draft, EntryId
from headgate.engine.replies import Commit, Committed, Portion, Split
from headgate.engine.requests import Request
from headgate.engine.requests.entries import From


class BulkCursor(NamedTuple):
    """The cursor of a bulk reader in one stream.

    `epoch` tells which stream of that name it was, as a name can be used again after a delete. None
    means any.
    """

    stream: bytes
    after: EntryId | From
    epoch: int | None = None


class PlanRead(Request[list[Portion]], frozen=True):
    """Plan the next read of each stream: one `Portion` per cursor, in order.

    `entries_max` bounds all streams together. It is divided in proportion to what each stream has.
    Every stream that has entries gets at least one, if `entries_max` is large enough for that. If
    no stream has any entries, the request waits up to `wait_ms` for the first. A missing stream has
    no entries, and may be created during the wait; so may one that is closed, in a later life. If
    the epoch of a stream differs from the epoch of its cursor, the stream is read from its
    beginning.

    Raises:
        TooManyWaiters: too many reads are already blocked.
    """

    cursors: Sequence[BulkCursor]
    entries_max: int | None = None
    wait_ms: int = 0


class SplitRange(Request[list[Split]], frozen=True):
    """Cut a range, above `after` and up to `through`, into at most `parts` parts of equal count.

    The counts differ by one at most, unless the stream is trimmed meanwhile. A range without
    entries has no parts.

    Raises:
        StreamNotFound: the stream does not exist, or is deleted meanwhile.
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

    Raises:
        StreamNotFound: a stream does not exist and `create_streams` is false.
        IdNotGreater: an explicit id is not greater than the id before it. The error names the
            stream.
        IdsExhausted: a stream has no greater id left.
        Invalid: an entry has no fields or is too large, or the batch names too many streams.
        LimitReached: the streams to be created are too many.
    """

    writer: bytes
    batch: int
    drafts: Mapping[bytes, Sequence[Draft]]
    create_streams: bool = True


class LastCommit(Request[Commit | None], frozen=True):
    """Return the last commit of a writer, or None if the writer is not known."""

    writer: bytes
