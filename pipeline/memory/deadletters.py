"""Dead letters with their origin, in memory: the table of jobs/deadletters.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.pipeline.memory.entries import names_and_values, text_of, texts_of, values_of

_ORDER = ["has_date", "timestamp", "id"]  # as Spark has it: null is first
_TEXT = pa.string()
_DEAD_LETTERS = pa.schema(
    [
        *(("stream", _TEXT), ("id", _TEXT), ("timestamp", pa.timestamp("us", "UTC"))),
        *(("origin", _TEXT), ("origin_id", _TEXT), ("group", _TEXT)),
        *(("deliveries", pa.int64()), ("reason", _TEXT), ("error", _TEXT)),
        ("fields", pa.map_(_TEXT, _TEXT)),
    ]
)


def transform(batches: Iterable[pa.RecordBatch], origin: Sequence[str]) -> pa.Table:
    """Return dead letters with their origin in columns, and the fields they came with.

    Args:
        batches: of entries, see `memory/entries.py`; those that are no dead letters are left out.
        origin: names of the fields that say it, in the order of the columns.
    """
    tables = [pa.Table.from_batches([_dead_letters(batch, origin)]) for batch in batches]
    table = pa.concat_tables([_DEAD_LETTERS.empty_table(), *tables])
    keys = pa.table([table["timestamp"].is_valid(), table["timestamp"], table["id"]], names=_ORDER)
    return table.take(pc.sort_indices(keys, [(name, "ascending") for name in _ORDER]))


def _dead_letters(batch: pa.RecordBatch, origin: Sequence[str]) -> pa.RecordBatch:
    fields = batch.column("fields")
    values = [text_of(values_of(fields, name)) for name in origin]
    values[3] = _number(values[3])
    columns = [batch.column(name) for name in ("stream", "id", "timestamp")]
    dead_letters = pa.RecordBatch.from_arrays(
        [*columns, *values, texts_of(_without(fields, origin))], schema=_DEAD_LETTERS
    )
    return dead_letters.filter(pc.and_(values[0].is_valid(), values[2].is_valid()))


def _number(texts: pa.Array) -> pa.Array:
    """Return whole numbers; null where a text is none."""
    is_number = pc.match_substring_regex(texts, r"^[+-]?[0-9]{1,18}$")
    return pc.if_else(is_number, texts, pa.scalar(None, _TEXT)).cast(pa.int64())


def _without(fields: pa.ListArray, left_out: Sequence[str]) -> pa.ListArray:
    """Return fields without those of these names."""
    names, values = names_and_values(fields)
    is_kept = pc.invert(pc.is_in(names, pa.array(left_out, names.type)))
    ends = np.concatenate([[0], np.cumsum(is_kept.to_numpy(zero_copy_only=False))])
    pairs = pa.StructArray.from_arrays(
        [names.filter(is_kept), values.filter(is_kept)], ["name", "value"]
    )
    return pa.ListArray.from_arrays(pa.array(ends[fields.offsets.to_numpy()], pa.int32()), pairs)
