"""Encoder: entries as an Arrow stream. It needs pyarrow and numpy, so it is imported when used."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.app.bulk.packed_columns import Columns, Numbers, columns_of
from headgate.engine.packing import Unpacker
from headgate.engine.replies import PackedEntries

PIECE_BYTES = 256 * 1024
"""Size that a slow client must take within its patience: less than a batch may have."""

_FIELDS = pa.map_(pa.binary(), pa.binary())
_INT64_MAX = 2**63 - 1


class Encoder:
    """Entries of one stream into an Arrow IPC stream, batch by batch."""

    def __init__(self, stream: str, epoch: int, compression: str | None) -> None:
        """Begin the stream; its schema says whose entries they are."""
        self._schema = pa.schema(
            [
                pa.field("id", pa.string(), nullable=False),
                pa.field("ms", pa.int64(), nullable=False),
                pa.field("seq", pa.int64()),
                pa.field("fields", _FIELDS, nullable=False),
            ],
            {"headgate.stream": stream, "headgate.epoch": str(epoch)},
        )
        options = pa.ipc.IpcWriteOptions(compression=compression)
        self._written = _Written()
        self._writer = pa.ipc.new_stream(
            pa.PythonFile(self._written, "w"), self._schema, options=options
        )
        self._unpacker = Unpacker()

    def encode(self, runs: Sequence[PackedEntries]) -> list[bytes]:
        """Return the next pieces of the stream, with these entries as one batch."""
        columns = columns_of(runs, self._unpacker)
        arrays = [*_id_columns(columns.ms, columns.seq), _fields_column(columns)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        return self._written.taken()

    def finish(self) -> list[bytes]:
        """Return the last pieces: a reader that has them has everything."""
        self._writer.close()
        return self._written.taken()


class _Written(io.RawIOBase):
    """A file that keeps what is written until it is taken."""

    def __init__(self) -> None:
        self._buffers: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._buffers.append(data)
        return len(data)

    def taken(self) -> list[bytes]:
        """Return everything, in pieces that are not too large."""
        data = b"".join(self._buffers)
        self._buffers.clear()
        return [data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES)]


def _fields_column(columns: Columns) -> Any:
    """Return names and values as maps.

    Each two bounds enclose a name or a value in turns. So Arrow sees an array in which every second
    piece is what msgpack has between them; it takes the others, which is a copy without Python.
    """
    buffers = [None, pa.py_buffer(columns.bounds), pa.py_buffer(columns.data)]
    count = len(columns.bounds)
    pieces = pa.Array.from_buffers(pa.binary(), max(count - 1, 0), buffers)
    names, values = (
        pc.take(pieces, pa.array(np.arange(first, count, 4)), boundscheck=False) for first in (0, 2)
    )
    return pa.MapArray.from_arrays(pa.array(columns.field_ends), names, values, type=_FIELDS)


def _id_columns(ms: Numbers, seq: Numbers) -> tuple[Any, Any, Any]:
    """Return ids as texts, their times and their sequence numbers."""
    text = pa.string()
    texts = pc.binary_join_element_wise(pa.array(ms).cast(text), pa.array(seq).cast(text), "-")
    # Beyond a signed number the text alone has the truth.
    times = pa.array(np.minimum(ms, _INT64_MAX).astype(np.int64))
    return texts, times, pa.array(seq.astype(np.int64), mask=seq > _INT64_MAX)
