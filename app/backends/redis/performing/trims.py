"""Trims: by request, and by the retention of a stream."""

from __future__ import annotations

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import Fault
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function, not_supported
from headgate.engine.entry import MIN_ID
from headgate.engine.limits import CHUNK_ENTRIES_MAX, TRIM_CHUNKS_DEFAULT, TRIM_ENTRIES_MAX
from headgate.engine.requests.entries import Trim, TrimArchive, TrimTo, check_trim


def bounded(to: TrimTo) -> TrimTo:
    """Return a trim with the number of entries that it may remove; None is without limit."""
    if not to.approximate:
        return to._replace(limit=None)
    limit = TRIM_CHUNKS_DEFAULT * CHUNK_ENTRIES_MAX if to.limit is None else to.limit
    return to._replace(limit=min(limit, TRIM_ENTRIES_MAX) or None)


async def trim(client: Client, request: Trim) -> int:
    """Remove the oldest entries (XTRIM). A long trim is done in parts."""
    check_trim(request.to)
    to = bounded(request.to)
    removed, after = 0, b"%d-%d" % MIN_ID
    while after:
        try:
            count, after = await client.perform(
                Effect.FREE, request, to=to, removed=removed, after=after
            )
        except Fault as fault:
            if removed and fault.name == "StreamNotFound":  # it was deleted meanwhile
                break
            raise
        removed += count
    return removed


async def retain(client: Client, stream: bytes) -> None:
    """Trim a stream by its retention.

    Raises:
        Fault: the stream does not exist.
    """
    while await client.call(Effect.FREE, "retain", stream):
        pass


PERFORMERS: Performers = {Trim: by_function(trim), TrimArchive: not_supported("archives")}
