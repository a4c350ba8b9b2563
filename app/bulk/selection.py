"""Selection: the entries and fields of a bulk read that are sent. It needs pyarrow and numpy.

The conditions of a filter are looked at for all entries of a batch at once:

1. A run of packed entries that cannot have a match is left out before it is looked into: a match
   needs some bytes, such as a name with its value behind it.
2. For each name in the filter, the fields of that name are found, and a condition gives for each of
   them whether it holds. An entry without the field has no match. Of a field that repeats, the last
   one counts.
3. What is left is copied: the entries for which the filter holds, with the fields that are wanted.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headgate.app.bulk.packed_columns import Columns
from headgate.app.wire.filters import (
    AllOf,
    AnyOf,
    Filter,
    NotThat,
    NumberRange,
    Present,
    Selection,
    TextCondition,
)

Mask = NDArray[np.bool_]

_NUMBER = r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_TEXT_TESTS = {"exact": pc.equal, "prefix": pc.starts_with, "suffix": pc.ends_with}


def needed_bytes(condition: Filter | None) -> tuple[bytes, ...]:
    """Return bytes of which packed entries with a match have one; nothing: they may have any."""
    match condition:
        case TextCondition(name, "exact", text):
            return (_packed(name) + _packed(text),)
        case TextCondition(name) | Present(name) | NumberRange(name):
            return (_packed(name),)
        case AllOf(filters):
            each = [needed for part in filters if (needed := needed_bytes(part))]
            return max(each, key=lambda needed: min(map(len, needed)), default=())
        case AnyOf(filters):
            each = [needed_bytes(part) for part in filters]
            return tuple(text for needed in each for text in needed) if all(each) else ()
    return ()


def _packed(text: bytes) -> bytes:
    return msgspec.msgpack.encode(text)


class FieldTable:
    """The names and values of the fields of some entries, copied when they are needed."""

    def __init__(self, columns: Columns) -> None:
        """Take the fields of all entries."""
        self.field_ends = columns.field_ends
        # Each two bounds enclose a name or a value in turns. So Arrow sees an array in which every
        # second piece is what msgpack has between them; it takes the others, without Python.
        count = len(columns.bounds)
        buffers = [None, pa.py_buffer(columns.bounds), pa.py_buffer(columns.data)]
        self._pieces = pa.Array.from_buffers(pa.binary(), max(count - 1, 0), buffers)
        self._places = np.arange(count // 4)  # of the fields that are left
        self._numbers: dict[bytes, tuple[Mask, NDArray[np.float64]]] = {}

    @cached_property
    def names(self) -> Any:
        """Return the names of all fields, an Arrow array."""
        return self._taken(self._places, 0)

    @property
    def left(self) -> tuple[Any, Any]:
        """Return the names and values of the fields that are left, as Arrow arrays."""
        return self._taken(self._places, 0), self._taken(self._places, 2)

    def select(self, selection: Selection) -> Mask:
        """Drop the entries and fields that are not wanted; returns which entries stay."""
        condition, columns = selection
        count = len(self.field_ends) - 1
        matches = np.ones(count, np.bool_)
        keeps = np.zeros(len(self._places), np.bool_)
        if condition is not None:
            matches = self._matches(condition)
        if matches.any() and columns != ():
            keeps = matches[self._entries]
            if columns is not None:
                wanted = pa.array(columns, pa.binary())
                keeps &= _as_mask(pc.is_in(self.names, value_set=wanted))
        kept = np.append(0, np.cumsum(keeps))[self.field_ends]
        self.field_ends = np.append(0, kept[1:][matches]).astype(np.int32)
        self._places = np.flatnonzero(keeps)
        return matches

    @cached_property
    def _entries(self) -> NDArray[np.int64]:
        """Return the number of the entry of each field."""
        return np.repeat(np.arange(len(self.field_ends) - 1), np.diff(self.field_ends))

    def _taken(self, places: NDArray[np.int64], part: Literal[0, 2]) -> Any:
        """Return the names, or the values, of fields."""
        return pc.take(self._pieces, pa.array(4 * places + part), boundscheck=False)

    def _matches(self, condition: Filter) -> Mask:
        match condition:
            case AllOf(filters):
                matches = np.ones(len(self.field_ends) - 1, np.bool_)
                for part in filters:
                    matches &= self._matches(part)
                return matches
            case AnyOf(filters):
                matches = np.zeros(len(self.field_ends) - 1, np.bool_)
                for part in filters:
                    matches |= self._matches(part)
                return matches
            case NotThat(negated):
                return ~self._matches(negated)
        places = np.flatnonzero(_as_mask(pc.equal(self.names, condition.name)))
        matches = np.zeros(len(self.field_ends) - 1, np.bool_)
        matches[self._entries[places]] = self._holds(condition, places)  # the last of equal ones
        return matches

    def _holds(
        self, condition: TextCondition | Present | NumberRange, places: NDArray[np.int64]
    ) -> Mask:
        """Return which values of a name meet a condition."""
        match condition:
            case TextCondition(_, kind, text):
                return _as_mask(_TEXT_TESTS[kind](self._taken(places, 2), text))
            case NumberRange(name):
                if name not in self._numbers:
                    self._numbers[name] = _numbers(self._taken(places, 2))
                is_number, numbers = self._numbers[name]
                holds = is_number.copy()
                holds[is_number] = _are_within(condition, numbers)
                return holds
        return np.ones(len(places), np.bool_)


def _numbers(values: Any) -> tuple[Mask, NDArray[np.float64]]:
    """Return which values are decimal numbers, and these numbers."""
    is_number = _as_mask(pc.match_substring_regex(values, _NUMBER))
    written = values.filter(pa.array(is_number)).cast(pa.string())
    return is_number, written.cast(pa.float64()).to_numpy(zero_copy_only=False)


def _are_within(bounds: NumberRange, numbers: NDArray[np.float64]) -> Mask:
    above = numbers > bounds.low if bounds.is_above else numbers >= bounds.low
    below = numbers < bounds.high if bounds.is_below else numbers <= bounds.high
    return above & below


def _as_mask(flags: Any) -> Mask:
    mask: Mask = flags.to_numpy(zero_copy_only=False)
    return mask
