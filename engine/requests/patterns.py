"""Patterns: all streams whose names match a glob are followed together."""

from __future__ import annotations

from headgate.engine.patterns.cursor import PatternCursor
from headgate.engine.replies import PatternRead
from headgate.engine.requests import Request
from headgate.engine.requests.names import NameFilter


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
