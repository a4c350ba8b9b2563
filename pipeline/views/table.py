"""The Delta table of a view: its position in the lake, and removal of rows."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Collection
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from headgate.client import tables
from headgate.client.tables import Column
from headgate.pipeline.lake import noted_numbers, notes_of
from headgate.pipeline.lakefile import open_filesystem
from headgate.pipeline.location import is_bucket
from headgate.pipeline.offsets import Id, parse_id
from headgate.pipeline.rows.casts import cast_fields

# The columns of a view: names and types of fields in a Delta table.
#
# A field may have any name, and a column of a Delta table may not: `column_name` writes the other
# characters as `~XX`, and `field_name` reads them back. Names that differ only in case are one
# name to Delta, so the second one is written otherwise.
#
# A type is inferred from values, part by part: `Kind.of` says what a part needs, and `common` what
# two parts need together. A column widens in the order of whole numbers, numbers, decimals, text.

TIMESTAMP: Final = pa.timestamp("us", "UTC")
DIGITS_MAX: Final = 38  # of a decimal of Delta
TYPES: Final = (
    "text, bytes, int, int8, int16, int32, int64, float, float32, float64, bool, date, timestamp,"
    " decimal(10,2)"
)
"""The types that a person may choose from."""

_REFUSED: Final = re.compile(r"[ ,;{}()=~\x00-\x1f\x7f]")  # by Delta's protocol; and what escapes
_ESCAPED: Final = re.compile(r"(?:~[0-9A-F]{2})+")
_NO_NAME: Final = "~"  # stands for the empty name
_SPELLINGS: Final = {
    pa.string(): "text string str varchar utf8",
    pa.binary(): "bytes binary",
    pa.int64(): "int int64 integer long bigint",
    pa.int32(): "int32",
    pa.int16(): "int16 short smallint",
    pa.int8(): "int8 byte tinyint",
    pa.float64(): "float float64 double number",
    pa.float32(): "float32 real",
    pa.bool_(): "bool boolean",
    pa.date32(): "date date32 date32[day]",
    TIMESTAMP: "timestamp timestamptz datetime",
}
_BY_SPELLING: Final = {word: kind for kind, words in _SPELLINGS.items() for word in words.split()}
_TIME: Final = re.compile(r"timestamp\[(s|ms|us|ns)(,\s*(tz=)?utc)?\]")
_DECIMAL: Final = re.compile(r"(?:decimal|decimal128|numeric)\((\d+)(?:,\s*(\d+))?\)")
# More digits of a second would be lost.
_WRITTEN_TIME: Final = r"^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)?$"
_WRITTEN_NUMBER: Final = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"
_EXACT_INT_MAX: Final = 2**53  # of floats
_EXACT_CHARS_MAX: Final = 15  # so many digits are exact in a float
_TRIED: Final = 64


def column_name(field: str, taken: Collection[str] = ()) -> str:
    """Return a column name for a field that differs, ignoring case, from those in `taken`."""
    lowered = {name.lower() for name in taken}
    names = (
        _escaped(field, _is_refused) or _NO_NAME,
        _escaped(field, lambda char: _is_refused(char) or char.isupper()),
        _escaped(field[:1]) + _escaped(field[1:], _is_refused),
        _escaped(field),
    )
    return next(name for name in names if name.lower() not in lowered)


def field_name(column: str) -> str:
    if column == _NO_NAME:
        return ""
    return _ESCAPED.sub(
        lambda match: bytes.fromhex(match[0].replace("~", "")).decode("utf-8", "replace"), column
    )


def type_of(text: str) -> pa.DataType:
    """Return the type written as `int`, `decimal(10,2)`, `timestamp[us, tz=UTC]`."""
    word = text.strip().lower()
    if word in _BY_SPELLING:
        return _BY_SPELLING[word]
    if _TIME.fullmatch(word):
        return TIMESTAMP
    match = _DECIMAL.fullmatch(word)
    if match is not None:
        digits, scale = int(match[1]), int(match[2] or 0)
        if 1 <= digits <= DIGITS_MAX and scale <= digits:
            return pa.decimal128(digits, scale)
    raise ValueError(f"{text!r} is no type: there are {TYPES}")


def text_of_type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _SPELLINGS[kind].split()[0] if kind in _SPELLINGS else str(kind)


class Kind(NamedTuple):
    """The type that values need, and what must be known of them to combine it with others.

    Attributes:
        type: the narrowest one.
        is_plain: each value is a number without an exponent, plus sign or leading zero.
        is_repeated: its type writes each value back as it was.
        is_float: a float holds each number exactly.
        whole: maximum number of digits before the point.
        scale: maximum number of digits after it.
    """

    type: pa.DataType
    is_plain: bool = False
    is_repeated: bool = True
    is_float: bool = True
    whole: int = 0
    scale: int = 0

    @classmethod
    def of(cls, column: Column) -> Self | None:
        """Return the kind of a field's values; None: all are null."""
        if column.raw.null_count == len(column.raw):
            return None
        kind = column.typed.type
        if pa.types.is_string(kind) and _are_times(column.typed):
            return cls(TIMESTAMP)
        if kind not in (pa.int64(), pa.float64()):
            return cls(kind)
        return cls._of_numbers(column.raw.cast(pa.string()), column.typed)

    @classmethod
    def _of_numbers(cls, texts: pa.Array, numbers: pa.Array) -> Self:
        is_repeated = numbers.cast(pa.string()).equals(texts)
        is_plain = bool(pc.all(pc.match_substring_regex(texts, _WRITTEN_NUMBER)).as_py())
        if not is_plain:
            return cls(numbers.type, is_repeated=is_repeated)
        whole = pc.max(pc.utf8_length(pc.replace_substring_regex(texts, r"^-|\..*", ""))).as_py()
        scale = pc.max(pc.utf8_length(pc.replace_substring_regex(texts, r"^[^.]*\.?", ""))).as_py()
        kind = cls(numbers.type, True, is_repeated, _are_floats(texts, numbers), whole, scale)
        if pa.types.is_integer(numbers.type) or kind.is_float:
            return kind
        return kind._replace(type=kind.wide)

    @property
    def wide(self) -> pa.DataType:
        """The narrowest type for numbers that are neither all integers nor all exact floats."""
        if self.is_plain and self.whole + self.scale <= DIGITS_MAX:
            return pa.decimal128(DIGITS_MAX, self.scale)
        return pa.string()

    @property
    def is_number(self) -> bool:
        return bool(pa.types.is_integer(self.type) or pa.types.is_floating(self.type)) or bool(
            pa.types.is_decimal(self.type)
        )

    def fits(self, column: pa.DataType) -> bool:
        if column == self.type or pa.types.is_binary(column):
            return True
        if pa.types.is_string(column):
            return not pa.types.is_binary(self.type)
        if pa.types.is_float64(column):
            return self.is_number and self.is_float
        if pa.types.is_decimal(column):
            room = column.precision - column.scale
            return bool(self.is_plain and self.whole <= room and self.scale <= column.scale)
        return False


