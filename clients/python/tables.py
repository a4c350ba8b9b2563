"""Tables: entries as Arrow columns, and back. Requires the extra `tables`.

Each field becomes a column. Its type comes from the schema. Without a schema, it is inferred from
all values: integers, floats or booleans if every value is written in the usual notation of that
type; otherwise text, or bytes if a value is not UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from headgate.client.problems import HeadgateError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ID = "_id"
KEY = "_key"
TIME = "_time"

_MS_MAX = 2**63 - 1  # the gateway sends later times as this

_TRIED = 64
"""Number of values, spread over a column, that a type is tried with first."""

Schema = Mapping[str, Any]
"""Types of columns by field name: Arrow types, or their names, such as `int64`."""


class PackageMissing(HeadgateError):
    """An optional package is not installed."""


def arrow() -> Any:
    """Return pyarrow. Raises PackageMissing if it is not installed."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - optional for workers
        import pyarrow.compute  # noqa: PLC0415
    except ImportError:
        raise PackageMissing("tables need pyarrow: install the extra headgate[tables]") from None
    return pa


def polars() -> Any:
    """Return polars. Raises PackageMissing if it is not installed."""
    try:
        import polars as pl  # noqa: PLC0415
    except ImportError:
        raise PackageMissing("this needs polars: pip install polars") from None
    return pl


def encoded(batch: pa.RecordBatch) -> bytes:
    """Return the body of an append, an Arrow IPC stream."""
    pa = arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


class Column(NamedTuple):
    raw: pa.Array  # bytes, null where an entry does not have the field
    typed: pa.Array  # in the first type that fits all values, or that of the schema
    is_exact: bool  # each value is written the same again; not so for floats such as 1.50


class Divided(NamedTuple):
    ids: pa.Array
    times: pa.Array
    fields: dict[str, Column]


def columns_of(batches: Iterable[pa.RecordBatch], schema: Schema | None) -> pa.Table:
    """Return entries as a table: `_id`, `_time`, and a column for each field.

    Without a schema, all fields become columns with inferred types.
    """
    return joined([divided(batch, schema) for batch in batches], schema)


def divided(batch: pa.RecordBatch, schema: Schema | None) -> Divided:
    pa = arrow()
    times = batch.column("ms").cast(pa.timestamp("ms")).cast(pa.timestamp("ms", "UTC"))
    raw = _raw_columns(batch.column("fields"))
    if schema is None:
        fields = {name: inferred(values) for name, values in raw.items()}
    else:
        wanted = {name: values for name, values in raw.items() if name in schema}
        fields = {
            name: Column(values, _cast(name, values, schema[name]), is_exact=True)
            for name, values in wanted.items()
        }
    return Divided(batch.column("id"), times, fields)


def inferred(raw: pa.Array) -> Column:
    return Column(raw, *_inferred(raw))


def joined(parts: Sequence[Divided], schema: Schema | None) -> pa.Table:
    pa = arrow()
    columns = {
        ID: pa.chunked_array([part.ids for part in parts], pa.string()),
        TIME: pa.chunked_array([part.times for part in parts], pa.timestamp("ms", "UTC")),
    }
    for name in schema or dict.fromkeys(name for part in parts for name in part.fields):
        kind = None if schema is None else _kind(schema[name])
        columns[name] = _joined([(len(part.ids), part.fields.get(name)) for part in parts], kind)
    return pa.table(columns)


def _joined(parts: Sequence[tuple[int, Column | None]], kind: Any) -> pa.ChunkedArray:
    """Join the parts of one field into a column. A Column None: the part does not have the field.

    Without `kind`, the type is that of all parts. If they differ, it is inferred again from all
    values.
    """
    pa = arrow()
    if kind is None:
        columns = [column for _, column in parts if column is not None]
        kinds = {
            (column.typed.type, column.is_exact)
            for column in columns
            if column.raw.null_count < len(column.raw)
        }
        if len(kinds) != 1:
            raw = [column.raw if column else pa.nulls(n, pa.binary()) for n, column in parts]
            return _inferred(pa.chunked_array(raw, pa.binary()))[0]
        [(kind, _)] = kinds
    chunks = [
        pa.nulls(count, kind) if column is None or column.typed.type != kind else column.typed
        for count, column in parts
    ]
    return pa.chunked_array(chunks, kind)


def frame_of(table: pa.Table, index: str = ID) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - only needed for a DataFrame

    frame = table.drop_columns([index]).to_pandas()
    # Ids are unique, so deduplication would only cost time.
    frame.index = pd.Index(table[index].to_pandas(deduplicate_objects=False), name=index)
    return frame


def frame_of_rows(
    keys: Sequence[str],
    entries: Sequence[tuple[str, Mapping[str, str | bytes]]],
    schema: Schema | None,
    as_of: str,
) -> pd.DataFrame:
    """Return the rows of a table as of an id. Each entry is the id and the fields of a row."""
    pa = arrow()
    pairs = [[(_raw(name), _raw(value)) for name, value in fields.items()] for _, fields in entries]
    ids = [entry_id for entry_id, _ in entries]
    columns = {
        "id": pa.array(ids, pa.string()),
        "ms": pa.array([min(int(each.partition("-")[0]), _MS_MAX) for each in ids], pa.int64()),
        "fields": pa.array(pairs, pa.map_(pa.binary(), pa.binary())),
    }
    table = columns_of([pa.RecordBatch.from_pydict(columns)], schema)
    frame = frame_of(table.add_column(0, KEY, pa.array(keys, pa.string())), KEY)
    frame.attrs["as_of"] = as_of
    return frame


