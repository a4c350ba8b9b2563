"""Latest view: a stream of the lake as a Delta table of the latest entry of each key.

It is a view whose commits are merges: the rows of keys that have new entries are replaced, and
those of keys that ended go. The fields of key and tombstone are noted with the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, Self

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError

from headgate.pipeline.lake import Lake
from headgate.pipeline.offsets import BEGINNING
from headgate.pipeline.rows.latest import KEY, REMOVED, Latest, RowFields
from headgate.pipeline.views.table import ViewConflict, position_at, position_of, table_at
from headgate.pipeline.views.view import OWN, Choice, Columns, Update, View, folder_of

_KEY: Final = f"_{KEY}"
_REMOVED: Final = f"_{REMOVED}"
_ROW_FIELDS: Final = "headgate.row"  # of the column of keys: fields of key and tombstone


class _LatestColumns(Columns):
    own: ClassVar[Mapping[str, pa.DataType]] = {_KEY: pa.string(), **OWN}
    row_fields: RowFields

    @classmethod
    def of(cls, table: DeltaTable) -> Self:
        columns = super().of(table)
        notes = pa.schema(table.schema()).field(_KEY).metadata
        columns.row_fields = RowFields(*json.loads(notes[_ROW_FIELDS.encode()]))
        return columns

    @property
    def schema(self) -> pa.Schema:
        schema = super().schema
        notes = {**(schema.field(0).metadata or {}), _ROW_FIELDS: json.dumps(self.row_fields)}
        return schema.set(0, schema.field(0).with_metadata(notes))


class LatestView(View):
    """The latest entry of each key of one stream, beside the view of all entries."""

    _suffix = "~latest"  # the folder of no stream ends so
    _columns = _LatestColumns
    _own = (KEY, "id", "timestamp")

    def __init__(
        self,
        lake: Lake,
        stream: str,
        folder: str,
        ask: Callable[[], RowFields] | None = None,
        key: str | None = None,
        tombstone: str | None = None,
    ) -> None:
        """Return the view of a stream.

        `ask` tells the fields with which a table is begun. `key` and `tombstone` are those that a
        table has to have, if it is there.
        """
        super().__init__(lake, stream, folder)
        self._ask = ask
        self._chosen = key, tombstone

    def update(
        self,
        choice: Choice | None = None,
        *,
        anew: bool = False,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> Update:
        """Take in the lake's new entries; see `View.update`. Returns how many, as added."""
        after = BEGINNING if anew else self._position()
        update = super().update(choice, anew=anew, on_progress=on_progress)
        table = table_at(self.path)
        if table is not None:
            table.vacuum(dry_run=False)  # what was merged a week ago
        added = self._lake.count(self._stream, after=after, to=self._position())
        return update._replace(added=added)

    def _position(self) -> str:
        table = table_at(self.path)
        return BEGINNING if table is None else position_of(table)

    def _begin(self, table: DeltaTable | None, choice: Choice) -> tuple[Columns, str]:
        columns, after = super()._begin(table, choice)
        assert isinstance(columns, _LatestColumns)
        if table is None:
            assert self._ask is not None
            columns.row_fields = self._ask()
        elif any(
            chosen not in (None, noted)
            for chosen, noted in zip(self._chosen, columns.row_fields, strict=True)
        ):
            raise ViewConflict(
                f"{self.path} has rows by {columns.row_fields.key}, which end by"
                f" {columns.row_fields.tombstone}: --anew writes it again"
            )
        return columns, after

    def _add_portion(
        self, table: DeltaTable, columns: Columns, portion: Sequence[pa.RecordBatch], position: str
    ) -> pa.Table:
        latest = [*self._latest(columns, portion, keeps_removals=True)]
        rows = pa.Table.from_batches(self._rows(latest, columns), columns.schema)
        is_removed = pa.chunked_array([part.column(REMOVED) for part in latest], pa.bool_())
        there = {field.name for field in table.schema().fields}
        new = [each for each in Schema.from_arrow(rows.schema).fields if each.name not in there]
        try:
            if new:
                table.alter.add_columns(new)
            (
                table.merge(
                    rows.append_column(_REMOVED, is_removed),
                    f"old.{_KEY} = new.{_KEY}",
                    source_alias="new",
                    target_alias="old",
                    commit_properties=position_at(position),
                )
                .when_matched_delete(f"new.{_REMOVED}")
                .when_matched_update_all(except_cols=[_REMOVED])
                .when_not_matched_insert_all(f"NOT new.{_REMOVED}", except_cols=[_REMOVED])
                .execute()
            )
        except CommitFailedError as error:
            raise ViewConflict(f"another one wrote {self.path} at this moment: {error}") from error
        if position_of(table) != position:  # a merge that changes no row makes no commit
            self._commit(table, rows.slice(0, 0), position, is_all=False)
        return rows

    def _all(self, columns: Columns, to: str) -> Iterator[pa.RecordBatch]:
        yield from self._latest(columns, self._lake.arrow(self._stream, to=to))

    def _latest(
        self,
        columns: Columns,
        batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch],
        *,
        keeps_removals: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        assert isinstance(columns, _LatestColumns)
        latest = Latest(*columns.row_fields, keeps_removals=keeps_removals)
        for batch in batches:
            latest.add(batch)
        return latest.rows()


def views_of(lake: Lake, stream: str, folder: str | None) -> list[View]:
    """Return the views that a stream may have: of all entries, and of the latest ones."""
    where = folder_of(lake, folder)
    return [View(lake, stream, where), LatestView(lake, stream, where)]
