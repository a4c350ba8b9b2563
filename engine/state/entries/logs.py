"""Logs: the archive and the log of a stream, read as one.

What is archived lies below what is alive, but for entries that a trim has spared. So the reads of
both are merged by id, and each of them goes no further than the other.
"""

from __future__ import annotations

from heapq import merge
from operator import itemgetter

from headgate.engine.entry import MIN_ID, Entry, EntryId
from headgate.engine.limits import RANGE_REPACKED_MAX
from headgate.engine.packing import encode_entries
from headgate.engine.replies import PackedEntries
from headgate.engine.room import ReadRoom
from headgate.engine.state.entries.batch import Batch
from headgate.engine.state.entries.log import Log

_id_of = itemgetter(0)


class Logs:
    __slots__ = ("_archive", "_live")

    def __init__(self, archive: Log, live: Log) -> None:
        self._archive, self._live = archive, live

    @property
    def length(self) -> int:
        return self._archive.length + self._live.length

    @property
    def last_id(self) -> EntryId:
        return max(self._archive.last_id, self._live.last_id)

    def range(
        self, start: EntryId, end: EntryId, limit: int | None = None, room: ReadRoom | None = None
    ) -> list[Entry]:
        room, end_of_archive = room or ReadRoom(None), min(end, self._archive.last_id)
        if end_of_archive < start:
            return self._live.range(start, end, limit, room)
        archived = self._archive.range(start, end_of_archive, limit, room.share(1))
        if archived and archived[-1].id < end_of_archive:  # it is full, or this tells nothing
            end = archived[-1].id
        return _merged(archived, self._live.range(start, end, limit, room.share(1)), limit, room)

    def reverse_range(
        self, end: EntryId, start: EntryId, limit: int | None = None, room: ReadRoom | None = None
    ) -> list[Entry]:
        room = room or ReadRoom(None)
        start_of_live = max(start, self._live.first_id)
        if not self._live.length or end < start_of_live:
            return self._archive.reverse_range(end, start, limit, room)
        live = self._live.reverse_range(end, start_of_live, limit, room.share(1))
        if live and live[-1].id > start_of_live:
            start = live[-1].id
        archived = self._archive.reverse_range(end, start, limit, room.share(1))
        return _merged(live, archived, limit, room, reverse=True)

    def packed_range(
        self, start: EntryId, end: EntryId, limit: int, size_bytes_max: int
    ) -> tuple[list[PackedEntries], EntryId]:
        first_live_id, last_archived_id = self._live.first_id, self._archive.last_id
        if start > last_archived_id:
            return self._live.packed_range(start, end, limit, size_bytes_max)
        if not self._live.length or start < first_live_id:
            through = end if not self._live.length else min(end, first_live_id.previous())
            return self._archive.packed_range(start, through, limit, size_bytes_max)
        through = min(end, last_archived_id)
        entries_max = min(limit, RANGE_REPACKED_MAX)
        entries = self.range(start, through, entries_max, ReadRoom(size_bytes_max))
        if not entries:
            return [], through
        runs = [PackedEntries(len(entries), encode_entries(entries), None)]
        return runs, max(start, entries[-1].id, MIN_ID)


def _merged(
    nearer: list[Entry],
    others: list[Entry],
    limit: int | None,
    room: ReadRoom,
    *,
    reverse: bool = False,
) -> list[Entry]:
    if nearer and others:
        nearer = list(merge(nearer, others, key=_id_of, reverse=reverse))
    batch = Batch(limit, room)
    batch.take(nearer or others)
    return batch.entries
