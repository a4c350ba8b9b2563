"""Arrow bodies as clients make them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

ARROW = "application/vnd.apache.arrow.stream"
HEADERS = {"Content-Type": ARROW}
FIELDS = pa.map_(pa.string(), pa.binary())


def arrow_of(columns: dict[str, pa.Array], **options: Any) -> bytes:
    """Return an Arrow IPC stream of one batch."""
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, **options) as writer:
        writer.write_batch(batch)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def rows(*values: str, kind: pa.DataType = FIELDS) -> pa.Array:
    """Return a column of fields: each row has one named `v`."""
    return pa.array([[("v", value.encode())] for value in values], kind)


def body_of(*values: str, ids: Sequence[str | None] | None = None) -> bytes:
    """Return a body of rows with one field `v` each, and perhaps ids."""
    columns = {"fields": rows(*values)}
    if ids is not None:
        columns["id"] = pa.array(ids, pa.string())
    return arrow_of(columns)


def shown_over_and_over(value: bytes, count: int, kind: pa.DataType) -> pa.Array:
    """Return views that all show the same bytes."""
    view = struct.pack("<i4sii", len(value), value[:4], 0, 0)
    return pa.Array.from_buffers(
        kind, count, [None, pa.py_buffer(view * count), pa.py_buffer(value)]
    )
