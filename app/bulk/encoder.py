"""Encode entries as an Arrow stream; it needs pyarrow and numpy, so import it when used.

The conditions of a filter are evaluated for all entries of a batch at once:

1. A run of packed entries that cannot have a match is skipped before it is unpacked: a match needs
   some bytes, such as a name with its value behind it.
2. For each name in the filter, the fields of that name are found, and a condition gives for each of
   them whether it holds. An entry without the field has no match. Of a repeated field, the last one
   counts.
3. The rest is copied: the matching entries, with the wanted fields.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headgate.app.bulk.packed_columns import Bytes, Columns, Numbers, columns_of, flat_bounds
from headgate.app.wire.filters import EVERYTHING, Selection
from headgate.engine.filters import (
    AllOf,
    AnyOf,
    Filter,
    NotThat,
    NumberRange,
    Present,
    TextCondition,
    names_in,
    needed_bytes,
)
from headgate.engine.limits import NUMBER_LENGTH_MAX
from headgate.engine.packing import Unpacker
from headgate.engine.replies import PackedEntries

# Layout: the places of fields, if all entries have the same names at the same places.
#
# So it is with most streams. Then a field is found without a look at all names, and only the
# fields that are wanted are copied.


class Layout:
    """The places of some names in entries that have them at the same places."""

    def __init__(self, columns: Columns, places: dict[bytes, list[int]]) -> None:
        """Take entries with equally many fields, and for each name the fields of that name."""
        self._data = columns.data
        self._by_part = columns.walked
        self.places = places

    @classmethod
    def of(cls, columns: Columns, names: Collection[bytes]) -> Self | None:
        """Return the layout of entries for these names, or None if their places differ."""
        if columns.walked.ndim == 1:
            return None
        places: dict[bytes, list[int]] = {name: [] for name in names}
        for place, (begins, ends) in enumerate(columns.walked[0::2]):
            length = int(ends[0] - begins[0])
            if (ends - begins != length).any():
                return None
            first = columns.data[begins[0] : ends[0]].tobytes()
            if any(len(name) == length for name in names):
                if _texts(columns.data, begins, length) != first * len(begins):
                    return None
                if first in places:
                    places[first].append(place)
        return cls(columns, places)

    def values(self, name: bytes) -> Any:
        """Return the last value of a name in each entry, or None if entries lack it."""
        if not self.places[name]:
            return None
        bounds = flat_bounds(self._by_part[2 * self.places[name][-1] + 1][None])
        pieces = pieces_of(self._data, bounds)
        return pc.take(pieces, pa.array(np.arange(0, len(bounds), 2)), boundscheck=False)

    def bounds(self, stays: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Return the bounds of the layout's names and values, of the entries that stay."""
        wanted = sorted(place for places in self.places.values() for place in places)
        parts = [part for place in wanted for part in (2 * place, 2 * place + 1)]
        by_part = self._by_part[parts]
        return flat_bounds(by_part if stays.all() else by_part[:, :, stays])


def pieces_of(data: Bytes, bounds: NDArray[np.int32]) -> Any:
    """Return the bytes between neighbouring bounds, as an Arrow array.

    Every second piece is what MessagePack has between names and values. Arrow takes the others out
    of it, without Python.
    """
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), max(len(bounds) - 1, 0), buffers)


def _texts(data: Bytes, begins: NDArray[np.int32], length: int) -> bytes:
    if not length:
        return b""
    count = len(data) - length + 1
    return np.ndarray((count,), f"V{length}", data, strides=(1,))[begins].tobytes()


Mask = NDArray[np.bool_]

_NUMBER = r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_TEXT_TESTS = {"exact": pc.equal, "prefix": pc.starts_with, "suffix": pc.ends_with}


