"""Matching: which entries a filter lets through, one by one.

A filter becomes functions that refer to each other. They are given the values of the fields that
the filter names, in an order that is fixed. Neighbouring entries mostly have the same names in the
same order, so where these values stand is looked up by all names at once.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from weakref import WeakValueDictionary

from headgate.engine.entry import Fields
from headgate.engine.filters.conditions import (
    AllOf,
    AnyOf,
    Filter,
    NotThat,
    NumberRange,
    Present,
    TextCondition,
    condition_count,
    names_in,
)
from headgate.engine.filters.needed import needed_bytes
from headgate.engine.filters.reading import read_filter
from headgate.engine.limits import LOOKED_AT_ONCE_MAX, NUMBER_LENGTH_MAX

_NUMBER = re.compile(rb"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LAYOUTS_MAX, _NAMES_MAX, _NAMES_BYTES_MAX = 64, 256, 4096
"""Orders of names whose places are remembered; names in one, and the bytes of all."""

_FILTERS_KEPT = 256
"""Of those that nobody holds."""

_ENTRY_COST = 8
"""Conditions that take as long as it takes to have an entry."""

_Values = Sequence[bytes | None]
"""The last value of each name in a filter; None: the entry has no such field."""

_Test = Callable[[_Values], bool]


class Matcher:
    """A filter that is ready to be asked about entries."""

    __slots__ = (
        "__weakref__",
        "_layouts",
        "_names",
        "_test",
        "condition_count",
        "filter",
        "needed",
        "portion",
    )

    def __init__(self, condition: Filter) -> None:
        """Prepare a filter."""
        self.filter = condition
        self.condition_count = condition_count(condition)
        self.needed = needed_bytes(condition)  # packed entries with a match have one of these
        # Entries that it is asked about before other requests run.
        self.portion = LOOKED_AT_ONCE_MAX // (_ENTRY_COST + self.condition_count)
        self._names = sorted(names_in(condition))
        self._test = _test_of(condition, {name: at for at, name in enumerate(self._names)})
        self._layouts: dict[tuple[bytes, ...], Sequence[int]] = {}

    def matches(self, fields: Fields) -> bool:
        """Tell whether an entry with these fields is let through."""
        names = fields[::2]
        places = self._layouts.get(names)
        if places is None:
            places = self._places(names)
        return self._test([None if place < 0 else fields[place] for place in places])

    def _places(self, names: tuple[bytes, ...]) -> Sequence[int]:
        last = {name: 2 * at + 1 for at, name in enumerate(names)}
        places = [last.get(name, -1) for name in self._names]
        if len(names) <= _NAMES_MAX and sum(map(len, names)) <= _NAMES_BYTES_MAX:
            if len(self._layouts) >= _LAYOUTS_MAX:
                self._layouts.clear()
            self._layouts[names] = places
        return places


_matchers: WeakValueDictionary[str, Matcher] = WeakValueDictionary()
_kept: deque[Matcher] = deque(maxlen=_FILTERS_KEPT)


def matcher_of(text: str) -> Matcher:
    """Return the matcher of a filter in JSON. Whoever holds it is not given another one.

    Raises:
        Invalid: it is no filter, or too large.
    """
    matcher = _matchers.get(text)
    if matcher is None:
        matcher = _matchers[text] = Matcher(read_filter(text))
        _kept.append(matcher)
    return matcher


def _test_of(condition: Filter, places: Mapping[bytes, int]) -> _Test:
    match condition:
        case AllOf(filters):
            return _all_of([_test_of(part, places) for part in filters])
        case AnyOf(filters):
            return _any_of([_test_of(part, places) for part in filters])
        case NotThat(negated):
            test = _test_of(negated, places)
            return lambda values: not test(values)
    return _field_test(condition, places[condition.name])


def _all_of(tests: Sequence[_Test]) -> _Test:
    def all_hold(values: _Values) -> bool:
        for test in tests:  # noqa: SIM110 - a generator takes twice as long
            if not test(values):
                return False
        return True

    return tests[0] if len(tests) == 1 else all_hold


def _any_of(tests: Sequence[_Test]) -> _Test:
    def one_holds(values: _Values) -> bool:
        for test in tests:  # noqa: SIM110 - a generator takes twice as long
            if test(values):
                return True
        return False

    return tests[0] if len(tests) == 1 else one_holds


def _field_test(condition: TextCondition | Present | NumberRange, at: int) -> _Test:
    match condition:
        case TextCondition(_, "exact", text):
            return lambda values: values[at] == text
        case TextCondition(_, kind, text):
            has = bytes.startswith if kind == "prefix" else bytes.endswith
            return lambda values: (value := values[at]) is not None and has(value, text)
        case NumberRange():
            return lambda values: _is_within(condition, values[at])
    return lambda values: values[at] is not None


def _is_within(bounds: NumberRange, value: bytes | None) -> bool:
    if value is None or len(value) > NUMBER_LENGTH_MAX or not _NUMBER.fullmatch(value):
        return False
    number = float(value)
    is_above = number > bounds.low if bounds.is_above else number >= bounds.low
    return is_above and (number < bounds.high if bounds.is_below else number <= bounds.high)