def _raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode(errors="surrogateescape")


def entries_of(table: pa.Table | pa.RecordBatch) -> pa.RecordBatch:
    """Return rows as entries: each column that is not null is a field, as text.

    Columns `_id` and `_time` are not fields. `_id` is the id of the entry.
    """
    pa = arrow()
    table = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
    names = [name for name in table.column_names if name not in (ID, TIME)]
    columns = {name: _as_text(name, table[name].combine_chunks()) for name in names}
    if not columns:
        raise ValueError("the table has no column that can be a field")
    fields = gathered(columns)
    ends = fields.offsets.to_numpy()
    counts = ends[1:] - ends[:-1]
    if not counts.all():
        raise ValueError(f"row {int(counts.argmin())} has no field: all its values are null")
    drafts = {"fields": fields}
    if ID in table.column_names:
        drafts["id"] = table[ID].combine_chunks().cast(pa.string())
    return pa.RecordBatch.from_pydict(drafts)


def _raw_columns(fields: pa.MapArray) -> dict[str, pa.Array]:
    """Return the last value of each field, or null where an entry does not have it."""
    import numpy as np  # noqa: PLC0415 - comes with the extra

    offsets = fields.offsets.to_numpy()[: len(fields) + 1]
    begin, end = int(offsets[0]), int(offsets[-1])
    rows = np.repeat(np.arange(len(fields)), np.diff(offsets))
    names = fields.keys.slice(begin, end - begin).dictionary_encode()
    codes = names.indices.to_numpy()
    columns = {}
    for code, name in enumerate(names.dictionary.to_pylist()):
        places = np.flatnonzero(codes == code)
        at = np.full(len(fields), -1, np.int64)
        at[rows[places]] = places + begin
        columns[name.decode(errors="surrogateescape")] = fields.items.take(
            arrow().array(at, mask=at < 0)
        )
    return columns


def _inferred(raw: pa.Array | pa.ChunkedArray) -> tuple[Any, bool]:
    """Convert values to the first type that keeps each of them, and return whether it is exact.

    Exact means that each value is written the same again. Floats may not be, such as `1.50`.
    """
    pa = arrow()
    try:
        texts = raw.cast(pa.string())
    except pa.ArrowInvalid:
        return raw, True
    if texts.null_count == len(texts):
        return texts, True
    sample = texts.take(pa.array(range(0, len(texts), len(texts) // _TRIED + 1)))
    for kind in (pa.int64(), pa.float64(), pa.bool_()):
        try:
            sample.cast(kind)  # a cast of all values that fails takes ten times as long
            values = texts.cast(kind)
        except pa.ArrowInvalid:
            continue
        if kind == pa.float64() and not _has_odd_numbers(texts):
            return values, False
        if values.cast(pa.string()).equals(texts):
            return values, True
    return texts, True


def _has_odd_numbers(texts: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether any number is meant as text, such as `007`, `nan`, `+4` or `1e5`."""
    pc = arrow().compute
    plain = pc.match_substring_regex(texts, r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$")
    return not pc.all(plain).as_py()


def _kind(kind: Any) -> Any:
    return arrow().type_for_alias(kind) if isinstance(kind, str) else kind


def _cast(name: str, raw: pa.Array, kind: Any) -> pa.Array:
    pa = arrow()
    wanted = _kind(kind)
    if wanted == pa.binary():
        return raw
    try:
        return raw.cast(pa.string()).cast(wanted)
    except pa.ArrowInvalid as error:
        raise ValueError(f"the field {name!r} is not always {wanted}: {error}") from None


def _as_text(name: str, values: pa.Array) -> pa.Array:
    pa = arrow()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else values.cast(pa.string())
    if pa.types.is_binary(values.type):
        return values
    try:
        return values.cast(pa.string()).cast(pa.binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(f"the column {name!r} is {values.type}, which has no text form") from None


def gathered(columns: Mapping[str, pa.Array]) -> pa.MapArray:
    """Return columns of bytes as a map of fields for each row, without null values."""
    import numpy as np  # noqa: PLC0415 - comes with the extra

    pa = arrow()
    width, count = len(columns), len(next(iter(columns.values())))
    values = pa.concat_arrays(list(columns.values()))  # column by column
    order = np.arange(count * width).reshape(width, count).T.ravel()  # row by row
    items = values.take(pa.array(order))
    names = pa.array([name.encode() for name in columns], pa.binary())
    keys = names.take(pa.array(np.tile(np.arange(width), count)))
    is_there = items.is_valid()
    counts = is_there.to_numpy(zero_copy_only=False).reshape(count, width).sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(offsets), keys.filter(is_there), items.filter(is_there))
