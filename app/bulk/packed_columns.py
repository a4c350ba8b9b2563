"""Packed columns: ids, names and values out of packed entries, without an object for any of them.

Packed entries are msgpack (`engine.packing`). Where one of its values ends follows from its first
bytes, so one run of entries can only be walked step by step. But many runs can be walked together,
one value of each in a step, and numpy does a step for all of them at once:

1. Join the runs. Behind each stands a byte that begins no value: who reaches it stays there.
2. Look up, for the two bytes at each place, how long a value would be that begins with them.
3. Walk from the beginning of each run until all have reached their ends, and mark each place.
4. The marked places, in order, are the values. Each ends where the next begins.

A run of entries is an array of them. An entry is an array of its fields, or of its id and these.
Names and values are binary, and nothing else is; an array in front of a binary begins the fields of
an entry; the numbers are ids, time and sequence in turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.engine.replies import PackedEntries

Numbers = NDArray[np.uint64]
Places = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_NEVER = 0xC1  # begins no value (msgpack's specification)
_BIN_8, _BIN_16, _BIN_32 = 0xC4, 0xC5, 0xC6
_UINTS = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}  # and how many bytes follow
_FIXED_INT_MAX = 0x7F
_HEADER_BYTES = np.zeros(256, np.int64)
_HEADER_BYTES[: _FIXED_INT_MAX + 1] = 1
_HEADER_BYTES[0x90:0xA0] = 1  # short arrays
_HEADER_BYTES[[_BIN_8, _BIN_16, _BIN_32]] = 2, 3, 5
_HEADER_BYTES[[0xDC, 0xDD]] = 3, 5  # longer arrays
for _kind, _width in _UINTS.items():
    _HEADER_BYTES[_kind] = 1 + _width

_STEPS = np.repeat(_HEADER_BYTES, 256)
"""Length of a value by its first two bytes. 0: it has a longer header, or it is the end."""
_STEPS[_BIN_8 << 8 : _BIN_16 << 8] += np.arange(256)
_STEPS[_BIN_16 << 8 : (_BIN_32 + 1) << 8] = 0

_END = bytes([_NEVER])
_STEPS_AT_ONCE = 16
"""Steps before a look for finished places, and for those before a long value."""


class Columns(NamedTuple):
    """Entries in columns."""

    ms: Numbers
    seq: Numbers
    field_ends: NDArray[np.int32]  # 0, and for each entry how many fields it and those before have
    data: Bytes
    bounds: NDArray[np.int32]  # where in `data` each name, and each value, begins and ends


def columns_of(runs: Sequence[PackedEntries], packed: Sequence[bytes]) -> Columns:
    """Return the entries of runs, in order; `packed` has each run's entries, not compressed."""
    data = np.frombuffer(b"".join(part for each in packed for part in (each, _END)), np.uint8)
    lengths = np.fromiter(map(len, packed), np.int64, len(packed))
    values = _values(data, np.cumsum(lengths + len(_END)) - lengths - len(_END))
    kinds = data[values]
    is_binary = (kinds >= _BIN_8) & (kinds <= _BIN_32)
    parts = np.flatnonzero(is_binary)
    bounds = np.empty(2 * len(parts), np.int32)
    bounds[0::2] = values[parts] + _HEADER_BYTES[kinds[parts]]
    bounds[1::2] = values[parts + 1]
    begins_fields = is_binary[1:] & ~is_binary[:-1]
    part_counts = np.cumsum(is_binary)
    firsts = part_counts[:-1][begins_fields]  # parts before the fields of each entry
    field_ends = np.append(firsts, len(parts)).astype(np.int32) // 2
    is_number = (kinds <= _FIXED_INT_MAX) | ((kinds >= min(_UINTS)) & (kinds <= max(_UINTS)))
    ms, seq = _ids(runs, _numbers(data, values[is_number]))
    return Columns(ms, seq, field_ends, data, bounds)


def _numbers(data: Bytes, at: Places) -> Numbers:
    """Return the numbers that begin at places."""
    kinds = data[at]
    numbers = kinds.astype(np.uint64)
    for kind, width in _UINTS.items():
        is_so_wide = kinds == kind
        if is_so_wide.any():
            numbers[is_so_wide] = _big_endian(data, at[is_so_wide], width)
    return numbers


def _values(data: Bytes, at: Places) -> Places:
    """Return the offsets of values, and the ends of runs, in order; `at` has the runs' offsets."""
    words = data[:-1].astype(np.uint16) << 8 | data[1:]
    words = np.append(words, np.uint16(_NEVER << 8))
    is_value = np.zeros(len(data), np.bool_)
    while len(at):
        for _ in range(_STEPS_AT_ONCE):
            is_value[at] = True
            at = at + _STEPS.take(words.take(at))
        is_value[at] = True
        at = at[data[at] != _NEVER]
        kinds = data[at]
        for kind in (_BIN_16, _BIN_32):
            is_long = kinds == kind
            if is_long.any():
                header_bytes = int(_HEADER_BYTES[kind])
                lengths = _big_endian(data, at[is_long], header_bytes - 1)
                at[is_long] += header_bytes + lengths.astype(np.int64)
    return np.flatnonzero(is_value)


def _big_endian(data: Bytes, at: Places, width: int) -> Numbers:
    """Return the numbers, so many bytes long, behind the first bytes of values."""
    numbers = np.zeros(len(at), np.uint64)
    for offset in range(1, width + 1):
        numbers = numbers << np.uint64(8) | data[at + offset]
    return numbers


def _ids(runs: Sequence[PackedEntries], numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Return the times and sequence numbers of the entries of runs.

    Args:
        runs: what has no ids of its own has ids that follow its first.
        numbers: ids that entries have themselves.
    """
    counts = np.array([run.entry_count for run in runs])
    firsts = np.array([run.first_id or (0, 0) for run in runs], np.uint64)
    places = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    ms = np.repeat(firsts[:, 0], counts)
    seq = np.repeat(firsts[:, 1], counts) + places.astype(np.uint64)
    has_own = np.repeat(np.array([run.first_id is None for run in runs]), counts)
    ms[has_own], seq[has_own] = numbers[0::2], numbers[1::2]
    return ms, seq
