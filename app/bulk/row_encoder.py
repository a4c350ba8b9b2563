"""Encode rows of a table as an Arrow stream; it needs pyarrow, so import it when used."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from headgate.app.bulk.encoder import FIELDS, WrittenPieces
from headgate.engine.replies import Row

_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("fields", FIELDS, nullable=False),
    ]
)


class RowEncoder:
    def __init__(self, names: Collection[bytes] | None) -> None:
        """Start the stream; rows have the fields that are named, None: all."""
        self._names = names
        self._written = WrittenPieces()
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._written, "w"), _SCHEMA)

    def encode(self, rows: Sequence[Row]) -> list[bytes]:
        """Return the next pieces of the stream, with these rows as one batch."""
        names = self._names
        fields = [
            [
                pair
                for pair in zip(row.fields[::2], row.fields[1::2], strict=True)
                if names is None or pair[0] in names
            ]
            for row in rows
        ]
        columns = [[row.key for row in rows], [str(row.id) for row in rows], fields]
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA))
        return self._written.taken()

    def finish(self) -> list[bytes]:
        """Return the last pieces: a reader that has them has everything."""
        self._writer.close()
        return self._written.taken()
