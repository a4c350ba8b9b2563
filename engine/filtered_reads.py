"""Filtered reads: a read with a filter goes on until an entry matches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from headgate.engine.replies import StreamRead
from headgate.engine.requests.entries import Read, StreamCursor
from headgate.engine.threads import this_turn

# Matching: a read with a filter that goes on until an entry comes for which the filter holds.
#
# Each backend looks at a part of a stream in its own way, and waits in its own way. Here stands
# what is common: what was looked at is not looked at again, and others have their turn in between.

Look = Callable[[Read], Awaitable[list[StreamRead]]]
"""Looks at the next part behind each cursor."""

Wait = Callable[[Read, int | None], Awaitable[list[StreamRead] | None]]
"""Waits for so many milliseconds until there is something behind a cursor that may match, and looks
at it; None: there is not, or it is not known how far that was looked at."""


async def read_matching(request: Read, look: Look, wait: Wait) -> list[StreamRead]:
    """Read after each cursor until something matches, or the time of the request is over."""
    reads = await look(replace(request, wait_ms=0))
    if request.wait_ms == 0 or has_news(reads):
        return reads
    last_reads = await _read_on(request, reads, look, wait)
    return [last._replace(after=first.after) for first, last in zip(reads, last_reads, strict=True)]


async def _read_on(
    request: Read, reads: list[StreamRead], look: Look, wait: Wait
) -> list[StreamRead]:
    loop, wait_ms = asyncio.get_running_loop(), request.wait_ms
    over_s = None if wait_ms is None else loop.time() + wait_ms / 1000
    request = replace(request, wait_ms=0)
    while not has_news(reads):
        left_ms = None if over_s is None else round((over_s - loop.time()) * 1000)
        if left_ms is not None and left_ms <= 0:
            return reads
        request = behind(request, reads)
        waited = await wait(request, left_ms) if are_at_end(reads) else None
        if waited is None:
            await this_turn().end()
            reads = await look(request)
        else:
            reads = waited
    return reads


def has_news(reads: Sequence[StreamRead]) -> bool:
    """Tell whether there is something to be told to who reads."""
    return any(read.entries or read.gap is not None for read in reads)


def are_at_end(reads: Sequence[StreamRead]) -> bool:
    """Tell whether everything was looked at that there is."""
    return all(read.next_after >= read.last_id for read in reads)


def behind(request: Read, reads: Sequence[StreamRead]) -> Read:
    """Return a read that goes on from where others have come to."""
    return replace(
        request, cursors=tuple(StreamCursor(read.stream, read.next_after) for read in reads)
    )
