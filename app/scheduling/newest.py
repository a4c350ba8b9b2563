"""Newest: appends to the gateway's own streams, which keep their newest entries only."""

from __future__ import annotations

from headgate.app.scheduling.runner import Perform
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import IdsExhausted
from headgate.engine.requests.entries import Add, Trim, TrimTo
from headgate.engine.requests.keyspace import SetCounters


async def append_newest(perform: Perform, append: Add) -> None:
    """Append entries, also where the greatest id is taken.

    Ids come from the clock, so that one was made by hand, by a client of a Redis server or of an
    earlier version. The entries are news that others have read, or not: the ids begin again.

    Raises:
        StreamNotFound: the stream does not exist, and is not to be made.
        StreamsChanged: an attribute is not as the append expects it.
    """
    try:
        await perform(append)
    except IdsExhausted:
        await perform(Trim(append.stream, TrimTo(max_length=0)))
        await perform(SetCounters(append.stream, MIN_ID))
        await perform(append)
