"""Layout: the places of fields, if all entries have the same names at the same places.

So it is with most streams. Then a field is found without a look at all names, and only the fields
that are wanted are copied. It needs pyarrow and numpy, so it is imported when used.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headgate.app.bulk.packed_columns import Bytes, Columns, flat_bounds


class Layout:
    """The places of some names in entries that have them at the same places."""

    def __init__(self, columns: Columns, places: dict[bytes, list[int]]) -> None:
        """Take entries with equally many fields, and for each name the fields of that name."""
        self._data = columns.data
        self._by_part = columns.walked
        self.places = places

    @classmethod
    def of(cls, columns: Columns, names: Collection[bytes]) -> Self | None:
        """Return the layout of entries as far as these names go; None: there is none."""
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
        """Return the values of a name, the last one of each entry; None: entries lack it."""
        if not self.places[name]:
            return None
        bounds = flat_bounds(self._by_part[2 * self.places[name][-1] + 1][None])
        pieces = pieces_of(self._data, bounds)
        return pc.take(pieces, pa.array(np.arange(0, len(bounds), 2)), boundscheck=False)

    def bounds(self, stays: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Return the bounds of the names and values of some entries, of the names of this layout.

        Args:
            stays: which entries these are.
        """
        wanted = sorted(place for places in self.places.values() for place in places)
        parts = [part for place in wanted for part in (2 * place, 2 * place + 1)]
        by_part = self._by_part[parts]
        return flat_bounds(by_part if stays.all() else by_part[:, :, stays])


def pieces_of(data: Bytes, bounds: NDArray[np.int32]) -> Any:
    """Return the bytes between each two neighbours of bounds, as an Arrow array.

    Every second piece is what msgpack has between names and values. Arrow takes the others out of
    it, without Python.
    """
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), max(len(bounds) - 1, 0), buffers)


def _texts(data: Bytes, begins: NDArray[np.int32], length: int) -> bytes:
    """Return texts of one length, joined."""
    if not length:
        return b""
    count = len(data) - length + 1
    return np.ndarray((count,), f"V{length}", data, strides=(1,))[begins].tobytes()
