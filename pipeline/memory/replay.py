"""A slice of a replay, in memory; one with a condition in SQL needs Spark."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from headgate.pipeline.lake import Lake
from headgate.pipeline.memory.entries import as_table, read_lake, read_range
from headgate.pipeline.options import write_options
from headgate.pipeline.rows.schema import entry_schema
from headgate.pipeline.sink import BatchWriter
from headgate.pipeline.terminal.flags import Flags


def replay(
    flags: Flags,
    stream: str,
    after: str,
    to: str,
    target: Mapping[str, str],
    *,
    rename: Mapping[str, str],
    keep_ids: bool,
) -> None:
    """Append entries behind `after`, up to and with `to`, in order.

    Args:
        flags: say where the gateway and the lake are.
        stream: whose entries they are.
        after: exclusive.
        to: inclusive.
        target: options of the writer.
        rename: new name by old name of a field.
        keep_ids: with their ids.
    """
    if flags.lake:
        batches = read_lake(Lake(flags.lake), stream, after=after, to=to)
    else:
        batches = read_range(flags, stream, after, to)
    columns = ["id", "fields"] if keep_ids else ["fields"]
    schema = StructType([entry_schema(is_binary=True, is_array=True)[name] for name in columns])
    given = {name.lower(): text for name, text in {**flags.connection(), **target}.items()}
    writer = BatchWriter(write_options(given, is_query=False), schema, overwrite=False)
    rows = _renamed(as_table(batches), rename).select(columns).to_batches()
    try:
        written = writer.write(iter(rows))
    except BaseException:
        writer.abort([])
        raise
    writer.commit([written])


def _renamed(entries: pa.Table, rename: Mapping[str, str]) -> pa.Table:
    """Return ids and fields, some under other names; order and repeats stay."""
    names, values = (entries[name].combine_chunks() for name in ("names", "values"))
    ends = np.cumsum(pc.list_value_length(names).to_numpy())
    coded = names.flatten().dictionary_encode()
    new = {old.encode(): name.encode() for old, name in rename.items()}
    texts = [new.get(name, name) for name in coded.dictionary.to_pylist()]
    fields = pa.MapArray.from_arrays(
        pa.array(np.concatenate([[0], ends]), pa.int32()),
        pa.array(texts, pa.binary()).take(coded.indices),
        values.flatten(),
    )
    return pa.table({"id": entries["id"], "fields": fields})
