"""The latest state by key, in memory: the table of jobs/changes.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.pipeline.memory.entries import names_and_values, text_of, texts_of, values_of

_WAITING_MIN = 65_536  # entries that are compared at once, at least
_PAIR = pa.struct([("name", pa.string()), ("value", pa.binary())])
_ENTRY = pa.schema(
    [
        ("ms", pa.int64()),
        ("seq", pa.int64()),
        ("id_length", pa.int32()),  # of two numbers beyond 63 bits the longer one is later
        ("id", pa.string()),
        ("stream", pa.string()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("fields", pa.list_(_PAIR)),
    ]
)
_ORDER = ["ms", "seq", "id_length", "id", "stream"]


def transform(
    batches: Iterable[pa.RecordBatch],
    key: Sequence[str],
    names: Sequence[str],
    deleted: tuple[str, ...] | None = None,
) -> pa.Table:
    """Return the latest entry of each key, in the order of the keys.

    Entries wait until there are as many as keys, and then the latest of both stay: the memory is
    that of the keys, and not that of the entries.

    Args:
        batches: of entries, see `memory/entries.py`; those without the key are left out.
        key: names of fields.
        names: of the columns behind the key: of stream, id, timestamp and fields.
        deleted: field and value that end a key.
    """
    keys = [f"key_{number}" for number in range(len(key))]
    kept = pa.schema([*((name, pa.string()) for name in keys), *_ENTRY]).empty_table()
    waiting: list[pa.Table] = []
    for batch in batches:
        waiting.append(_keyed(batch, key, kept.schema))
        if sum(map(len, waiting)) >= max(_WAITING_MIN, len(kept)):
            kept, waiting = _latest([kept, *waiting], keys), []
    kept = _latest([kept, *waiting], keys)
    if deleted is not None and len(kept):
        name, text = deleted
        ends = pc.equal(text_of(values_of(kept["fields"].combine_chunks(), name)), text)
        kept = kept.filter(pc.invert(pc.fill_null(ends, False)))
    kept = kept.sort_by([(name, "ascending") for name in keys])
    fields = texts_of(pa.concat_arrays(kept["fields"].chunks or [pa.array([], pa.list_(_PAIR))]))
    own = [kept["stream"], kept["id"], kept["timestamp"], fields]
    return pa.table([*(kept[name] for name in keys), *own], names=[*key, *names])


def _keyed(batch: pa.RecordBatch, key: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Return entries with the key in columns, without those that have none."""
    fields = batch.column("fields")
    field_names, values = names_and_values(fields)
    pairs = pa.StructArray.from_arrays(
        [field_names.cast(pa.string()), values.cast(pa.binary())], fields=list(_PAIR)
    )
    columns = {
        **{name: batch.column(name) for name in ("ms", "id", "stream", "timestamp")},
        "seq": batch.column("seq").fill_null(2**63 - 1),
        "id_length": pc.utf8_length(batch.column("id")),
        "fields": pa.ListArray.from_arrays(fields.offsets, pairs),
    }
    keys = [text_of(values_of(fields, name)) for name in key]
    table = pa.table([*keys, *(columns[name] for name in _ENTRY.names)], schema=schema)
    return table.filter(reduce(pc.and_, [column.is_valid() for column in keys]))


def _latest(tables: Sequence[pa.Table], keys: Sequence[str]) -> pa.Table:
    """Return the latest row of each key."""
    rows = pa.concat_tables(tables)
    ordered = rows.take(pc.sort_indices(rows, [(name, "ascending") for name in _ORDER]))
    numbered = ordered.select(keys).append_column("row", pa.array(np.arange(len(ordered))))
    last = numbered.group_by(list(keys)).aggregate([("row", "max")])
    return ordered.take(last["row_max"])
