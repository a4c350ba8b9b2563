"""Patterns: all streams whose names match a glob are followed together."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from headgate.engine.entry import EntryId
from headgate.engine.replies import StreamRead
from headgate.engine.requests import Request
from headgate.engine.requests.names import NameFilter


class Moment(NamedTuple):
    """A moment of the engine. `engine/loop/patterns/moments.py` says where streams were then."""

    run: int  # of the engine's life; the number has a meaning in it alone
    number: int  # later moments of a run have greater ones
    at_ms: int  # wall time, which never goes back within a run
    clock_set_ms: int  # by how much the clock had been set
    epoch: int  # the greatest of all streams that had been made


class PatternCursor(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """A place in all streams that match a pattern. Its size does not depend on their number.

    Reading goes in rounds, from one moment to the next. A round reads each stream from where it was
    at the first moment to where it was at the second, in order of names. So a place within a round
    is a name. An initial cursor has no moment: every stream is read behind `start`.
    """

    start: EntryId | None = None
    done: Moment | None = None  # everything up to here was read
    doing: Moment | None = None  # and up to here, of the streams before `stream`
    stream: bytes = b""
    at: EntryId | None = None  # `stream` itself was read up to here
    ahead: tuple[tuple[int, EntryId], ...] = ()  # streams, as digests, read beyond these moments
    follower: int = 0  # who read last: it may still know more than stands here


class PatternRead(NamedTuple):
    """Entries of streams that match a pattern."""

    reads: list[StreamRead]  # with entries, or a gap
    next_after: PatternCursor
    is_at_end: bool  # everything was read that there is


class ReadPattern(Request[PatternRead], frozen=True):
    """Return entries of all streams whose names match a glob of Redis, behind a cursor.

    Streams that are made later are among them, from their beginning. Without a cursor reading
    begins now. If nothing is there, the request waits up to `wait_ms`: 0 means no wait, None means
    without limit. `only` says which streams may be read; None: all. With `filters` only entries
    come for which the filter holds.

    The next request has the cursor of the reply before it. The order of entries holds within each
    stream. An entry comes once as long as requests follow each other. Behind a cursor that was kept
    for longer an entry may come again; `engine/loop/patterns/moments.py` says which.

    Raises:
        TooManyWaiters: too many reads are already blocked.
        Invalid: `pattern` is too long, or `filters` is no filter.
    """

    pattern: bytes
    after: PatternCursor | None = None
    limit: int = 1_000
    size_bytes_max: int = 2**20
    wait_ms: int | None = 0
    only: NameFilter | None = None
    filters: str | None = None  # as JSON; None: all entries
