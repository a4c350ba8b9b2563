"""Tables: entries as columns, with Arrow, and back. Needs the extra `tables`.

A field becomes a column. Its type is what the schema says; without a schema it is inferred from all
values: whole numbers, numbers, or true and false if each value is one that is written so again;
otherwise text, or bytes where a value is not UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from headgate.client.problems import HeadgateError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ID = "_id"
TIME = "_time"

Schema = Mapping[str, Any]
"""Types of columns by the names of fields: Arrow's types, or their names such as `int64`."""


class PackageMissing(HeadgateError):
    """An optional package is not installed."""


def arrow() -> Any:
    """Return pyarrow.

    Raises:
        PackageMissing: it is not installed.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - workers do without
        import pyarrow.compute  # noqa: PLC0415
    except ImportError:
        raise PackageMissing("tables need pyarrow: install the extra headgate[tables]") from None
    return pa


def polars() -> Any:
    """Return polars; see `arrow`."""
    try:
        import polars as pl  # noqa: PLC0415
    except ImportError:
        raise PackageMissing("this needs polars: pip install polars") from None
    return pl


def encoded(batch: pa.RecordBatch) -> bytes:
    """Return the body of an append."""
    pa = arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


class Divided(NamedTuple):
    """Entries of one batch, with a column for each field."""

    ids: pa.Array
    times: pa.Array
    fields: dict[str, pa.Array]


def columns_of(batches: Iterable[pa.RecordBatch], schema: Schema | None) -> pa.Table:
    """Return entries as a table: `_id`, `_time`, and a column for each field.

    Args:
        batches: as the gateway sends them, with columns `id`, `ms` and `fields`.
        schema: which fields become columns, and their types; None: all of them, inferred.

    Raises:
        ValueError: a value does not fit the type that the schema gives its field.
    """
    return joined([divided(batch) for batch in batches], schema)


def divided(batch: pa.RecordBatch) -> Divided:
    """Return the fields of entries as columns of bytes."""
    pa = arrow()
    times = batch.column("ms").cast(pa.timestamp("ms")).cast(pa.timestamp("ms", "UTC"))
    return Divided(batch.column("id"), times, _raw_columns(batch.column("fields")))


def joined(parts: Sequence[Divided], schema: Schema | None) -> pa.Table:
    """Return parts as one table; see `columns_of`."""
    pa = arrow()
    columns = {
        ID: pa.chunked_array([part.ids for part in parts], pa.string()),
        TIME: pa.chunked_array([part.times for part in parts], pa.timestamp("ms", "UTC")),
    }
    for name in schema or dict.fromkeys(name for part in parts for name in part.fields):
        chunks = [
            part.fields[name] if name in part.fields else pa.nulls(len(part.ids), pa.binary())
            for part in parts
        ]
        raw = pa.chunked_array(chunks, pa.binary())
        columns[name] = _inferred(raw) if schema is None else _cast(name, raw, schema[name])
    return pa.table(columns)


def frame_of(table: pa.Table) -> pd.DataFrame:
    """Return a table of entries as a DataFrame whose index is `_id`."""
    import pandas as pd  # noqa: PLC0415 - who asks for a DataFrame has it

    frame = table.drop_columns([ID]).to_pandas()
    # Ids differ, so nothing is won by looking for those that are the same.
    frame.index = pd.Index(table[ID].to_pandas(deduplicate_objects=False), name=ID)
    return frame


def entries_of(table: pa.Table | pa.RecordBatch) -> pa.RecordBatch:
    """Return rows as entries: each column that is not null is a field, as text.

    Columns `_id` and `_time` are not fields; `_id` is the id of the entry.

    Raises:
        ValueError: a row has no field, or a type has no text.
    """
    pa = arrow()
    table = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
    names = [name for name in table.column_names if name not in (ID, TIME)]
    columns = {name: _as_text(name, table[name].combine_chunks()) for name in names}
    drafts = {"fields": _gathered(columns, len(table))}
    if ID in table.column_names:
        drafts["id"] = table[ID].combine_chunks().cast(pa.string())
    return pa.RecordBatch.from_pydict(drafts)


def _raw_columns(fields: pa.MapArray) -> dict[str, pa.Array]:
    """Return the values of each field, null where an entry does not have it.

    If a name repeats in an entry, its last value counts.
    """
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


def _inferred(raw: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values in the first type that writes each of them as it was written."""
    pa = arrow()
    try:
        texts = raw.cast(pa.string())
    except pa.ArrowInvalid:
        return raw
    if texts.null_count == len(texts):
        return texts
    for kind in (pa.int64(), pa.float64(), pa.bool_()):
        try:
            values = texts.cast(kind)
        except pa.ArrowInvalid:
            continue
        is_number = kind == pa.float64() and not _has_odd_numbers(texts)
        if is_number or values.cast(pa.string()).equals(texts):
            return values
    return texts


def _has_odd_numbers(texts: pa.ChunkedArray) -> bool:
    """Tell whether a text is a number that people mean as a text: `007`, `nan`, `+4`, `1e5`."""
    pc = arrow().compute
    plain = pc.match_substring_regex(texts, r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$")
    return not pc.all(plain).as_py()


def _cast(name: str, raw: pa.ChunkedArray, kind: Any) -> pa.ChunkedArray:
    pa = arrow()
    wanted = pa.type_for_alias(kind) if isinstance(kind, str) else kind
    if wanted == pa.binary():
        return raw
    try:
        return raw.cast(pa.string()).cast(wanted)
    except pa.ArrowInvalid as error:
        raise ValueError(f"the field {name!r} is not always {wanted}: {error}") from None


def _as_text(name: str, values: pa.Array) -> pa.Array:
    """Return a column as the values of fields."""
    pa = arrow()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else values.cast(pa.string())
    if pa.types.is_binary(values.type):
        return values
    try:
        return values.cast(pa.string()).cast(pa.binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(f"the column {name!r} is {values.type}, which has no text") from None


def _gathered(columns: Mapping[str, pa.Array], count: int) -> pa.MapArray:
    """Return a map of fields for each row, without those that are null."""
    import numpy as np  # noqa: PLC0415 - comes with the extra

    pa = arrow()
    width = len(columns)
    if not width:
        raise ValueError("there is no column that would be a field")
    values = pa.concat_arrays(list(columns.values()))  # column by column
    order = np.arange(count * width).reshape(width, count).T.ravel()  # row by row
    items = values.take(pa.array(order))
    names = pa.array([name.encode() for name in columns], pa.binary())
    keys = names.take(pa.array(np.tile(np.arange(width), count)))
    is_there = items.is_valid()
    counts = is_there.to_numpy(zero_copy_only=False).reshape(count, width).sum(axis=1)
    if count and not counts.all():
        raise ValueError(f"row {int(counts.argmin())} has no field: all its values are null")
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(offsets), keys.filter(is_there), items.filter(is_there))
