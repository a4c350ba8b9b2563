"""Filling: a copy that is marked gets what it lacks; nothing of it acts yet."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from headgate.app.backends.copying.contents import MARK, StreamStore
from headgate.app.backends.copying.entries import copy_entries, settle_entries
from headgate.app.backends.copying.groups import copy_groups, place_groups
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.errors import Conflict, StreamNotFound
from headgate.engine.replies import StreamInfo
from headgate.engine.requests.groups import CreateGroup, DestroyGroup, GroupStart
from headgate.engine.requests.keyspace import ExpireStream, GetExpiry
from headgate.engine.requests.streams import DescribeStream


class SourceChanged(Conflict):
    """Something has used a stream while it was copied."""

    def __init__(self) -> None:
        super().__init__("it has changed meanwhile")


async def mark(target: StreamStore, stream: bytes) -> None:
    """Mark a copy as not complete; it is created unless it exists."""
    await target.perform(CreateGroup(stream, MARK, GroupStart(MIN_ID), create_stream=True))


async def fill(
    source: StreamStore,
    target: StreamStore,
    info: StreamInfo,
    after: EntryId,
    on_copied: Callable[[int], None],
) -> None:
    """Add to a copy all entries above `after`, and make its groups anew.

    Args:
        source: has the stream.
        target: has the copy, whose last id is `after`.
        info: of the stream.
        after: what the copy has already.
        on_copied: called with the number of entries that were appended.

    Raises:
        SourceChanged: the stream is not as `info` says any more. A later run goes on with the copy.
    """
    absent = await copy_entries(source, target, info, after, on_copied)
    await copy_groups(source, target, info.name)
    # Without its placeholders, a copy cannot get the pending entries of another run.
    if await source.perform(DescribeStream(info.name)) != info:
        raise SourceChanged
    await settle_entries(source, target, info, absent)
    await place_groups(source, target, info.name)


async def unmark(source: StreamStore, target: StreamStore, stream: bytes) -> None:
    """Give a copy its expiry, and take its mark away: it is complete.

    If its time is over meanwhile, it goes.
    """
    at_ms = await source.perform(GetExpiry(stream))
    if at_ms is not None:
        await target.perform(ExpireStream(stream, 0, at_ms=at_ms))
    with suppress(StreamNotFound):
        await target.perform(DestroyGroup(stream, MARK))
