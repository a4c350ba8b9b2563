"""Compaction of a table's stream (`retain: latest`): superseded entries go, part by part.

A pass looks at the entries that there are when it begins, in order of their ids. What comes
meanwhile may be the tombstone of a row that it has passed, and is for the next pass. It only
evicts, as a trim that spares others does: so ids stay, and readers who were behind are told of the
gap.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.engine.commands import Command, EntriesEvicted
from headgate.engine.config import StreamConfig
from headgate.engine.decisions import Decision
from headgate.engine.decisions.trims import removed_at_once
from headgate.engine.entry import EntryId
from headgate.engine.limits import (
    COMPACT_AFTER_MS,
    COMPACT_PAUSE_MS,
    LONG_COMPACT_PAUSE_MS,
    PASSED_BYTES_MAX,
    ROWS_AT_ONCE_MAX,
    TOMBSTONE_MS,
)
from headgate.engine.requests.entries import References
from headgate.engine.room import ReadRoom
from headgate.engine.state.stream import Stream
from headgate.engine.state.table import Compaction, RowChange, StreamTable

_FEW_SEEN = 10_000
"""A pass over so few entries is always worth it."""


def is_due(stream: Stream, table: StreamTable, now_ms: int) -> bool:
    """Tell whether there may be superseded entries, and a pass is under way or may begin."""
    has_some = stream.config.retain and stream.log.length > len(table.rows)
    return has_some and not stream.is_behind(table) and table.compaction.not_before_ms <= now_ms


def compacted(stream: Stream, table: StreamTable, now_ms: int) -> Decision[Compaction]:
    """Decide to evict what is superseded of the next entries; reply how far the pass is then."""
    config, compaction = stream.config, table.compaction
    at_once = min(ROWS_AT_ONCE_MAX, removed_at_once(stream, References.ACKED))
    through = compaction.through if compaction.seen else table.through
    end = min(_before(_end_ms(config, now_ms)), through)
    room = ReadRoom(PASSED_BYTES_MAX)
    entries = stream.log.range(compaction.after.next(), end, at_once, room)
    if not entries:
        return Decision(_rested(compaction, now_ms), [])
    superseded, hidden, tombstones = [], [], []
    tombstones_end = _before(now_ms - _or(config.tombstone_ms, TOMBSTONE_MS))
    for change in table.changes_of(entries):
        newest = table.rows.find(change.key)
        if newest is not None:
            superseded += [change] if change.id < newest else []
        elif not change.is_removed:
            hidden.append(change)
        elif change.id <= tombstones_end:
            tombstones.append(change)
    free = _free(stream, table, superseded)
    free_hidden = _free(stream, table, hidden)
    keeps_tombstones = compaction.keeps_tombstones or len(free_hidden) < len(hidden)
    free |= free_hidden
    if not keeps_tombstones:
        free |= _free(stream, table, tombstones)
    commands: list[Command] = [EntriesEvicted(stream.name, sorted(free))] if free else []
    seen, removed = compaction.seen + len(entries), compaction.removed + len(free)
    return Decision(Compaction(through, entries[-1].id, keeps_tombstones, seen, removed), commands)


def _rested(compaction: Compaction, now_ms: int) -> Compaction:
    """Return the beginning of the next pass. It comes soon if the last one was worth it."""
    is_worth_it = compaction.removed * 10 >= compaction.seen or compaction.seen <= _FEW_SEEN
    pause_ms = COMPACT_PAUSE_MS if is_worth_it else LONG_COMPACT_PAUSE_MS
    return Compaction(not_before_ms=now_ms + pause_ms)


def _free(stream: Stream, table: StreamTable, changes: Sequence[RowChange]) -> set[EntryId]:
    """Return those that no group has to read or settle, and that nobody's walk shows."""
    if not changes:
        return set()
    shown = set() if table.past is None else table.past.former_ids({each.key for each in changes})
    ids = [each.id for each in changes if each.id not in shown]
    return stream.unreferenced(ids, with_unread=not stream.config.compact_unread)


def _end_ms(config: StreamConfig, now_ms: int) -> int:
    end_ms = now_ms - _or(config.compact_after_ms, COMPACT_AFTER_MS)
    return end_ms if config.archived_until_ms is None else min(end_ms, config.archived_until_ms)


def _before(end_ms: int) -> EntryId:
    return EntryId(max(end_ms, 0), 0).previous()


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
