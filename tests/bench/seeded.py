"""Seeded entries: each follows from its number, so that a reader compares them without a copy."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

SEED = 7
VALUE_BYTES = 3072
_STEP_BYTES = 32
"""Bytes that Philox makes of one number of its counter."""

_TEMPERATURES = [b"%.2f" % (hundredths / 100) for hundredths in range(-1000, 4000)]
_HUMIDITIES = [b"%d" % humidity for humidity in range(100)]
_SITES = [b"s%d" % site for site in range(1000)]


class Kind(NamedTuple):
    """The entries of one kind, and how many of them one request has."""

    name: str
    fields: tuple[str, ...]
    batch: int
    entry_bytes: float
    """Of the values of one entry, on average."""

    is_text: bool

    def items(self, begin: int, count: int) -> Any:
        """Return the values of so many entries, one field behind the other (an Arrow array)."""
        return _SHORT_ITEMS(begin, count) if self.is_text else _large_items(begin, count)

    def rows(self, begin: int, count: int) -> list[tuple[bytes, ...]]:
        """Return the values of each entry."""
        values = iter(self.items(begin, count).to_pylist())
        return list(zip(*[values] * len(self.fields), strict=True))

    def record_batch(self, begin: int, count: int) -> Any:
        """Return entries with a column `fields`, as `append_batch` takes them."""
        width = len(self.fields)
        names = pa.array([name.encode() for name in self.fields])
        keys = names.take(pa.array(np.tile(np.arange(width), count)))
        offsets = pa.array(np.arange(count + 1, dtype=np.int32) * width)
        fields = pa.MapArray.from_arrays(offsets, keys, self.items(begin, count))
        return pa.RecordBatch.from_arrays([fields], ["fields"])


class _ShortItems:
    """Readings of a sensor, each value out of a table."""

    def __init__(self) -> None:
        tables = (_TEMPERATURES, _HUMIDITIES, _SITES)
        self._values = pa.array([value for table in tables for value in table])
        self._lengths = np.array([len(table) for table in tables], np.uint64)
        self._begins = np.cumsum([0, *self._lengths[:-1]]).astype(np.uint64)

    def __call__(self, begin: int, count: int) -> Any:
        drawn = _drawn(begin, count, _STEP_BYTES)[:, : len(self._lengths)]
        places = drawn % self._lengths + self._begins
        return self._values.take(pa.array(places.ravel()))


def _large_items(begin: int, count: int) -> Any:
    """Return values of random bytes, which no compression makes smaller."""
    data = pa.py_buffer(_drawn(begin, count, VALUE_BYTES).tobytes())
    offsets = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * VALUE_BYTES)
    return pa.Array.from_buffers(pa.binary(), count, [None, offsets, data])


def _drawn(begin: int, count: int, size_bytes: int) -> Any:
    """Return a row of random words for each entry, the same however they are cut into batches."""
    chance = np.random.Philox(key=SEED, counter=begin * (size_bytes // _STEP_BYTES))
    return chance.random_raw(count * size_bytes // 8).reshape(count, -1)


def _mean_length(values: list[bytes]) -> float:
    return sum(map(len, values)) / len(values)


_SHORT_ITEMS = _ShortItems()
SHORT = Kind(
    "short",
    ("temp", "hum", "site"),
    batch=10_000,
    entry_bytes=sum(map(_mean_length, (_TEMPERATURES, _HUMIDITIES, _SITES))),
    is_text=True,
)
LARGE = Kind("large", ("value",), batch=1_000, entry_bytes=VALUE_BYTES, is_text=False)
KINDS = {kind.name: kind for kind in (SHORT, LARGE)}
