"""Rates, sizes and values of fields, in memory: the tables of jobs/stats.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.pipeline.memory.entries import names_and_values, sizes_of

_US = 1000
_WINDOW = ["stream", "start_ms"]
_FIELD = ["stream", "field"]


def windows(batches: Iterable[pa.RecordBatch], *, window_ms: int) -> pa.Table:
    """Return for each stream and window: entries, entries a second, bytes, and bytes of an entry.

    Args:
        batches: of entries; they need not fit into memory.
        window_ms: length of a window.
    """

    def sums(batch: pa.RecordBatch) -> pa.Table:
        batch = batch.filter(batch.column("timestamp").is_valid())
        ms = batch.column("ms").to_numpy()
        size_bytes = sizes_of(batch.column("fields"))
        columns = [batch.column("stream"), ms - ms % window_ms, size_bytes]
        table = pa.table(columns, names=[*_WINDOW, "size"]).group_by(_WINDOW)
        return _aggregated(
            table,
            {
                "entries": ("size", "count"),
                "size_bytes": ("size", "sum"),
                "entry_bytes_max": ("size", "max"),
            },
        )

    empty = sums(_no_entries())
    table = _aggregated(
        _joined(sums, batches, empty).group_by(_WINDOW),
        {
            "entries": ("entries", "sum"),
            "size_bytes": ("size_bytes", "sum"),
            "entry_bytes_max": ("entry_bytes_max", "max"),
        },
    ).sort_by([(name, "ascending") for name in _WINDOW])
    entries = table["entries"].cast(pa.float64())
    start_us = pc.multiply(table["start_ms"], _US)
    return pa.table(
        {
            "stream": table["stream"],
            "start": start_us.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
            "entries": table["entries"],
            "entries_per_s": pc.divide(pc.multiply(entries, 1000.0), float(window_ms)),
            "size_bytes": table["size_bytes"],
            "entry_bytes_avg": pc.divide(table["size_bytes"].cast(pa.float64()), entries),
            "entry_bytes_max": table["entry_bytes_max"],
        }
    )


def cardinalities(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return for each stream and field: the counts of entries and of different values, sizes."""
    by_value = [*_FIELD, "value"]

    def counts(batch: pa.RecordBatch) -> pa.Table:
        fields = batch.column("fields")
        offsets = fields.offsets.to_numpy()
        streams = batch.column("stream").take(
            pa.array(np.repeat(np.arange(len(fields)), np.diff(offsets)))
        )
        begin, length = int(offsets[0]), int(offsets[-1] - offsets[0])
        pairs = [part.slice(begin, length) for part in names_and_values(fields)]
        table = pa.table([streams, *pairs], names=by_value).group_by(by_value)
        return _aggregated(table, {"entries": ("value", "count")})

    table = _joined(counts, batches, counts(_no_entries()))
    table = _aggregated(table.group_by(by_value), {"entries": ("entries", "sum")})
    length = pc.binary_length(table["value"]).cast(pa.int64())
    table = table.append_column("length", length)
    table = table.append_column("total", pc.multiply(length, table["entries"]))
    table = _aggregated(
        table.group_by(_FIELD),
        {
            "entries": ("entries", "sum"),
            "values_about": ("value", "count"),
            "value_bytes_min": ("length", "min"),
            "total": ("total", "sum"),
            "value_bytes_max": ("length", "max"),
        },
    ).sort_by([(name, "ascending") for name in _FIELD])
    average = pc.divide(table["total"].cast(pa.float64()), table["entries"].cast(pa.float64()))
    at = table.column_names.index("total")
    return table.set_column(at, "value_bytes_avg", average)


def _aggregated(groups: pa.TableGroupBy, wanted: dict[str, tuple[str, str]]) -> pa.Table:
    """Return the keys of groups, and columns by name: the aggregate of a column for each."""
    table = groups.aggregate(list(wanted.values()))
    made = {f"{column}_{how}": name for name, (column, how) in wanted.items()}
    table = table.rename_columns([made.get(name, name) for name in table.column_names])
    keys = [name for name in table.column_names if name not in wanted]
    return table.select([*keys, *wanted])


def _joined(
    reduce: Callable[[pa.RecordBatch], pa.Table], batches: Iterable[pa.RecordBatch], empty: pa.Table
) -> pa.Table:
    return pa.concat_tables([empty, *(reduce(batch) for batch in batches)])


def _no_entries() -> pa.RecordBatch:
    pair = pa.struct([("name", pa.string()), ("value", pa.binary())])
    return pa.RecordBatch.from_pylist(
        [],
        pa.schema(
            [
                ("stream", pa.string()),
                ("ms", pa.int64()),
                ("timestamp", pa.timestamp("us", "UTC")),
                ("fields", pa.list_(pair)),
            ]
        ),
    )
