"""Ids, names and values out of packed entries, without an object for any of them.

Packed entries are MessagePack (`engine.packing`). Where one of its values ends follows from its
first bytes, so one entry can only be walked step by step. But many can be walked together, one
value of each in a step, and numpy does a step for all of them at once:

1. Join the runs. Behind each stands a byte that begins no value: who reaches it stays there.
2. Guess where the fields of each entry begin: at an array that has a binary behind it.
3. Walk from there to the ends of their fields.
4. Prove the guesses: the first entry of a run is where the run begins, each other one where the one
   before it ends, and the last one ends with the run.

Bytes in a value may look like an array. Then there are more guesses than entries, and those that
none leads to are dropped. If the guesses cannot be proven, or if entries are large, runs are walked
instead of entries:

1. Walk from the beginning of each run until all have reached their ends, and mark each place. The
   first two bytes of a value tell its length.
2. The marked places, in order, are the values. Each ends where the next begins.

A run of entries is an array of them. An entry is an array of its fields, or of its id and these.
Names and values are binary, and nothing else is; an array in front of a binary begins the fields of
an entry; the numbers are alternately the time and the sequence number of an id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

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
_SHORT_ARRAY, _ARRAY_16 = 0x90, 0xDC
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
_GUESSES_MAX = 4
"""For each entry. More would take more memory than a walk through the runs."""

_COUNT_MIN, _ENTRY_BYTES_MAX = 2, 2048
"""Runs of so few entries, larger on the average, are walked: no more bytes are looked at."""

_STEPS_MIN, _STEP_BYTES = 64, 4096
"""A step takes as long as the walk through the runs takes for so many bytes. There are as many as
the longest entry has parts, and bytes in a value may look like an entry with 65,535."""

_BYTES_AT_ONCE = 128 * 1024
"""Looked at while a core's cache has them; all at once take three times as long."""

_STEPS_AT_ONCE = 16
"""Steps before a look for finished places, and for those before a long value."""


class Columns(NamedTuple):
    ms: Numbers
    seq: Numbers
    field_ends: NDArray[np.int32]  # 0, and for each entry how many fields it and those before have
    data: Bytes
    walked: NDArray[np.int32]  # the bounds; if entries have equally many: part, two bounds, entry

    @property
    def bounds(self) -> NDArray[np.int32]:
        """Return the begin and the end of each name, and of each value, in `data`."""
        return flat_bounds(self.walked) if self.walked.ndim > 1 else self.walked


