"""View: a stream of the lake as a Delta table of its own, with a typed column for each field.

A lake keeps entries as they are: pairs of names and bytes. A view is derived from it, so that any
reader of Delta tables sees columns. Each commit notes, as application transactions, up to which id
the view has what the lake holds: a run that is repeated adds nothing, and of two runs at the same
moment the second is refused.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from headgate.client import tables
from headgate.pipeline.lake import Lake
from headgate.pipeline.lakefile import directory_name
from headgate.pipeline.location import is_bucket
from headgate.pipeline.offsets import BEGINNING, Id, is_before, parse_id
from headgate.pipeline.schema import behind, up_to

PORTION_ENTRIES: Final = 500_000
"""Of one commit, in about so much memory as they have in a data frame."""

_APPS: Final = ("headgate/view/ms", "headgate/view/seq")
_NUMBERS: Final = 2**64  # of a part of an id; a transaction's version has a sign
_NO_NAME: Final = re.compile(r"[ ,;{}()\n\t=]")  # of a column, by Delta's protocol
_KEYS: Final = [(tables.ID, pa.string()), (tables.TIME, pa.timestamp("us", "UTC"))]


class ViewConflict(RuntimeError):
    """The view does not take the lake's entries, and says why. Its own entries stay."""


class View:
    """The view of one stream.

    Args:
        lake: where the entries are.
        stream: whose they are.
        folder: where views are; each is a folder in it.
    """

    def __init__(self, lake: Lake, stream: str, folder: str) -> None:
        self.path = f"{folder}/{directory_name(stream)}"
        self._lake = lake
        self._stream = stream

    def update(
        self,
        columns: tables.Schema | None = None,
        *,
        anew: bool = False,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> int:
        """Add the lake's entries that the view lacks; returns their number.

        1. Without `columns`, entries are read once for the types of the columns that are new.
        2. They are read once more and written, portion by portion. Each portion is one commit that
           notes how far the view is, so a run that was killed goes on behind the last one.

        Args:
            columns: which fields become columns, and their types; None: all fields.
            anew: write all entries in the place of what is there.
            on_progress: is called with the number of entries of each portion.

        Raises:
            ViewConflict: a value does not fit the type of its column, the view has other columns,
                or another one writes at this moment.
        """
        table = self._table()
        known = {} if anew or table is None else _columns_of(table)
        after = BEGINNING if anew or table is None else _position_of(table)
        held = self._lake.held(self._stream)
        if held is None or not is_before(after, held.to):
            return 0
        schema = self._inferred(after, held.to) | known
        if columns is not None:
            schema = {name: _type(kind) for name, kind in columns.items()}
            if known and schema != known:
                raise ViewConflict(f"{self.path} has other columns: --anew writes it again")
        _check_names(schema)
        if table is None:
            written = pa.schema([*_KEYS, *schema.items()])
            DeltaTable.create(self.path, written, mode="ignore", name=f"view of {self._stream}")
            table = DeltaTable(self.path)
        count, position = 0, _position_of(table)
        for portion in self._portions(after, held.to):
            if _position_of(table) != position:
                raise ViewConflict(f"another one wrote {self.path} meanwhile")
            position = portion[-1].column("id")[-1].as_py()
            self._write(table, portion, schema, is_first=anew and not count)
            rows = sum(map(len, portion))
            count += rows
            on_progress(rows)
        return count

    def _write(
        self,
        table: DeltaTable,
        portion: Sequence[pa.RecordBatch],
        schema: tables.Schema,
        *,
        is_first: bool,
    ) -> None:
        """Commit a portion; with `is_first` in the place of all that is there."""
        try:
            rows = pa.concat_tables([_typed(batch, schema) for batch in portion])
        except ValueError as error:
            raise ViewConflict(f"{error}. --anew finds types that fit") from None
        transactions = _transactions(portion[-1].column("id")[-1].as_py())
        try:
            write_deltalake(
                table,
                rows,
                mode="overwrite" if is_first else "append",
                schema_mode="overwrite" if is_first else "merge",
                commit_properties=CommitProperties(app_transactions=transactions),
            )
        except CommitFailedError as error:
            raise ViewConflict(f"another one wrote {self.path} at this moment: {error}") from error

    def _table(self) -> DeltaTable | None:
        is_there = is_bucket(self.path) or Path(self.path).is_dir()
        return DeltaTable(self.path) if is_there and DeltaTable.is_deltatable(self.path) else None

    def _batches(self, after: str, to: str) -> Iterator[pa.RecordBatch]:
        for batch in self._lake.arrow(self._stream, after=after, to=to):
            rows = up_to(behind(batch, parse_id(after)), parse_id(to))
            if len(rows):
                yield rows

    def _portions(self, after: str, to: str) -> Iterator[list[pa.RecordBatch]]:
        portion: list[pa.RecordBatch] = []
        for batch in self._batches(after, to):
            portion.append(batch)
            if sum(map(len, portion)) >= PORTION_ENTRIES:
                yield portion
                portion = []
        if portion:
            yield portion

    def _inferred(self, after: str, to: str) -> dict[str, pa.DataType]:
        """Return a type for each field that takes all its values."""
        kinds: dict[str, pa.DataType] = {}
        for batch in self._batches(after, to):
            for field in _typed(batch, None).schema:
                if field.name not in (tables.ID, tables.TIME):
                    kinds[field.name] = _common(kinds.get(field.name, field.type), field.type)
        return kinds


def _typed(batch: pa.RecordBatch, schema: tables.Schema | None) -> pa.Table:
    """Return entries of the lake with a column for each field."""
    fields = batch.column("fields").cast(pa.map_(pa.binary(), pa.binary()))
    entry = {"id": batch.column("id"), "ms": batch.column("ms"), "fields": fields}
    table = tables.columns_of([pa.RecordBatch.from_pydict(entry)], schema or None)
    return table.set_column(1, tables.TIME, batch.column("timestamp"))


def _type(kind: str | pa.DataType) -> pa.DataType:
    return pa.type_for_alias(kind) if isinstance(kind, str) else kind


def _common(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """Return the type that takes the values of both."""
    kinds = {first, second}
    if len(kinds) == 1:
        return first
    if kinds == {pa.int64(), pa.float64()}:
        return pa.float64()
    return pa.binary() if pa.binary() in kinds else pa.string()


def _check_names(schema: tables.Schema) -> None:
    for name in schema:
        if not name or _NO_NAME.search(name):
            raise ViewConflict(
                f"Delta tables have no column {name!r}: --column chooses which fields are columns"
            )


def _columns_of(table: DeltaTable) -> dict[str, pa.DataType]:
    """Return the columns that are fields."""
    fields = table.to_pyarrow_dataset().schema
    return {field.name: field.type for field in fields if (field.name, field.type) not in _KEYS}


def _position_of(table: DeltaTable) -> str:
    """Return the id up to which the lake is in the view."""
    ms, seq = (table.transaction_version(app) or 0 for app in _APPS)
    return str(Id(ms % _NUMBERS, seq % _NUMBERS))


def _transactions(to: str) -> list[Transaction]:
    now_ms = int(time.time() * 1000)
    signed = [number - _NUMBERS if number >= _NUMBERS // 2 else number for number in parse_id(to)]
    return [Transaction(app, n, now_ms) for app, n in zip(_APPS, signed, strict=True)]
