"""Names and values of Arrow columns in one piece, each behind its length.

It needs pyarrow and numpy, so it is imported when used. Arrow takes headers, names and values out
of one array, in the order in which they are to be written. So it copies them without an object for
any of them, and while other threads run.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headgate.engine.limits import CHUNK_PARTS_MIN
from headgate.engine.packing import EncodedDrafts, array_header
from headgate.engine.requests.idempotency import Digest

_SHORT_BYTES = 256
"""Longer names and values have headers of their own; shorter ones share those by length."""


class FieldColumns(NamedTuple):
    """The fields of some entries: names and values, none of them null."""

    names: Any  # Arrow arrays of binary
    values: Any
    ends: NDArray[np.int64]  # 0, and for each entry how many fields it and those before have

    def encoded(self) -> EncodedDrafts:
        """Return the entries as drafts, each a MessagePack array."""
        data, ends = self._framed(array_header, _binary_header)
        lengths = pc.add(pc.binary_length(self.names), pc.binary_length(self.values)).to_numpy()
        size_ends = np.append(0, np.cumsum(lengths, dtype=np.int64))[self.ends]
        counts = 2 * np.diff(self.ends)
        if counts.max(initial=0) >= CHUNK_PARTS_MIN:  # see `size_in_chunk`
            sizes = np.diff(size_ends)
            sizes = np.where(counts < CHUNK_PARTS_MIN, sizes, np.maximum(sizes, counts // 2))
            size_ends = np.append(0, np.cumsum(sizes))
        return EncodedDrafts(data, _array(ends), _array(size_ends))

    def add_to(self, digest: Digest) -> None:
        digest.add_framed(self._framed(Digest.header, Digest.header)[0])

    def _framed(
        self, header_of_entry: Callable[[int], bytes], header_of_part: Callable[[int], bytes]
    ) -> tuple[bytes, NDArray[np.int64]]:
        """Return the parts of all entries behind headers; and 0, followed by each entry's end.

        `header_of_entry` gets the number of names and values, `header_of_part` a length.
        """
        counts = np.diff(self.ends)
        kinds, kind_of = np.unique(counts, return_inverse=True)
        lengths = [pc.binary_length(part).to_numpy() for part in (self.names, self.values)]
        long = np.unique(np.concatenate([each[each >= _SHORT_BYTES] for each in lengths]))
        headers = [header_of_part(length) for length in range(_SHORT_BYTES)]
        headers += [header_of_part(length) for length in long.tolist()]
        headers += [header_of_entry(2 * count) for count in kinds.tolist()]
        count = len(self.names)
        begins = np.arange(len(counts)) + 4 * self.ends[:-1]  # pieces before each entry
        pieces = np.empty(len(counts) + 4 * count, np.int64)
        pieces[begins] = kind_of + _SHORT_BYTES + len(long)
        at = np.repeat(begins + 1 - 4 * self.ends[:-1], counts) + 4 * np.arange(count)
        for part, each in enumerate(lengths):
            numbers = each.astype(np.int64)
            if len(long):
                numbers = np.where(
                    each < _SHORT_BYTES, numbers, _SHORT_BYTES + np.searchsorted(long, each)
                )
            pieces[at + 2 * part] = numbers
            pieces[at + 2 * part + 1] = np.arange(count) + (len(headers) + part * count)
        source = pa.concat_arrays([pa.array(headers, pa.binary()), self.names, self.values])
        taken = pc.take(source, pa.array(pieces), boundscheck=False)
        _, offsets, data = taken.buffers()
        ends = np.frombuffer(offsets, np.int32)[np.append(begins, len(pieces))].astype(np.int64)
        return data.to_pybytes()[: int(ends[-1])], ends


def _binary_header(length: int) -> bytes:
    for kind, width in ((0xC4, 1), (0xC5, 2)):
        if length < 1 << (8 * width):
            return bytes([kind]) + length.to_bytes(width)
    return b"\xc6" + length.to_bytes(4)


def _array(numbers: NDArray[np.int64]) -> array[int]:
    return array("Q", numbers.astype(np.uint64).tobytes())
