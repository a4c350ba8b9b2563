"""View: a stream of the lake as its own Delta table, with a typed column for each field.

A lake keeps entries as they are: pairs of names and bytes. A view is derived from it, so that any
reader of Delta tables sees columns. Each commit notes, as application transactions, up to which id
the view has the lake's entries: a repeated run adds nothing, and of two concurrent runs the second
is refused.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from headgate.client import tables
from headgate.pipeline.erasure import forgotten, purge
from headgate.pipeline.lake import Lake
from headgate.pipeline.lakefile import directory_name
from headgate.pipeline.location import location_of
from headgate.pipeline.offsets import BEGINNING, is_before
from headgate.pipeline.rows.casts import cast_fields, rescued
from headgate.pipeline.rows.schema import RESCUED
from headgate.pipeline.views.table import (
    TIMESTAMP,
    Kind,
    ViewConflict,
    column_name,
    common,
    count_of,
    field_name,
    files_of,
    position_at,
    position_of,
    remove_rows,
    table_at,
    text_of_type,
    without_bytes,
)

PORTION_ENTRIES: Final = 500_000
"""Of one commit, in about so much memory as they have in a data frame."""

OWN: Final = {tables.ID: pa.string(), tables.TIME: TIMESTAMP, RESCUED: pa.string()}
_FIELD: Final = "headgate.field"  # of a column: its field, where the name is another one
_CHOSEN: Final = "headgate.type"  # of a column whose type was chosen
_ONLY: Final = "headgate.only"  # of the column of ids: the only fields that are columns
_CONFIGURATION: Final = {"delta.dataSkippingStatsColumns": f"{tables.ID},{tables.TIME}"}
"""No value of a field stands in the log of the table, where it would outlive its entry."""


class Choice(NamedTuple):
    """The columns that a person chose; `only` None means all fields."""

    types: Mapping[str, pa.DataType] = {}
    only: frozenset[str] | None = None

    def has(self, field: str) -> bool:
        return self.only is None or field in self.only or field in self.types


class Update(NamedTuple):
    """The outcome of a run: entries added, entries with a misfit, and columns that widened."""

    added: int = 0
    rescued: int = 0
    widened: Sequence[str] = ()


class _Column(NamedTuple):
    name: str
    type: pa.DataType
    is_chosen: bool = False


class Columns(dict[str, _Column]):
    """The columns of a view that are fields, by field; and the choice behind them."""

    own: ClassVar[Mapping[str, pa.DataType]] = OWN  # those that are no fields
    choice = Choice()

    @classmethod
    def of(cls, table: DeltaTable) -> Self:
        columns, types, only = cls(), {}, None
        for column in pa.schema(table.schema()):
            notes = column.metadata or {}
            if column.name in cls.own:
                only = json.loads(notes.get(_ONLY.encode(), b"null")) or only
                continue
            field = field_name(column.name)
            columns[field] = _Column(column.name, column.type, _CHOSEN.encode() in notes)
            if columns[field].is_chosen:
                types[field] = column.type
        columns.choice = Choice(types, None if only is None else frozenset(only))
        return columns

    @classmethod
    def chosen(cls, choice: Choice) -> Self:
        columns = cls()
        columns.choice = choice
        for field, kind in choice.types.items():
            columns.add(field, kind, is_chosen=True)
        return columns

    def add(self, field: str, kind: pa.DataType, *, is_chosen: bool = False) -> None:
        name = column_name(field, [*self.own, *(column.name for column in self.values())])
        self[field] = _Column(name, kind, is_chosen)

    @property
    def schema(self) -> pa.Schema:
        fields = [pa.field(name, kind) for name, kind in self.own.items()]
        if self.choice.only is not None:
            notes = {_ONLY: json.dumps(sorted(self.choice.only))}
            fields[0] = fields[0].with_metadata(notes)
        for field, column in self.items():
            notes = {_FIELD: field} if column.name != field else {}
            if column.is_chosen:
                notes[_CHOSEN] = text_of_type(column.type)
            fields.append(pa.field(column.name, column.type, metadata=notes))
        return pa.schema(fields)


class View:
    """The view of one stream, a folder in `folder`."""

    _suffix: ClassVar[str] = ""
    _columns: ClassVar[type[Columns]] = Columns
    _own: ClassVar[Sequence[str]] = ("id", "timestamp")  # columns that are no fields

    def __init__(self, lake: Lake, stream: str, folder: str) -> None:
        self.path = f"{folder}/{directory_name(stream)}{self._suffix}"
        self._lake = lake
        self._stream = stream

    def update(
        self,
        choice: Choice | None = None,
        *,
        anew: bool = False,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> Update:
        """Add the lake's entries that the view lacks; with `anew`, rewrite all entries.

        1. New entries are read once to find the types that columns need.
        2. If a column has to widen, all entries are written again in one commit: readers see all
           rows as before, or all with the wider type.
        3. Otherwise the new entries are read again and added portion by portion. Each portion is
           one commit that notes the position, so a run that was killed resumes after the last one.

        `choice` None keeps the last one, at first all fields.
        """
        table = table_at(self.path)
        columns, after = self._begin(None if anew else table, choice or Choice())
        if choice is not None and choice != columns.choice:
            raise ViewConflict(f"{self.path} has other columns: --anew writes it again")
        held = self._lake.held(self._stream)
        if held is None or not is_before(after, held.to):
            return Update()
        widened = self._widen(table, columns, after, held.to)
        if table is None:
            DeltaTable.create(
                self.path,
                columns.schema,
                mode="ignore",
                name=f"view of {self._stream}",
                configuration=_CONFIGURATION,
            )
            table = DeltaTable(self.path)
        if anew or widened:
            update = self._write_again(table, columns, after, held.to, widened, on_progress)
        else:
            update = self._add(table, columns, after, held.to, on_progress)
        self.forget(forgotten(self._lake, self._stream))  # meanwhile
        return update

    def forget(self, ids: pa.Array, *, dry_run: bool = False) -> int:
        if not len(ids):
            return 0
        return remove_rows(
            self.path, lambda rows: pc.is_in(rows[tables.ID].combine_chunks(), ids), dry_run=dry_run
        )

    def purge(self, ids: pa.Array) -> tuple[int, int]:
        """Delete old files that have one of these entries; see `erasure.purge`."""
        table = table_at(self.path)
        return (0, 0) if table is None else purge(self.path, "", tables.ID, files_of(table), ids)

    def vacuum(self, retention_h: int) -> int:
        """Delete files that left the table that many hours ago; return their number."""
        table = table_at(self.path)
        if table is None:
            return 0
        return len(table.vacuum(retention_h, dry_run=False, enforce_retention_duration=False))

    def retire(self, before: dt.datetime, *, dry_run: bool = False) -> int:
        moment = pa.scalar(before, TIMESTAMP)
        return remove_rows(
            self.path,
            lambda rows: pc.less(rows[tables.TIME].combine_chunks(), moment).fill_null(False),
            dry_run=dry_run,
        )

    def _begin(self, table: DeltaTable | None, choice: Choice) -> tuple[Columns, str]:
        """Return the columns there are, and the position; None: the table is written anew."""
        if table is None:
            return self._columns.chosen(choice), BEGINNING
        return self._columns.of(table), position_of(table)

    def _widen(self, table: DeltaTable | None, columns: Columns, after: str, to: str) -> list[str]:
        """Give columns the types that new entries need; return those that widened."""
        kinds, _ = self._kinds(columns, after, to)
        narrow = [field for field in kinds if field in columns and not _fits(kinds, columns, field)]
        widened = []
        if narrow and table is not None:
            earlier, count = self._kinds(columns, BEGINNING, after, fields=narrow)
            if count < count_of(table):
                narrow = []  # its own entries cannot be written again: what does not fit is rescued
            for field in narrow:
                kind = common(earlier.get(field), kinds[field])
                old = columns[field]
                assert kind is not None
                columns[field] = old._replace(type=kind.type)
                widened.append(f"{field}: {text_of_type(old.type)} to {text_of_type(kind.type)}")
        for field, kind in kinds.items():
            if field not in columns:
                columns.add(field, kind.type)
        return widened

    def _kinds(
        self, columns: Columns, after: str, to: str, *, fields: Sequence[str] | None = None
    ) -> tuple[dict[str, Kind], int]:
        """Return by field what its values need, and the number of entries.

        Bytes do not count for an existing column, unless it is of bytes itself.
        """
        kinds: dict[str, Kind] = {}
        count = 0
        for batch in self._lake.arrow(self._stream, after=after, to=to):
            count += len(batch)
            schema = None if fields is None else dict.fromkeys(fields, pa.binary())
            for field, column in tables.divided(_entries(batch), schema).fields.items():
                if not columns.choice.has(field) or field in columns.choice.types:
                    continue
                if field in columns and (fields or pa.types.is_binary(column.typed.type)):
                    column = tables.inferred(without_bytes(column.raw))  # noqa: PLW2901
                kind = common(kinds.get(field), Kind.of(column))
                if kind is not None:
                    kinds[field] = kind
        return kinds, count

    def _add(
        self,
        table: DeltaTable,
        columns: Columns,
        after: str,
        to: str,
        on_progress: Callable[[int], None],
    ) -> Update:
        update, position = Update(), position_of(table)
        for portion in self._portions(after, to):
            if position_of(table) != position:
                raise ViewConflict(f"another one wrote {self.path} meanwhile")
            position = portion[-1].column("id")[-1].as_py()
            rows = self._add_portion(table, columns, portion, position)
            update = update._replace(
                added=update.added + len(rows), rescued=update.rescued + _rescued_in(rows)
            )
            on_progress(len(rows))
        return update

    def _add_portion(
        self, table: DeltaTable, columns: Columns, portion: Sequence[pa.RecordBatch], position: str
    ) -> pa.Table:
        """Add entries in one commit, and return their rows."""
        rows = pa.Table.from_batches(self._rows(portion, columns), columns.schema)
        self._commit(table, rows, position, is_all=False)
        return rows

    def _write_again(
        self,
        table: DeltaTable,
        columns: Columns,
        after: str,
        to: str,
        widened: Sequence[str],
        on_progress: Callable[[int], None],
    ) -> Update:
        counts = [0, 0]

        def written() -> Iterator[pa.RecordBatch]:
            rows = self._rows(self._all(columns, to), columns)
            with ThreadPoolExecutor(1) as reader:  # `deltalake` reads nothing while it writes
                while (batch := reader.submit(next, rows, None).result()) is not None:
                    yield batch
                    counts[0] += len(batch)
                    counts[1] += _rescued_in(batch)
                    on_progress(len(batch))

        reader = pa.RecordBatchReader.from_batches(columns.schema, written())
        before = 0 if after == BEGINNING else count_of(table)
        self._commit(table, reader, to, is_all=True)
        table.vacuum(dry_run=False)  # what was written again a week ago
        return Update(counts[0] - before, counts[1], widened)

    def _all(self, columns: Columns, to: str) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Yield the entries that are all rows."""
        return self._lake.arrow(self._stream, to=to)

    def _commit(
        self,
        table: DeltaTable,
        rows: pa.Table | pa.RecordBatchReader,
        position: str,
        *,
        is_all: bool,
    ) -> None:
        try:
            write_deltalake(
                table,
                rows,
                mode="overwrite" if is_all else "append",
                schema_mode="overwrite" if is_all else "merge",
                commit_properties=position_at(position),
            )
        except CommitFailedError as error:
            raise ViewConflict(f"another one wrote {self.path} at this moment: {error}") from error

    def _portions(self, after: str, to: str) -> Iterator[list[pa.RecordBatch]]:
        portion: list[pa.RecordBatch] = []
        for batch in self._lake.arrow(self._stream, after=after, to=to):
            portion.append(batch)
            if sum(map(len, portion)) >= PORTION_ENTRIES:
                yield portion
                portion = []
        if portion:
            yield portion

    def _rows(
        self, batches: Iterable[pa.RecordBatch], columns: Columns
    ) -> Iterator[pa.RecordBatch]:
        wanted = dict.fromkeys(columns, pa.binary())
        for batch in batches:
            raw = tables.divided(_entries(batch), wanted).fields
            values, misfits = [], {}
            for field, column in columns.items():
                if field not in raw:
                    values.append(pa.nulls(len(batch), column.type))
                    continue
                fitting, misfit = cast_fields(raw[field].raw, column.type)
                values.append(fitting)
                if misfit is not None:
                    misfits[field] = misfit
            own = [batch.column(name) for name in self._own]
            columns_of_batch = [*own, rescued(misfits, len(batch)), *values]
            yield pa.RecordBatch.from_arrays(columns_of_batch, schema=columns.schema)


def folder_of(lake: Lake, folder: str | None = None) -> str:
    if folder is None:
        return f"{lake.path}-views"
    return location_of(folder)


def _fits(kinds: Mapping[str, Kind], columns: Columns, field: str) -> bool:
    return columns[field].is_chosen or kinds[field].fits(columns[field].type)


def _entries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return entries of the lake as the gateway sends them."""
    fields = batch.column("fields").cast(pa.map_(pa.binary(), pa.binary()))
    entry = {"id": batch.column("id"), "ms": batch.column("ms"), "fields": fields}
    return pa.RecordBatch.from_pydict(entry)


def _rescued_in(rows: pa.Table | pa.RecordBatch) -> int:
    return len(rows) - int(rows[RESCUED].null_count)