class FieldTable:
    def __init__(self, columns: Columns) -> None:
        self.field_ends = columns.field_ends
        self._columns = columns
        self._layout: Layout | None = None
        self._fields: dict[bytes, _Field] = {}

    @cached_property
    def _pieces(self) -> Any:
        return pieces_of(self._columns.data, self._columns.bounds)

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        return np.arange(int(self.field_ends[-1]))

    @property
    def left(self) -> tuple[Any, Any]:
        return self._taken(self._places, 0), self._taken(self._places, 2)

    def select(self, selection: Selection) -> Mask:
        """Drop the unwanted entries and fields; return which entries stay."""
        condition, columns = selection.filter, selection.columns
        self._layout = Layout.of(self._columns, names_in(condition))
        stays = np.ones(self._count, np.bool_)
        if condition is not None:
            stays = self._matches(condition)
        layout = None if columns is None else Layout.of(self._columns, columns)
        if layout is not None:
            self._drop_by_layout(layout, stays)
        elif not stays.any() or columns == ():
            self._drop(stays, np.zeros(len(self._places), np.bool_))
        else:
            keeps = stays[self._entries]
            if columns is not None:
                wanted = pa.array(columns, pa.binary())
                keeps &= _as_mask(pc.is_in(self._names, value_set=wanted))
            self._drop(stays, keeps)
        return stays

    def _drop_by_layout(self, layout: Layout, stays: Mask) -> None:
        width = sum(map(len, layout.places.values()))
        self._pieces = pieces_of(self._columns.data, layout.bounds(stays))
        self.field_ends = np.arange(int(stays.sum()) + 1, dtype=np.int32) * np.int32(width)
        self._places = np.arange(int(self.field_ends[-1]))

    def _drop(self, stays: Mask, keeps: Mask) -> None:
        kept = np.append(0, np.cumsum(keeps))[self.field_ends]
        self.field_ends = np.append(0, kept[1:][stays]).astype(np.int32)
        self._places = np.flatnonzero(keeps)

    @property
    def _count(self) -> int:
        return len(self.field_ends) - 1

    @cached_property
    def _names(self) -> Any:
        return self._taken(self._places, 0)

    @cached_property
    def _entries(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self._count), np.diff(self.field_ends))

    def _taken(self, places: NDArray[np.int64], part: Literal[0, 2]) -> Any:
        return pc.take(self._pieces, pa.array(4 * places + part), boundscheck=False)

    def _matches(self, condition: Filter) -> Mask:
        match condition:
            case AllOf(filters):
                matches = np.ones(self._count, np.bool_)
                for part in filters:
                    matches &= self._matches(part)
                return matches
            case AnyOf(filters):
                matches = np.zeros(self._count, np.bool_)
                for part in filters:
                    matches |= self._matches(part)
                return matches
            case NotThat(negated):
                return ~self._matches(negated)
        if condition.name not in self._fields:
            self._fields[condition.name] = self._field(condition.name)
        field = self._fields[condition.name]
        matches = np.zeros(self._count, np.bool_)
        matches[field.entries] = field.meets(condition)  # the last of equal ones
        return matches

    def _field(self, name: bytes) -> _Field:
        if self._layout is not None:
            values = self._layout.values(name)
            if values is None:
                return _Field(slice(0), pa.array([], pa.binary()))
            return _Field(slice(None), values)
        places = np.flatnonzero(_as_mask(pc.equal(self._names, name)))
        return _Field(self._entries[places], self._taken(places, 2))


class _Field:
    def __init__(self, entries: NDArray[np.int64] | slice, values: Any) -> None:
        self.entries = entries  # that have the values
        self._values = values

    def meets(self, condition: TextCondition | Present | NumberRange) -> Mask:
        match condition:
            case TextCondition(_, kind, text):
                return _as_mask(_TEXT_TESTS[kind](self._values, text))
            case NumberRange():
                is_number, numbers = self._numbers
                meets = is_number.copy()
                meets[is_number] = _are_within(condition, numbers)
                return meets
        return np.ones(len(self._values), np.bool_)

    @cached_property
    def _numbers(self) -> tuple[Mask, NDArray[np.float64]]:
        is_short = _as_mask(pc.less_equal(pc.binary_length(self._values), NUMBER_LENGTH_MAX))
        is_number = is_short.copy()
        short = self._values.filter(pa.array(is_short))
        is_number[is_short] = _as_mask(pc.match_substring_regex(short, _NUMBER))
        written = self._values.filter(pa.array(is_number)).cast(pa.string())
        return is_number, written.cast(pa.float64()).to_numpy(zero_copy_only=False)


def _are_within(bounds: NumberRange, numbers: NDArray[np.float64]) -> Mask:
    above = numbers > bounds.low if bounds.is_above else numbers >= bounds.low
    below = numbers < bounds.high if bounds.is_below else numbers <= bounds.high
    return above & below


def _as_mask(flags: Any) -> Mask:
    mask: Mask = flags.to_numpy(zero_copy_only=False)
    return mask


PIECE_BYTES = 256 * 1024
"""Size that a slow client must take within its patience: less than a batch may have."""

FIELDS = pa.map_(pa.binary(), pa.binary())
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
                pa.field("fields", FIELDS, nullable=False),
            ],
            {"headgate.stream": stream, "headgate.epoch": str(epoch)},
        )
        options = pa.ipc.IpcWriteOptions(compression=compression)
        self._written = WrittenPieces()
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
        fields = pa.MapArray.from_arrays(pa.array(table.field_ends), *table.left, type=FIELDS)
        return [*_id_columns(ms, seq), fields]

    def finish(self) -> list[bytes]:
        """Return the last pieces: a reader that has them has everything."""
        self._writer.close()
        return self._written.taken()


class WrittenPieces(io.RawIOBase):
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