def common(first: Kind | None, second: Kind | None) -> Kind | None:
    if first is None or second is None:
        return first or second
    joined = Kind(
        first.type,
        first.is_plain and second.is_plain,
        first.is_repeated and second.is_repeated,
        first.is_float and second.is_float,
        max(first.whole, second.whole),
        max(first.scale, second.scale),
    )
    if first.type == second.type and not pa.types.is_floating(first.type):
        return joined._replace(type=joined.wide) if pa.types.is_decimal(first.type) else joined
    if pa.binary() in (first.type, second.type):
        return Kind(pa.binary())
    if not (first.is_number and second.is_number):
        return Kind(pa.string())
    if not joined.is_plain and not joined.is_repeated:
        return Kind(pa.string())
    return joined._replace(type=pa.float64() if joined.is_float else joined.wide)


def without_bytes(raw: pa.Array) -> pa.Array:
    """Return the values that are text; the others become null."""
    return cast_fields(raw, pa.string())[0].cast(pa.binary())


def _escaped(text: str, is_escaped: Callable[[str], bool] = lambda _char: True) -> str:
    return "".join(
        "".join(f"~{byte:02X}" for byte in char.encode()) if is_escaped(char) else char
        for char in text
    )


def _is_refused(char: str) -> bool:
    return _REFUSED.match(char) is not None