def flat_bounds(by_part: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.ascontiguousarray(by_part.transpose(2, 0, 1)).ravel()


_Walked = tuple[NDArray[np.int32], NDArray[np.int32], Numbers]
"""Ends of fields and bounds as `Columns` has them; the numbers of ids that entries have."""


def columns_of(runs: Sequence[PackedEntries], packed: Sequence[bytes]) -> Columns:
    """Return the entries of runs, in order; `packed` has each run's uncompressed entries."""
    data = np.frombuffer(b"".join(part for each in packed for part in (each, _END)), np.uint8)
    lengths = np.fromiter(map(len, packed), np.int64, len(packed))
    begins = np.cumsum(lengths + len(_END)) - lengths - len(_END)
    walked = _walked_by_entry(runs, data, begins, begins + lengths) or _walked_by_run(data, begins)
    field_ends, bounds, numbers = walked
    return Columns(*_ids(runs, numbers), field_ends, data, bounds)


def _walked_by_entry(
    runs: Sequence[PackedEntries], data: Bytes, begins: Places, ends: Places
) -> _Walked | None:
    """Return the entries of runs, or None if the guesses cannot be proven."""
    counts = np.array([run.entry_count for run in runs])
    if counts.max(initial=0) <= _COUNT_MIN and len(data) > _ENTRY_BYTES_MAX * counts.sum():
        return None
    has_ids = np.array([run.first_id is None for run in runs])
    firsts = begins + _HEADER_BYTES[data[begins]]  # entries, behind the array that is a run
    count = int(counts.sum())
    heads = _guessed(data, _GUESSES_MAX * count)
    if not count or not counts.all() or heads is None or len(heads) < count:
        return None
    part_counts = _part_counts(data, heads)
    if part_counts.max() > _STEPS_MIN + len(data) // _STEP_BYTES:
        return None
    if len(heads) > count:
        entry_ends, _ = _field_bounds(data, heads, part_counts)
        is_of_ids = has_ids[np.searchsorted(begins, heads, "right") - 1]
        is_led_to = np.zeros(len(data) + 1, np.bool_)
        for places in (_heads(data, firsts, has_ids), _heads(data, entry_ends, is_of_ids)):
            is_led_to[np.minimum(places, len(data))] = True
        heads = heads[is_led_to[heads]]
        if len(heads) != count:
            return None
        part_counts = _part_counts(data, heads)
    entry_ends, bounds = _field_bounds(data, heads, part_counts)
    entries = np.empty(count, np.int64)
    entries[1:] = entry_ends[:-1]
    entries[np.cumsum(counts) - counts] = firsts
    is_of_ids = np.repeat(has_ids, counts)
    are_heads = np.array_equal(_heads(data, entries, is_of_ids), heads)
    if not are_heads or not np.array_equal(entry_ends[np.cumsum(counts) - 1], ends):
        return None
    field_ends = np.append(0, np.cumsum(part_counts)).astype(np.int32) // 2
    times = entries[is_of_ids] + 2  # behind the arrays of the entry and of its id
    numbers = _numbers(data, np.stack([times, times + _HEADER_BYTES[data[times]]], 1).ravel())
    return field_ends, bounds, numbers


def _guessed(data: Bytes, count_max: int) -> Places | None:
    """Return the places of arrays followed by a binary, or None if there are too many."""
    guesses, count = [], 0
    for begin in range(0, len(data), _BYTES_AT_ONCE):
        part = data[begin : begin + _BYTES_AT_ONCE]
        is_array = ((part & 0xF1) == _SHORT_ARRAY) | (part == _ARRAY_16)
        arrays = np.flatnonzero(is_array) + begin
        kinds = data.take(arrays + _HEADER_BYTES[data[arrays]], mode="clip")
        guesses.append(arrays[(kinds >= _BIN_8) & (kinds <= _BIN_32)])
        count += len(guesses[-1])
        if count > count_max:
            return None
    return np.concatenate(guesses)


def _heads(data: Bytes, entries: Places, has_ids: NDArray[np.bool_]) -> Places:
    if not has_ids.any():
        return entries
    behind = entries + 2
    for _ in ("ms", "seq"):
        behind += _HEADER_BYTES[data.take(behind, mode="clip")]
    return np.where(has_ids, behind, entries)


def _part_counts(data: Bytes, heads: Places) -> Places:
    counts = (data[heads] & 0x0F).astype(np.int64)
    is_longer = data[heads] == _ARRAY_16
    if is_longer.any():
        counts[is_longer] = _big_endian(data, heads[is_longer], 2)
    return counts


def _field_bounds(
    data: Bytes, heads: Places, part_counts: Places
) -> tuple[Places, NDArray[np.int32]]:
    """Walk entries together; return their ends, and the bounds of names and values."""
    if part_counts.sum() > len(data):  # nobody has packed so many
        return np.full(len(heads), len(data)), np.empty(0, np.int32)
    if len(heads) and (part_counts == part_counts[0]).all():
        at = heads + _HEADER_BYTES[data[heads]]
        by_part = np.empty((int(part_counts[0]), 2, len(heads)), np.int32)
        for begins, ends in by_part:
            lengths = _step_in(data, at)
            begins[:] = at
            at += lengths
            ends[:] = at
        return at, by_part
    order = np.argsort(-part_counts, kind="stable")  # those that have ended are the last ones
    at = (heads + _HEADER_BYTES[data[heads]])[order]
    places = (2 * (np.cumsum(part_counts) - part_counts))[order]
    bounds = np.empty(2 * int(part_counts.sum()), np.int32)
    counts = np.bincount(part_counts)
    walking = len(heads) - np.cumsum(counts)[:-1]
    for count in walking.tolist():
        here, to = at[:count], places[:count]
        lengths = _step_in(data, here)
        bounds[to] = here
        here += lengths
        bounds[to + 1] = here
        to += 2
    ends = np.empty_like(at)
    ends[order] = at
    return ends, bounds


def _step_in(data: Bytes, at: Places) -> NDArray[np.integer[Any]]:
    """Move from the headers of binaries to their bytes; return their lengths."""
    kinds = data.take(at, mode="clip")
    lengths = data.take(at + 1, mode="clip")
    at += 2
    if (kinds == _BIN_8).all():
        return lengths
    longer = lengths.astype(np.int64)
    _find_long(data, at, kinds, longer)
    return longer


def _find_long(data: Bytes, at: Places, kinds: Bytes, lengths: Places) -> None:
    """Correct the places and lengths of long binaries; anything else is moved to the end."""
    for kind in (_BIN_16, _BIN_32):
        is_long = kinds == kind
        if is_long.any():
            more_bytes = int(_HEADER_BYTES[kind]) - 1
            lengths[is_long] = _big_endian(data, at[is_long] - 2, more_bytes)
            at[is_long] += more_bytes - 1
    is_none = (kinds < _BIN_8) | (kinds > _BIN_32)
    at[is_none], lengths[is_none] = len(data), 0


def _walked_by_run(data: Bytes, begins: Places) -> _Walked:
    values = _values(data, begins)
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
    return field_ends, bounds, _numbers(data, values[is_number])


def _numbers(data: Bytes, at: Places) -> Numbers:
    kinds = data[at]
    numbers = kinds.astype(np.uint64)
    for kind, width in _UINTS.items():
        is_so_wide = kinds == kind
        if is_so_wide.any():
            numbers[is_so_wide] = _big_endian(data, at[is_so_wide], width)
    return numbers


def _values(data: Bytes, at: Places) -> Places:
    """Return the offsets of values, and the ends of runs, in order; `at` has the runs' offsets."""
    is_value = np.zeros(len(data), np.bool_)
    while len(at):
        for _ in range(_STEPS_AT_ONCE):
            is_value[at] = True
            words = data.take(at).astype(np.uint16) << 8 | data.take(at + 1, mode="clip")
            at = at + _STEPS.take(words)
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
    numbers = np.zeros(len(at), np.uint64)
    for offset in range(1, width + 1):
        numbers = numbers << np.uint64(8) | data.take(at + offset, mode="clip")
    return numbers


def _ids(runs: Sequence[PackedEntries], numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Return the times and sequence numbers of the entries of runs.

    `numbers` are the ids that entries have themselves; in runs without ids, they follow the first
    one.
    """
    counts = np.array([run.entry_count for run in runs])
    firsts = np.array([run.first_id or (0, 0) for run in runs], np.uint64)
    places = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    ms = np.repeat(firsts[:, 0], counts)
    seq = np.repeat(firsts[:, 1], counts) + places.astype(np.uint64)
    has_own = np.repeat(np.array([run.first_id is None for run in runs]), counts)
    ms[has_own], seq[has_own] = numbers[0::2], numbers[1::2]
    return ms, seq
