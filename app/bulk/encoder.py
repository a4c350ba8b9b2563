"""Encode entries as an Arrow stream; it needs pyarrow and numpy, so import it when used."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.app.bulk.packed_columns import Columns, Numbers, columns_of
from headgate.app.bulk.selection import FieldTable
from headgate.app.wire.filters import EVERYTHING, Selection
from headgate.engine.filters import needed_bytes
from headgate.engine.packing import Unpacker
from headgate.engine.replies import PackedEntries

PIECE_BYTES = 256 * 1024
"""Size that a slow client must take within its patience: less than a batch may have."""

_FIELDS = pa.map_(pa.binary(), pa.binary())
_INT64_MAX = 2**63 - 1


class Encoded(NamedTuple):
    entry_count: int
    pieces: list[bytes]


class Encoder:
    def __init__(
        self, stream: str, epoch: int, compression: str | None, selection: Selection
    ) -> None:
        """Start the stream; its schema has the stream's name and epoch."""
        self._selection = selection
        self._needed = needed_bytes(selection.filter)
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
        self._no_rows = [pa.array([], field.type) for field in self._schema]

    def encode(self, runs: Sequence[PackedEntries]) -> Encoded:
        """Return the next part of the stream, with these entries as one batch.

        It may have no row: that tells the reader that the gateway is still searching.
        """
        packed = [self._unpacker.grown(run.packed) for run in runs]
        if self._needed:
            pairs = [
                (run, each)
                for run, each in zip(runs, packed, strict=True)
                if any(needed in each for needed in self._needed)
            ]
            runs, packed = [run for run, _ in pairs], [each for _, each in pairs]
        arrays = self._arrays(columns_of(runs, packed)) if runs else self._no_rows
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        return Encoded(len(arrays[0]), self._written.taken())

    def _arrays(self, columns: Columns) -> list[Any]:
        ms, seq = columns.ms, columns.seq
        table = FieldTable(columns)
        if self._selection != EVERYTHING:
            stays = table.select(self._selection)
            if not stays.any():
                return self._no_rows
            ms, seq = ms[stays], seq[stays]
        fields = pa.MapArray.from_arrays(pa.array(table.field_ends), *table.left, type=_FIELDS)
        return [*_id_columns(ms, seq), fields]

    def finish(self) -> list[bytes]:
        """Return the last pieces: a reader that has them has everything."""
        self._writer.close()
        return self._written.taken()


class _Written(io.RawIOBase):
    def __init__(self) -> None:
        self._buffers: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._buffers.append(data)
        return len(data)

    def taken(self) -> list[bytes]:
        data = b"".join(self._buffers)
        self._buffers.clear()
        return [data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES)]


def _id_columns(ms: Numbers, seq: Numbers) -> tuple[Any, Any, Any]:
    text = pa.string()
    texts = pc.binary_join_element_wise(pa.array(ms).cast(text), pa.array(seq).cast(text), "-")
    # Beyond a signed number the text alone has the truth.
    times = pa.array(np.minimum(ms, _INT64_MAX).astype(np.int64))
    return texts, times, pa.array(seq.astype(np.int64), mask=seq > _INT64_MAX)
