"""Entries as rows: from the gateway's Arrow to Spark's Arrow, and back.

Everything here works on columns; an entry becomes a Python object only for an error message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headgate.client import tables
from headgate.pipeline.rows.casts import cast_fields, rescued, text_of, text_of_column, ways_of

ENTRY_COLUMNS = ("stream", "id", "ms", "seq", "timestamp", "fields")
TIME_COLUMNS = ("delay_ms", "deliver_at_ms", "ttl_ms", "expires_at_ms")
RESCUED = "_rescued"
EXTRA_COLUMNS: Mapping[str, DataType] = {
    "_id": StringType(),
    "_stream": StringType(),
    "_timestamp": TimestampType(),
    RESCUED: StringType(),
}
WIRE_FIELDS = pa.map_(pa.binary(), pa.binary())
_MICROSECONDS = pa.timestamp("us", "UTC")
_MS_MAX = (2**63 - 1) // 1000  # later ids have no timestamp in microseconds
_SHOWN = 80  # characters of a value in an error


class RowError(ValueError):
    pass


def entry_schema(
    *, is_binary: bool = False, is_array: bool = False, is_table: bool = False
) -> StructType:
    """Return the schema of whole entries; arrays keep the order and repeats of fields.

    Those that are rows of a table have a column `key` as well.
    """
    value: DataType = BinaryType() if is_binary else StringType()
    fields: DataType = (
        ArrayType(
            StructType(
                [StructField("name", StringType(), False), StructField("value", value, False)]
            ),
            False,
        )
        if is_array
        else MapType(StringType(), value, False)
    )
    return StructType(
        [
            StructField("stream", StringType(), False),
            *([StructField("key", StringType(), False)] if is_table else []),
            StructField("id", StringType(), False),
            StructField("ms", LongType(), False),
            StructField("seq", LongType()),
            StructField("timestamp", TimestampType()),
            StructField("fields", fields, False),
        ]
    )


class Rows:
    """Makes rows of a schema from the entries of a stream. Can be pickled.

    The schema is that of whole entries, or a user's: each column is then the field of that name,
    cast to the column's type, except `_id`, `_stream` and `_timestamp` (of the entry) and
    `_rescued string`: values that do not fit their column, as JSON by name. Without `_rescued`, a
    misfit raises.

    Raises RowError if a column has a type that no field can be cast to.
    """

    def __init__(self, schema: StructType) -> None:
        self._arrow: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self._is_entries = any(
            schema == entry_schema(is_binary=is_binary, is_array=is_array, is_table=is_table)
            for is_binary, is_array, is_table in product((False, True), repeat=3)
        )
        if not self._is_entries:
            _check_columns(schema)

    @property
    def schema(self) -> pa.Schema:
        return self._arrow

    @property
    def fields(self) -> dict[str, pa.DataType] | None:
        """The columns that are fields, with their types; None: rows are whole entries."""
        if self._is_entries:
            return None
        return {each.name: each.type for each in self._arrow if each.name not in EXTRA_COLUMNS}

    @property
    def is_entries(self) -> bool:
        return self._is_entries

    def of(self, stream: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        fields = wire_fields(batch.column("fields"))
        if self._is_entries:
            columns = [
                _constant(stream, len(batch)),
                *([batch.column("key")] if "key" in self._arrow.names else []),
                batch.column("id").cast(pa.string()),
                batch.column("ms"),
                batch.column("seq"),
                _timestamps(batch.column("ms")),
                _entry_fields(fields, self._arrow.field("fields").type, stream, batch),
            ]
        else:
            columns = self._typed(stream, batch, fields)
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow)

    def _typed(self, stream: str, batch: pa.RecordBatch, fields: pa.MapArray) -> list[pa.Array]:
        find = Lookup(fields)
        columns: list[pa.Array | None] = []
        misfits: dict[str, pa.Array] = {}  # by column: the raw value where it did not fit
        for column in self._arrow:
            if column.name == "_id":
                columns.append(batch.column("id").cast(pa.string()))
            elif column.name == "_stream":
                columns.append(_constant(stream, len(batch)))
            elif column.name == "_timestamp":
                columns.append(_timestamps(batch.column("ms")))
            elif column.name == RESCUED:
                columns.append(None)
            else:
                raw = find(column.name)
                fitting, misfit = cast_fields(raw, column.type)
                columns.append(fitting)
                if misfit is not None:
                    misfits[column.name] = misfit
        if misfits and RESCUED not in self._arrow.names:
            raise _misfit_error(misfits, self._arrow, stream, batch)
        filled = [rescued(misfits, len(batch)) if column is None else column for column in columns]
        for column, values in zip(self._arrow, filled, strict=True):
            if not column.nullable and values.null_count:
                id_ = batch.column("id")[pc.index(values.is_null(), True).as_py()].as_py()
                raise RowError(
                    f"the column {column.name} is NOT NULL, and the entry {id_} of {stream!r} has "
                    "no such field, or one that does not fit"
                )
        return filled


class Drafts:
    """Makes entries to append from rows of a schema. Can be pickled.

    A column `fields`, a map or an array of (name, value), holds an entry's fields; without it every
    column but `stream`, `id` and `TIME_COLUMNS` is a field, as text, and left out where it is null.
    A column `id` is the entry's id (null: the stream makes one), a column `stream` where it goes,
    unless the argument `stream` says it for all. Beside `fields`, the columns `ms`, `seq` and
    `timestamp` repeat the id and are ignored; TIME_COLUMNS say when groups deliver the entry.

    `nested_as_json` writes arrays, structs and maps as JSON; `skip_empty` leaves out rows without a
    field, which otherwise fail.

    Raises RowError if a column has a type that is no field, or nothing says which stream.
    """

    def __init__(
        self,
        schema: StructType,
        stream: str | None = None,
        *,
        nested_as_json: bool = False,
        skip_empty: bool = False,
    ) -> None:
        names = schema.fieldNames()
        self.stream = stream
        self._nested_as_json = nested_as_json
        self._skip_empty = skip_empty
        self._has_stream = stream is None
        if self._has_stream and "stream" not in names:
            raise RowError(
                "which stream? Give the option stream, or a column of that name. In SQL:"
                " INSERT INTO t WITH (url='…', stream='…') …"
            )
        self.has_id = "id" in names
        self._has_fields = "fields" in names and isinstance(
            schema["fields"].dataType, MapType | ArrayType
        )
        self._times = [name for name in TIME_COLUMNS if name in names]
        not_fields = {"stream", "id", *TIME_COLUMNS}
        self._columns = [name for name in names if name not in not_fields]
        if self._has_fields:
            others = [name for name in self._columns if name not in ENTRY_COLUMNS]
            if others:
                raise RowError(
                    f"columns {', '.join(others)} are beside the column fields, which holds all "
                    "fields of an entry: drop either"
                )
        elif not self._columns:
            raise RowError("there is no column that would be a field")
        for name in not_fields & set(names):
            kinds = (LongType, IntegerType) if name in TIME_COLUMNS else (StringType,)
            if not isinstance(schema[name].dataType, kinds):
                given, wanted = schema[name].dataType.simpleString(), kinds[0]().simpleString()
                raise RowError(f"the column {name} is {given}; it has to be {wanted}")
        if not self._has_fields:
            _check_texts(schema, self._columns, nested_as_json=nested_as_json)

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._has_fields:
            fields = wire_fields(batch.column("fields"))
            if fields.items.null_count:
                fields = _kept(fields, fields.items.is_valid().to_numpy(zero_copy_only=False))
        else:
            as_json = self._nested_as_json
            fields = tables.gathered(
                {
                    name: text_of_column(batch.column(name), nested_as_json=as_json)
                    for name in self._columns
                }
            )
        is_empty = np.diff(_offsets(fields)) == 0
        if is_empty.any():
            if not self._skip_empty:
                raise RowError(
                    "a row has no field: all its values are null, or its map is empty; the option "
                    "emptyRows=skip leaves such rows out"
                )
            is_kept = pa.array(~is_empty)
            batch, fields = batch.filter(is_kept), fields.filter(is_kept)
        columns = {"fields": fields}
        if self.has_id:
            columns["id"] = batch.column("id").cast(pa.string())
        columns |= {name: batch.column(name).cast(pa.int64()) for name in self._times}
        if self._has_stream:
            columns["stream"] = batch.column("stream").cast(pa.string())
            if columns["stream"].null_count:
                raise RowError("a row has no stream: its column stream is null")
        return pa.RecordBatch.from_pydict(columns)


def chunks_of(
    batch: pa.RecordBatch, *, entries_max: int, size_bytes_max: int
) -> list[pa.RecordBatch]:
    """Return a batch in pieces of about so many bytes and at most so many entries."""
    if len(batch) == 0:
        return []
    pieces = max(-(-len(batch) // entries_max), -(-batch.nbytes // size_bytes_max))
    size = -(-len(batch) // min(pieces, len(batch)))
    return [batch.slice(begin, size) for begin in range(0, len(batch), size)]


# Entries to rows.


class Lookup:
    """Finds the value of a name in each entry; the last one if the name repeats."""

    def __init__(self, fields: pa.MapArray) -> None:
        offsets = _offsets(fields)
        self._count = len(fields)
        self._begin = int(offsets[0])
        self._items = fields.items
        sizes = np.diff(offsets)
        keys = fields.keys.slice(self._begin, int(offsets[-1]) - self._begin)
        self._layout = _layout(keys, sizes)
        if self._layout is None:
            self._rows = np.repeat(np.arange(self._count), sizes)
            encoded = keys.dictionary_encode()
            self._names = encoded.dictionary
            self._codes = encoded.indices.to_numpy()

    def __call__(self, name: str) -> pa.Array:
        if self._layout is not None:
            if name.encode() not in self._layout:
                return pa.nulls(self._count, pa.binary())
            width = len(self._layout)
            place = width - 1 - self._layout[::-1].index(name.encode())
            first = self._begin + place
            return self._items.take(pa.array(np.arange(self._count) * width + first))
        code = pc.index(self._names, name.encode()).as_py()
        if code < 0:
            return pa.nulls(self._count, pa.binary())
        places = np.flatnonzero(self._codes == code)
        at = np.full(self._count, -1, np.int64)
        at[self._rows[places]] = places + self._begin  # of repeated rows the last one stays
        return self._items.take(pa.array(at, mask=at < 0))


def _layout(keys: pa.Array, sizes: np.ndarray) -> list[bytes] | None:
    """Return the names that all entries have in the same order; None if they differ."""
    if not len(sizes) or not sizes[0] or (sizes != sizes[0]).any():
        return None
    _, ends, data = keys.buffers()
    ends = np.frombuffer(ends, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    lengths = np.diff(ends).reshape(len(sizes), -1)
    if (lengths != lengths[0]).any():
        return None
    names = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]].reshape(len(sizes), -1)
    is_alike = not (names != names[0]).any()
    return keys[: int(sizes[0])].to_pylist() if is_alike else None


def _misfit_error(
    misfits: Mapping[str, pa.Array], schema: pa.Schema, stream: str, batch: pa.RecordBatch
) -> RowError:
    name, values = next(iter(misfits.items()))
    row = pc.index(values.is_valid(), True).as_py()
    shown = text_of(values[row].as_py())
    return RowError(
        f"{name} of the entry {batch.column('id')[row].as_py()} of {stream!r} is "
        f"{shown[:_SHOWN]!r}, which is no {schema.field(name).type}. A column "
        "`_rescued string` in the schema would take what does not fit, and leave null in its place"
    )


def _entry_fields(
    fields: pa.MapArray, wanted: pa.DataType, stream: str, batch: pa.RecordBatch
) -> pa.Array:
    is_array = pa.types.is_list(wanted)
    value_type = wanted.value_type.field(1).type if is_array else wanted.item_type
    if not is_array:
        fields = _without_repeats(fields)
    try:
        keys = fields.keys.cast(pa.string())
        items = fields.items.cast(value_type)
    except pa.ArrowInvalid:
        raise _text_error(fields, stream, batch) from None
    if is_array:
        pairs = pa.StructArray.from_arrays([keys, items], fields=list(wanted.value_type))
        return pa.ListArray.from_arrays(fields.offsets, pairs, type=wanted)
    return pa.MapArray.from_arrays(fields.offsets, keys, items, type=wanted)


def _without_repeats(fields: pa.MapArray) -> pa.MapArray:
    """Keep only the last value of each name in an entry."""
    offsets = _offsets(fields)
    sizes = np.diff(offsets)
    if len(sizes) == 0 or sizes.max() <= 1:
        return fields
    keys = fields.keys.slice(int(offsets[0]), int(offsets[-1] - offsets[0])).dictionary_encode()
    names = len(keys.dictionary)
    codes = np.repeat(np.arange(len(fields)) * names, sizes) + keys.indices.to_numpy()
    ordered = np.sort(codes)
    if not np.any(ordered[1:] == ordered[:-1]):
        return fields
    is_last = np.zeros(len(fields.keys), bool)
    _, from_end = np.unique(codes[::-1], return_index=True)
    is_last[int(offsets[0]) + len(codes) - 1 - from_end] = True
    return _kept(fields, is_last)


def _text_error(fields: pa.MapArray, stream: str, batch: pa.RecordBatch) -> RowError:
    """Return an error about the first entry with a name or a value that is not text."""
    for row, pairs in enumerate(fields):
        for key, value in pairs.as_py():
            for what, data in (("name", key), ("value", value)):
                try:
                    data.decode()
                except UnicodeDecodeError:
                    hint = "read it with valueFormat=binary" if what == "value" else "rename it"
                    return RowError(
                        f"the {what} {data[:_SHOWN]!r} in the entry "
                        f"{batch.column('id')[row].as_py()} of {stream!r} is no UTF-8: {hint}"
                    )
    return RowError(f"names or values in {stream!r} are no UTF-8")


def _check_columns(schema: StructType) -> None:
    for column in schema:
        extra = EXTRA_COLUMNS.get(column.name)
        if extra is not None:
            if column.dataType != extra:
                raise RowError(f"the column {column.name} has to be {extra.simpleString()}")
            continue
        arrow = to_arrow_schema(StructType([column]), timezone="UTC").field(0).type
        try:
            for way in ways_of(arrow):
                way(pa.array([], pa.binary()))
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
            raise RowError(
                f"the column {column.name} is {column.dataType.simpleString()}, which no field "
                "can be cast to: read it as string, and use from_json"
            ) from None


# Rows to entries.


def _check_texts(schema: StructType, names: Sequence[str], *, nested_as_json: bool) -> None:
    arrow = to_arrow_schema(schema, timezone="UTC")
    for name in names:
        try:
            text_of_column(pa.array([], arrow.field(name).type), nested_as_json=nested_as_json)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            raise RowError(
                f"the column {name} is {schema[name].dataType.simpleString()}, which is no field "
                "of an entry: the option nestedFormat=json makes text of arrays, structs and maps,"
                " and to_json does in a query"
            ) from None


# Fields, whatever Arrow type they come in.


def wire_fields(fields: pa.Array) -> pa.MapArray:
    """Return a map or a list of pairs as a map of bytes to bytes."""
    if fields.null_count:
        raise RowError("the column fields is null in a row")
    kind = fields.type
    if pa.types.is_large_list(kind):
        fields = fields.cast(pa.list_(kind.value_field))
        kind = fields.type
    if pa.types.is_map(kind):
        keys, items = fields.keys, fields.items
    elif _is_pairs(kind):
        keys, items = fields.values.field(0), fields.values.field(1)
    else:
        raise RowError(f"the column fields is {kind}, and neither a map nor an array of pairs")
    if kind == WIRE_FIELDS:
        return fields
    return pa.MapArray.from_arrays(
        fields.offsets, keys.cast(pa.binary()), items.cast(pa.binary()), type=WIRE_FIELDS
    )


def _is_pairs(kind: pa.DataType) -> bool:
    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return False
    return bool(kind.value_type.num_fields == 2)


def _offsets(fields: pa.MapArray) -> np.ndarray:
    offsets: np.ndarray = fields.offsets.to_numpy()
    return offsets


def _kept(fields: pa.MapArray, mask: np.ndarray) -> pa.MapArray:
    left = np.concatenate([[0], np.cumsum(mask)])
    at = pa.array(np.flatnonzero(mask))
    return pa.MapArray.from_arrays(
        pa.array(left[_offsets(fields)], pa.int32()),
        fields.keys.take(at),
        fields.items.take(at),
        type=WIRE_FIELDS,
    )


def _constant(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _timestamps(ms: pa.Array) -> pa.Array:
    """Return times of ids in microseconds; null where they do not fit."""
    numbers = ms.to_numpy(zero_copy_only=False)
    if len(numbers) and int(numbers.max()) > _MS_MAX:
        is_late = numbers > _MS_MAX
        numbers = np.where(is_late, 0, numbers)
        return pa.array(numbers * 1000, pa.int64(), mask=is_late).cast(_MICROSECONDS)
    return pa.array(numbers * 1000, pa.int64()).cast(_MICROSECONDS)
