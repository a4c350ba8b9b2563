"""Latest: the newest entry of each key of a stream, as the gateway makes rows of a table.

An entry is in no row if it lacks the key field, or if its key is longer than KEY_BYTES_MAX. Of a
name that repeats, the last value counts. An entry with the tombstone field removes the row.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.pipeline.rows.casts import BASE64, text_of
from headgate.pipeline.rows.schema import Lookup, wire_fields

KEY: Final = "key"
REMOVED: Final = "is_removed"
KEY_BYTES_MAX: Final = 1_024
TOMBSTONE_FIELD: Final = "deleted"
"""Of streams that name no other."""


class RowFields(NamedTuple):
    """The fields that make rows of entries."""

    key: str
    tombstone: str


def row_fields(
    config: Mapping[str, Any], key: str | None = None, tombstone: str | None = None
) -> RowFields | None:
    """Return the fields that make rows: those that are given, else those of a stream's config.

    None: nothing says what the key is.
    """
    key = key or config.get("key_field")
    if key is None:
        return None
    return RowFields(key, tombstone or config.get("tombstone_field") or TOMBSTONE_FIELD)


_UNSETTLED_MIN = 200_000  # entries that are kept before those with newer ones are dropped


def key_text(key: bytes) -> str:
    """Return a key as the gateway writes it: one that is no text, or is empty, as `base64:…`."""
    text = text_of(key)
    if text and not text.startswith(BASE64):
        return text
    return BASE64 + base64.b64encode(key).decode()


def is_key(keys: pa.Array) -> pa.Array:
    """Tell which values of a key field make a row; null where an entry lacks the field."""
    return pc.less_equal(pc.binary_length(keys), KEY_BYTES_MAX).fill_null(False)


class Latest:
    """Takes the entries of a stream in their order, and has the latest of each key.

    It takes the memory of the rows, and about as much again while entries are added.
    """

    def __init__(
        self, key_field: str, tombstone_field: str, *, keeps_removals: bool = False
    ) -> None:
        self._names = key_field, tombstone_field
        self._keeps_removals = keeps_removals
        self._parts: list[pa.RecordBatch] = []  # with columns `key` and `is_removed` in front
        self._count = 0
        self._settled = 0  # of these: the rows after the last `_settle`

    def __len__(self) -> int:
        """Return how many entries it has; some may have newer ones."""
        return self._count

    def add(self, batch: pa.RecordBatch) -> None:
        """Take entries that come behind all that were added: a column `fields`, and any others."""
        find = Lookup(wire_fields(batch.column("fields")))
        keys, removals = (find(name) for name in self._names)
        columns = [keys, removals.is_valid(), *batch.columns]
        part = pa.RecordBatch.from_arrays(columns, [KEY, REMOVED, *batch.schema.names])
        self._parts.append(part.filter(is_key(keys)))
        self._count += len(self._parts[-1])
        if len(self) - self._settled > max(self._settled, _UNSETTLED_MIN):
            self._settle()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows: the columns of entries, `key` as text, and `is_removed`.

        With `keeps_removals` entries that remove a row are among them.
        """
        self._settle()
        for part in self._parts:
            keys = pa.array(map(key_text, part.column(KEY).to_pylist()), pa.string())
            yield part.set_column(0, KEY, keys)

    def _settle(self) -> None:
        """Drop entries with newer ones of their key, and those that removed a row."""
        if not self._parts:
            return
        # All keys together may have more bytes than a plain array of Arrow takes.
        keys = pa.concat_arrays([part.column(KEY).cast(pa.large_binary()) for part in self._parts])
        codes = keys.dictionary_encode().indices.to_numpy()
        _, from_end = np.unique(codes[::-1], return_index=True)
        is_latest = np.zeros(len(codes), bool)
        is_latest[len(codes) - 1 - from_end] = True
        begin, parts = 0, []
        for part in self._parts:
            is_kept = pa.array(is_latest[begin : begin + len(part)])
            if not self._keeps_removals:
                is_kept = pc.and_not(is_kept, part.column(REMOVED))
            parts.append(part.filter(is_kept))
            begin += len(part)
        self._parts = [part for part in parts if len(part)]
        self._count = self._settled = sum(map(len, self._parts))
