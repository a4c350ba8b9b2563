"""Matching: which entries a filter lets through, one by one.

A filter becomes functions that refer to each other. They are given the values of the fields that
the filter names, in an order that is fixed. Neighbouring entries mostly have the same names in the
same order, so where their values stand is remembered, for all filters together.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

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
from headgate.engine.limits import CONDITIONS_KEPT_MAX, LOOKED_AT_ONCE_MAX, NUMBER_LENGTH_MAX

_NUMBER = re.compile(rb"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LAYOUTS_MAX, _NAMES_MAX, _NAMES_BYTES_MAX = 64, 256, 4096
"""Orders of names whose places are remembered; names in one, and the bytes of all."""

_ENTRY_COST = 8
"""Conditions that take as long as it takes to have an entry."""

_Values = Sequence[bytes | None]
"""The last value of each name in a filter; None: the entry has no such field."""

_Test = Callable[[_Values], bool]


class Matcher:
    """A filter that is ready to be asked about entries."""

    __slots__ = (
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

    def matches(self, fields: Fields) -> bool:
        """Tell whether an entry with these fields is let through."""
        places = _places_in(fields)
        found_places = map(places.get, self._names)
        return self._test([None if place is None else fields[place] for place in found_places])


_layouts: dict[tuple[bytes, ...], Mapping[bytes, int]] = {}


def _places_in(fields: Fields) -> Mapping[bytes, int]:
    """Return the place of the last value of each name."""
    names = fields[::2]
    places = _layouts.get(names)
    if places is None:
        places = {name: 2 * at + 1 for at, name in enumerate(names)}
        if len(names) <= _NAMES_MAX and sum(map(len, names)) <= _NAMES_BYTES_MAX:
            if len(_layouts) >= _LAYOUTS_MAX:
                _layouts.clear()
            _layouts[names] = places
    return places


class Matchers:
    """The matchers of the filters that were used last, as many as there is room for."""

    def __init__(self) -> None:
        """Start empty."""
        self.condition_count = 0
        self._by_text: OrderedDict[str, Matcher] = OrderedDict()

    def of(self, text: str) -> Matcher:
        """Return the matcher of a filter in JSON.

        Raises:
            Invalid: it is no filter, or too large.
        """
        matcher = self._by_text.get(text)
        if matcher is not None:
            self._by_text.move_to_end(text)
            return matcher
        matcher = self._by_text[text] = Matcher(read_filter(text))
        self.condition_count += matcher.condition_count
        while self.condition_count > CONDITIONS_KEPT_MAX:
            self.condition_count -= self._by_text.popitem(last=False)[1].condition_count
        return matcher


matcher_of = Matchers().of


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
