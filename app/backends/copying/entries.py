"""Entries: copied with their ids, and then the counters of their stream.

Some ids have to be in the copy without an entry: those of pending entries whose stream entry is
gone, and the last one that a trim removed. No request makes such an id by itself. So a placeholder
is appended in its place, and removed when the groups have been copied:

1. `copy_entries` appends entries and placeholders in order of their ids.
2. The groups are copied. Pending entries can be made for placeholders as for entries.
3. `settle_entries` trims the placeholders that stand for trimmed entries, deletes the others, and
   sets the counters.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Sequence

from headgate.app.backends.copying.contents import (
    PAGE,
    PLACEHOLDER,
    EntryPage,
    StreamStore,
    ahead,
    pages_of,
    trimmed_id,
)
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.replies import StreamInfo
from headgate.engine.requests.entries import Add, Delete, Trim, TrimTo
from headgate.engine.requests.keyspace import SetCounters
from headgate.engine.requests.streams import DescribeStream

_REMEMBERED_MAX = 100_000
"""Placeholders that are remembered until they are removed. Each one takes about 100 bytes."""


async def copy_entries(
    source: StreamStore,
    target: StreamStore,
    info: StreamInfo,
    after: EntryId,
    on_copied: Callable[[int], None],
) -> Sequence[EntryId] | None:
    """Append the entries above `after` to the copy, with their ids.

    Return the ids of all placeholders of the copy; None if there are too many to remember, or an
    earlier run has appended a part of them.

    Args:
        source: has the stream.
        target: has the copy, whose last id is `after`.
        info: of the stream.
        after: what the copy has already.
        on_copied: called with the number of entries that were appended.

    Raises:
        LastIdMismatch: somebody else has appended to the copy.
    """
    absent: list[EntryId] | None = [] if after == MIN_ID else None
    async for page in ahead(pages_of(source, info, after)):
        if absent is not None:
            absent.extend(page.absent)
            absent = absent if len(absent) <= _REMEMBERED_MAX else None
        drafts = _drafts(page)
        if drafts:
            added = await target.perform(
                Add(info.name, drafts, create_stream=False, expected_last_id=after)
            )
            after = added.ids[-1]
        on_copied(len(page.entries))
    return absent


def _drafts(page: EntryPage) -> Sequence[Draft]:
    """Return the entries of a page, with placeholders between them, in order of ids."""
    drafts = [
        Draft(entry_id, fields, page.times[entry_id].timing if entry_id in page.times else None)
        for entry_id, fields in page.entries
    ]
    if not page.absent:
        return drafts
    placeholders = {entry_id: Draft(entry_id, PLACEHOLDER) for entry_id in page.absent}
    by_id = {entry.id: draft for entry, draft in zip(page.entries, drafts, strict=True)}
    return [draft for _, draft in sorted((placeholders | by_id).items())]


async def settle_entries(
    source: StreamStore, target: StreamStore, info: StreamInfo, absent: Sequence[EntryId] | None
) -> None:
    """Remove the placeholders of a copy, and set its counters.

    Args:
        source: has the stream.
        target: has the copy.
        info: of the stream.
        absent: the ids of the placeholders; None if they have to be looked up.

    Raises:
        CounterTooLow: the counters contradict each other.
    """
    copied = await target.perform(DescribeStream(info.name))
    if copied.length != info.length:
        kept_from = _kept_from(info)
        await target.perform(Trim(info.name, TrimTo(min_id=kept_from)))
        async for ids in _absent_ids(source, info, absent, kept_from):
            await target.perform(Delete(info.name, ids))
    counters = info.last_id, info.entries_added, info.max_deleted_id
    await target.perform(SetCounters(info.name, *counters))


async def _absent_ids(
    source: StreamStore, info: StreamInfo, absent: Sequence[EntryId] | None, start: EntryId
) -> AsyncIterator[Sequence[EntryId]]:
    """Yield the ids of placeholders from `start` on, in pages."""
    if absent is None:
        async for page in ahead(pages_of(source, info, start.previous())):
            if page.absent:
                yield page.absent
    else:
        kept = absent[bisect_left(absent, start) :]
        for begin in range(0, len(kept), PAGE):
            yield kept[begin : begin + PAGE]


def _kept_from(info: StreamInfo) -> EntryId:
    """Return the id below which a trim removed everything.

    What is gone above it was deleted. If nothing was ever deleted, everything was trimmed.
    """
    if info.max_deleted_id == MIN_ID:
        return info.first_id if info.length else info.last_id.next()
    trimmed = trimmed_id(info)
    return MIN_ID if trimmed is None else trimmed.next()