def _are_times(texts: pa.Array) -> bool:
    """Tell whether each text is an ISO 8601 time with a T."""
    sample = texts.take(pa.array(range(0, len(texts), len(texts) // _TRIED + 1)))
    for tried in (sample, texts):
        if pc.all(pc.match_substring_regex(tried, _WRITTEN_TIME)).as_py() is False:
            return False
    _, misfit = cast_fields(texts.cast(pa.binary()), TIMESTAMP)
    return misfit is None


def _are_floats(texts: pa.Array, numbers: pa.Array) -> bool:
    if pa.types.is_integer(numbers.type):
        low, high = pc.min_max(numbers).as_py().values()
        return bool(low >= -_EXACT_INT_MAX and high <= _EXACT_INT_MAX)
    is_long = np.flatnonzero(pc.greater(pc.utf8_length(texts), _EXACT_CHARS_MAX).fill_null(False))
    return all(
        Decimal(texts[row].as_py()) == Decimal(repr(numbers[row].as_py()))
        for row in is_long.tolist()
    )


Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

Mask = Callable[[pa.Table], pa.Array]
"""Tells of rows with the columns `_id` and `_time` which are to leave."""

_APPS: Final = ("headgate/view/ms", "headgate/view/seq")
_TRIES: Final = 5


class ViewConflict(RuntimeError):
    """The view refuses a change, and says why. Its own entries stay."""


def table_at(path: str) -> DeltaTable | None:
    is_there = is_bucket(path) or Path(path).is_dir()
    return DeltaTable(path) if is_there and DeltaTable.is_deltatable(path) else None


def count_of(table: DeltaTable) -> int:
    counts = pa.table(table.get_add_actions(flatten=True))["num_records"]
    return int(pc.sum(counts).as_py() or 0)


def files_of(table: DeltaTable) -> set[str]:
    paths = pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()
    return {unquote(path) for path in paths}


def position_of(table: DeltaTable) -> str:
    """Return the id up to which the view has the lake's entries."""
    return str(Id(*noted_numbers(table, _APPS) or (0, 0)))


def position_at(to: str) -> CommitProperties:
    """Return commit properties with a position; one of two concurrent commits is refused."""
    return CommitProperties(app_transactions=notes_of(_APPS, parse_id(to)))


def remove_rows(path: str, is_removed: Mask, *, dry_run: bool = False) -> int:
    """Remove the rows that `is_removed` marks, in one commit; return their number."""
    for _ in range(_TRIES):
        table = table_at(path)
        if table is None:
            return 0
        actions: list[AddAction | RemoveAction] = []
        count = 0
        for file in pa.table(table.get_add_actions(flatten=True)).to_pylist():
            removed, written = _without(path, file, is_removed, dry_run=dry_run)
            count += removed
            actions += written
        if not actions:
            return count
        try:
            table.create_write_transaction(
                actions, "append", table.schema(), commit_properties=position_at(position_of(table))
            )
        except CommitFailedError:
            continue
        return count
    raise ViewConflict(f"others write {path} without end: try again")


def _without(
    path: str, file: dict[str, Any], is_removed: Mask, *, dry_run: bool
) -> tuple[int, list[AddAction | RemoveAction]]:
    """Rewrite a file without some of its rows; return their number, and what to commit."""
    filesystem = open_filesystem(path)
    name = unquote(file["path"])
    now_ms = int(time.time() * 1000)
    with filesystem.open_input_file(name) as source:
        parquet = pq.ParquetFile(source)
        mask = is_removed(plain(parquet.read(columns=[tables.ID, tables.TIME])))
        count = int(pc.sum(mask).as_py() or 0)
        if not count or dry_run:
            return count, []
        removal = RemoveAction(name, True, now_ms, file["size_bytes"], {})
        if count == len(mask):
            return count, [removal]
        new = f"part-{uuid.uuid4()}.parquet"
        begin = 0
        with (
            filesystem.open_output_stream(new) as out,
            pq.ParquetWriter(
                out, _plain_schema(parquet.schema_arrow), compression="zstd"
            ) as writer,
        ):
            for batch in parquet.iter_batches():
                left = plain(batch).filter(pc.invert(mask.slice(begin, len(batch))))
                writer.write_batch(left)
                begin += len(batch)
    stats = json.dumps({"numRecords": len(mask) - count})
    size = filesystem.get_file_info(new).size
    return count, [removal, AddAction(new, size, {}, now_ms, True, stats)]


def plain(rows: Rows) -> Rows:
    """Return rows without string views: a merge writes files of them, and Arrow cannot take any."""
    return rows.cast(_plain_schema(rows.schema))


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    kinds = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return pa.schema([field.with_type(kinds.get(field.type, field.type)) for field in schema])
