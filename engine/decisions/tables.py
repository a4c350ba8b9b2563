"""Decisions about tables: read rows, put and delete them, index entries, forget trimmed rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar, cast

from headgate.engine.commands import RowsForgotten, RowsIndexed
from headgate.engine.decisions import Decision, Decisions, Step
from headgate.engine.decisions.entries import add
from headgate.engine.decisions.keys import made_before
from headgate.engine.decisions.name_ranges import following
from headgate.engine.entry import MAX_ID, Draft, EntryId, Fields, value_of
from headgate.engine.errors import Invalid, NotATable, RowChanged, TableBehind, WalkOver
from headgate.engine.filters import matcher_of
from headgate.engine.limits import (
    PASSED_BYTES_MAX,
    ROW_BLOCKS_AT_ONCE,
    ROW_KEY_BYTES_MAX,
    ROWS_AT_ONCE_MAX,
    TABLE_WALK_MS,
)
from headgate.engine.replies import Added, Row, RowRead, TablePage
from headgate.engine.requests.entries import Add
from headgate.engine.requests.tables import DeleteRow, PutRow, ReadRow, ReadTable
from headgate.engine.room import ReadRoom
from headgate.engine.state.entries.finder import Finder
from headgate.engine.state.extent import Missing
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.stream import Stream
from headgate.engine.state.table import StreamTable

T = TypeVar("T")

_INDEXED_PARTS_MAX = 20
"""Parts that a request has indexed for itself; what is more is indexed by housekeeping."""

_READ_TOGETHER_MAX = 100
"""Rows whose entries are read from the disk together."""

_FEW_GHOSTS = 1_000
"""Rows of trimmed entries are looked for once these are more, and more than half of all."""


def table_of(keyspace: Keyspace, name: bytes) -> tuple[Stream, StreamTable]:
    stream = keyspace.stream(name)
    if stream.table is None:
        raise NotATable(name)
    return stream, stream.table


def indexed(stream: Stream, table: StreamTable) -> RowsIndexed:
    """Return what takes in the next entries that a table has still to index."""
    room = ReadRoom(PASSED_BYTES_MAX)
    entries = stream.log.range(table.through.next(), MAX_ID, ROWS_AT_ONCE_MAX, room)
    changes = [(*each,) for each in table.changes_of(entries)]
    return RowsIndexed(stream.name, changes, entries[-1].id if entries else stream.log.last_id)


def then_indexed(decision: Decision[T], name: bytes, parts: int) -> Decision[T]:
    """Return a decision with further parts, which take in what a table has still to index."""
    following = decision.next_part
    if following is None:
        return decision._replace(next_part=_indexing(name, parts, decision.reply))

    def next_part(keyspace: Keyspace, now_ms: int) -> Decision[T]:
        return then_indexed(following(keyspace, now_ms), name, parts)

    return decision._replace(next_part=next_part)


def _indexing(name: bytes, parts_left: int, reply: T) -> Step[T]:
    def part(keyspace: Keyspace, _: int) -> Decision[T]:
        stream = keyspace.find(name)
        table = None if stream is None else stream.table
        if stream is None or table is None or not parts_left or not stream.is_behind(table):
            return Decision(reply, [])
        next_part = _indexing(name, parts_left - 1, reply)
        return Decision(reply, [indexed(stream, table)], next_part)

    return part


def _first_id(stream: Stream) -> EntryId:
    return stream.log.first_id if stream.log.length else MAX_ID


def forgotten(
    stream: Stream, table: StreamTable, start: bytes
) -> tuple[RowsForgotten | None, bytes | None]:
    """Return what forgets rows of trimmed entries, from a key on, and where to go on."""
    keys, following_key = table.rows.older(_first_id(stream), start, ROW_BLOCKS_AT_ONCE)
    return RowsForgotten(stream.name, keys) if keys else None, following_key


def has_ghosts(stream: Stream, table: StreamTable) -> bool:
    return len(table.rows) > 2 * stream.log.length + _FEW_GHOSTS


Decide = Callable[[Keyspace, Stream, StreamTable, Any, int], Decision[T]]


def _part(
    decide: Decide[T], request: Any, parts_left: int, keyspace: Keyspace, now_ms: int
) -> Decision[T]:
    """Decide a request about a table once everything is indexed."""
    stream, table = table_of(keyspace, request.stream)
    if not stream.is_behind(table):
        return decide(keyspace, stream, table, request, now_ms)
    if not parts_left:
        raise TableBehind(request.stream, table.through)
    next_part = partial(_part, decide, request, parts_left - 1)
    return Decision(cast("T", None), [indexed(stream, table)], next_part)


def _on_table(decide: Decide[T]) -> Callable[[Keyspace, Any, int], Decision[T]]:
    def decided(keyspace: Keyspace, request: Any, now_ms: int) -> Decision[T]:
        return _part(decide, request, _INDEXED_PARTS_MAX, keyspace, now_ms)

    return decided


def read_table(
    keyspace: Keyspace, stream: Stream, _: StreamTable, request: ReadTable, now_ms: int
) -> Decision[TablePage]:
    as_of = stream.last_id if request.as_of is None else request.as_of
    if as_of > stream.last_id:
        raise WalkOver(request.stream, as_of)
    start = request.prefix
    if request.after_key is not None:
        start = max(start, following(request.after_key))
    return _Walk(request, as_of).part((), start, ReadRoom(request.size_bytes_max), keyspace, now_ms)


class _Walk(NamedTuple):
    request: ReadTable
    as_of: EntryId

    def part(
        self, before: tuple[Row, ...], start: bytes, room: ReadRoom, keyspace: Keyspace, now_ms: int
    ) -> Decision[TablePage]:
        """Add the next rows to those that were found before."""
        stream, table = table_of(keyspace, self.request.stream)
        found = list(before)
        at = self._add(stream, table, found, start, room)
        if at is None:
            return Decision(TablePage(found, None, self.as_of), [])
        table.keep_past(self.as_of, _first_id(stream), now_ms + TABLE_WALK_MS)
        if len(found) == self.request.limit or room.is_spent or self._is_long(found, before):
            return Decision(TablePage(found, at, self.as_of), [])
        next_part = partial(self.part, tuple(found), following(at), room)
        return Decision(cast("TablePage", None), [], next_part)

    def _is_long(self, found: list[Row], before: tuple[Row, ...]) -> bool:
        """Tell whether a filter holds for so few rows that the reader is to ask again."""
        return self.request.filters is not None and len(found) == len(before)

    def _add(
        self, stream: Stream, table: StreamTable, found: list[Row], start: bytes, room: ReadRoom
    ) -> bytes | None:
        """Add rows that are at hand; returns the last key that was looked at, None at the end."""
        limit, filters = self.request.limit, self.request.filters
        matcher = None if filters is None else matcher_of(filters)
        at_once = ROWS_AT_ONCE_MAX
        if matcher is not None:
            at_once = min(at_once, matcher.portion)
        finder, last = Finder(stream.log, are_scattered=True), None
        rows = islice(self._rows(table, start), at_once)
        wanted = list(islice(rows, min(limit - len(found), _READ_TOGETHER_MAX)))
        stream.log.require_all((entry_id for _, entry_id in wanted), PASSED_BYTES_MAX)
        seen = 0
        for key, entry_id in chain(wanted, rows):
            seen += 1
            if not key.startswith(self.request.prefix):
                return None
            if len(found) == limit or finder.is_spent:
                return last
            try:
                row = _row(stream, table, finder, key, entry_id)
            except Missing:
                if last is None:
                    raise
                return last
            is_former = row is None and table.rows.find(key) != entry_id
            if is_former and entry_id >= table.first_id(self.as_of):
                raise WalkOver(self.request.stream, self.as_of)
            if row is not None and (matcher is None or matcher.matches(row.fields)):
                if not room.take(row.fields, is_first=not found):
                    return last
                found.append(row)
            last = key
        return last if seen == at_once else None

    def _rows(self, table: StreamTable, start: bytes) -> Iterator[tuple[bytes, EntryId]]:
        rows = table.walk(start, self.as_of)
        if rows is None:
            raise WalkOver(self.request.stream, self.as_of)
        return rows


def _row(
    stream: Stream, table: StreamTable, finder: Finder, key: bytes, entry_id: EntryId
) -> Row | None:
    """Return the row of an entry, if that still exists."""
    if entry_id < _first_id(stream):
        return None
    entry = finder.find(entry_id)
    if entry is None or value_of(entry.fields, table.key_field) != key:
        return None
    return Row(key, entry.id, entry.fields)


def read_row(
    keyspace: Keyspace, stream: Stream, table: StreamTable, request: ReadRow, now_ms: int
) -> Decision[RowRead]:
    del keyspace, now_ms
    return Decision(RowRead(_row_of(stream, table, request.key), stream.last_id, table.fields), [])


def _row_of(stream: Stream, table: StreamTable, key: bytes) -> Row | None:
    entry_id = table.rows.find(key)
    if entry_id is None:
        return None
    return _row(stream, table, Finder(stream.log, are_scattered=True), key, entry_id)


def check_row(stream: Stream, table: StreamTable, request: PutRow | DeleteRow) -> Row | None:
    """Return the row that a request changes; RowChanged if it is not as expected."""
    row, condition = _row_of(stream, table, request.key), request.condition
    row_id = None if row is None else row.id
    if condition is not None and row_id != condition.id:
        raise RowChanged(request.key, row_id)
    return row


def put_row(
    keyspace: Keyspace, stream: Stream, table: StreamTable, request: PutRow, now_ms: int
) -> Decision[Added]:
    fields = fields_put(table, request)
    if made_before(keyspace, stream, request.idempotent, now_ms) is None:
        check_row(stream, table, request)
    return add(keyspace, _appending(request, fields), now_ms)


def fields_put(table: StreamTable, request: PutRow) -> Fields:
    """Return the fields of the entry that makes a row."""
    key, fields = request.key, tuple(request.fields)
    if len(key) > ROW_KEY_BYTES_MAX:
        raise Invalid(f"a key has at most {ROW_KEY_BYTES_MAX} bytes", location=("key",))
    if value_of(fields, table.key_field) not in (None, key):
        raise Invalid("the field of the key has another value", location=("fields",))
    if table.tombstone_field in fields[::2]:
        text = "an entry with this field removes the row: delete it instead"
        raise Invalid(text, location=("fields",))
    if value_of(fields, table.key_field) is None:
        fields = table.key_field, key, *fields
    return fields


def delete_row(
    keyspace: Keyspace, stream: Stream, table: StreamTable, request: DeleteRow, now_ms: int
) -> Decision[Added | None]:
    if made_before(keyspace, stream, request.idempotent, now_ms) is None:
        row = check_row(stream, table, request)
        if row is None:
            return Decision(None, [])
    fields = fields_removing(table, request.key)
    added: Decision[Added | None] = add(keyspace, _appending(request, fields), now_ms).replied_as(
        lambda reply: reply
    )
    return added


def fields_removing(table: StreamTable, key: bytes) -> Fields:
    return table.key_field, key, table.tombstone_field, b"1"


def _appending(request: PutRow | DeleteRow, fields: Fields) -> Add:
    return Add(request.stream, [Draft(None, fields)], request.idempotent, create_stream=False)


DECISIONS: Decisions = {
    ReadTable: _on_table(read_table),
    ReadRow: _on_table(read_row),
    PutRow: _on_table(put_row),
    DeleteRow: _on_table(delete_row),
}
