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

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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
    """The names and values of the fields of some entries."""

    def __init__(self, names: Any, values: Any, field_ends: NDArray[np.int32]) -> None:
        """Take the fields of all entries.

        Args:
            names: of fields, an Arrow array.
            values: likewise.
            field_ends: 0, and for each entry the number of fields that it and those before have.
        """
        self.count = len(field_ends) - 1
        self.names = names
        self.values = values
        self._entries = np.repeat(np.arange(self.count), np.diff(field_ends))

    def select(self, selection: Selection) -> Mask:
        """Drop the entries and fields that are not wanted; returns which entries stay."""
        condition, columns = selection
        matches = np.ones(self.count, np.bool_) if condition is None else self._matches(condition)
        keeps = matches[self._entries]
        if columns is not None:
            wanted = pa.array(columns, pa.binary())
            keeps = keeps & _as_mask(pc.is_in(self.names, value_set=wanted))
        if not keeps.all():
            places = pa.array(np.flatnonzero(keeps))
            self.names, self.values = self.names.take(places), self.values.take(places)
            self._entries = self._entries[keeps]
        numbers = np.cumsum(matches) - 1  # of the entries that stay
        self._entries = numbers[self._entries]
        self.count = int(matches.sum())
        return matches

    @property
    def field_ends(self) -> NDArray[np.int32]:
        """Return 0, and for each entry the number of fields that it and those before have."""
        counts = np.bincount(self._entries, minlength=self.count)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    def _matches(self, condition: Filter) -> Mask:
        match condition:
            case AllOf(filters):
                matches = np.ones(self.count, np.bool_)
                for part in filters:
                    matches &= self._matches(part)
                return matches
            case AnyOf(filters):
                matches = np.zeros(self.count, np.bool_)
                for part in filters:
                    matches |= self._matches(part)
                return matches
            case NotThat(negated):
                return ~self._matches(negated)
        places = np.flatnonzero(_as_mask(pc.equal(self.names, condition.name)))
        matches = np.zeros(self.count, np.bool_)
        holds = _holds(condition, self.values.take(pa.array(places)))
        matches[self._entries[places]] = holds  # of equal entries the last one stays
        return matches


def _holds(condition: TextCondition | Present | NumberRange, values: Any) -> Mask:
    """Return the values that meet a condition."""
    match condition:
        case TextCondition(_, kind, text):
            return _as_mask(_TEXT_TESTS[kind](values, text))
        case NumberRange():
            return _within(condition, values)
    return np.ones(len(values), np.bool_)


def _within(bounds: NumberRange, values: Any) -> Mask:
    is_number = _as_mask(pc.match_substring_regex(values, _NUMBER))
    written = values.filter(pa.array(is_number)).cast(pa.string())
    numbers = written.cast(pa.float64()).to_numpy(zero_copy_only=False)
    above = numbers > bounds.low if bounds.is_above else numbers >= bounds.low
    below = numbers < bounds.high if bounds.is_below else numbers <= bounds.high
    is_number[is_number] = above & below
    return is_number


def _as_mask(flags: Any) -> Mask:
    mask: Mask = flags.to_numpy(zero_copy_only=False)
    return mask
