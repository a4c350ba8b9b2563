"""Filters: which entries a reader wants, by their fields (conditions, and how they are matched)."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

import msgspec

from headgate.engine.entry import Fields
from headgate.engine.errors import Invalid, Location
from headgate.engine.limits import (
    CONDITIONS_KEPT_MAX,
    FILTER_BYTES_MAX,
    FILTER_NODES_MAX,
    LOOKED_AT_ONCE_MAX,
    NUMBER_LENGTH_MAX,
)

TextKind = Literal["exact", "prefix", "suffix"]


@dataclass(frozen=True, slots=True)
class TextCondition:
    """The value of a field is a text, or begins or ends with it."""

    name: bytes
    kind: TextKind
    text: bytes


@dataclass(frozen=True, slots=True)
class Present:
    name: bytes


@dataclass(frozen=True, slots=True)
class NumberRange:
    name: bytes
    low: float = -inf
    high: float = inf
    is_above: bool = False  # and not equal to the lower bound
    is_below: bool = False  # likewise


@dataclass(frozen=True, slots=True)
class AllOf:
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class NotThat:
    filter: Filter


Filter = TextCondition | Present | NumberRange | AllOf | AnyOf | NotThat


def names_in(condition: Filter | None) -> frozenset[bytes]:
    match condition:
        case None:
            return frozenset()
        case AllOf(filters) | AnyOf(filters):
            return frozenset().union(*map(names_in, filters))
        case NotThat(negated):
            return names_in(negated)
    return frozenset([condition.name])


def condition_count(condition: Filter) -> int:
    match condition:
        case AllOf(filters) | AnyOf(filters):
            return 1 + sum(map(condition_count, filters))
        case NotThat(negated):
            return 1 + condition_count(negated)
    return 1


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


# Reading: filters as people write them, in the dialects of CloudEvents subscriptions.
#
# A filter is a JSON object with the name of a dialect, or a list of filters that all must hold:
#
#     {"exact": {"kind": "sale"}}            the value is this text; so are `prefix` and `suffix`
# {"present": ["price"]}                 there are such fields {"range": {"price": {"ge": 1, "lt":
# 2.5}}}   a decimal number within bounds: gt, ge, lt, le {"all": […]}  {"any": […]}  {"not": {…}}
#
# Of a field that repeats, the last value counts. Numbers are compared as floating point numbers. A
# value of more than 1,000 characters is none.

_BOUNDS = {"gt", "ge", "lt", "le"}


def read_filter(text: str) -> Filter:
    """Return the filter of a JSON text; Invalid has its place in the filter as `location`."""
    if len(text.encode(errors="surrogatepass")) > FILTER_BYTES_MAX:
        raise Invalid(f"at most {FILTER_BYTES_MAX} bytes of JSON")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Invalid(f"not JSON: {error}") from None
    return _Reader().filter(value, ())


@dataclass(slots=True)
class _Reader:
    count: int = 0

    def filter(self, value: Any, place: Location) -> Filter:
        self._take(place)
        if isinstance(value, list):
            return AllOf(self._each(value, place))
        if not isinstance(value, dict) or len(value) != 1:
            raise _wrong("an object with the name of one dialect, or a list", place)
        [(dialect, inner)] = value.items()
        place = (*place, dialect)
        match dialect:
            case "all":
                return AllOf(self._each(_listed(inner, place), place))
            case "any":
                return AnyOf(self._each(_listed(inner, place), place))
            case "not":
                return NotThat(self.filter(inner, place))
            case "present":
                names = _listed([inner] if isinstance(inner, str) else inner, place)
                return self._joined([Present(_text(name, place)) for name in names], place)
            case "exact" | "prefix" | "suffix":
                return self._texts(dialect, inner, place)
            case "range":
                return self._ranges(inner, place)
        raise _wrong("exact, prefix, suffix, present, range, all, any or not", place)

    def _each(self, values: list[Any], place: Location) -> tuple[Filter, ...]:
        return tuple(self.filter(value, (*place, index)) for index, value in enumerate(values))

    def _texts(self, kind: TextKind, value: Any, place: Location) -> Filter:
        conditions: list[Filter] = [
            TextCondition(name.encode(), kind, _text(text, (*place, name)))
            for name, text in _members(value, place)
        ]
        return self._joined(conditions, place)

    def _ranges(self, value: Any, place: Location) -> Filter:
        conditions: list[Filter] = [
            _range(name.encode(), bounds, (*place, name)) for name, bounds in _members(value, place)
        ]
        return self._joined(conditions, place)

    def _joined(self, conditions: list[Filter], place: Location) -> Filter:
        for _ in conditions[1:]:
            self._take(place)
        return conditions[0] if len(conditions) == 1 else AllOf(tuple(conditions))

    def _take(self, place: Location) -> None:
        self.count += 1
        if self.count > FILTER_NODES_MAX:
            raise _wrong(f"at most {FILTER_NODES_MAX} conditions", place)


def _range(name: bytes, bounds: Any, place: Location) -> NumberRange:
    if not isinstance(bounds, dict) or not set(bounds) <= _BOUNDS:
        raise _wrong("an object with gt, ge, lt or le", place)
    if {"gt", "ge"} <= set(bounds) or {"lt", "le"} <= set(bounds):
        raise _wrong("one lower and one upper bound", place)
    given = {key: _number(bound, (*place, key)) for key, bound in bounds.items()}
    return NumberRange(
        name,
        given.get("gt", given.get("ge", -inf)),
        given.get("lt", given.get("le", inf)),
        is_above="gt" in given,
        is_below="lt" in given,
    )


def _number(value: Any, place: Location) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong("a number", place)
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _members(value: Any, place: Location) -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping) or not value:
        raise _wrong("an object with names of fields", place)
    return list(value.items())


def _listed(value: Any, place: Location) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise _wrong("a list that is not empty", place)
    return value


def _text(value: Any, place: Location) -> bytes:
    if not isinstance(value, str):
        raise _wrong("a text", place)
    return value.encode()


def _wrong(wanted: str, place: Location) -> Invalid:
    return Invalid(f"should be {wanted}", location=place)


# Matching: which entries a filter lets through, one by one.
#
# A filter becomes functions that refer to each other. They are given the values of the fields that
# the filter names, in an order that is fixed. Neighbouring entries mostly have the same names in
# the same order, so where their values stand is remembered, for all filters together.

_NUMBER = re.compile(rb"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LAYOUTS_MAX, _NAMES_MAX, _NAMES_BYTES_MAX = 64, 256, 4096
"""Orders of names whose places are remembered; names in one, and the bytes of all."""

_ENTRY_COST = 8
"""Conditions that take as long as it takes to have an entry."""

_Values = Sequence[bytes | None]
"""The last value of each name in a filter; None: the entry has no such field."""

_Test = Callable[[_Values], bool]


class Matcher:
    __slots__ = ("_names", "_test", "condition_count", "filter", "needed", "portion")

    def __init__(self, condition: Filter) -> None:
        self.filter = condition
        self.condition_count = condition_count(condition)
        self.needed = needed_bytes(condition)  # packed entries with a match have one of these
        # Entries that it is asked about before other requests run.
        self.portion = LOOKED_AT_ONCE_MAX // (_ENTRY_COST + self.condition_count)
        self._names = sorted(names_in(condition))
        self._test = _test_of(condition, {name: at for at, name in enumerate(self._names)})

    def matches(self, fields: Fields) -> bool:
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
    def __init__(self) -> None:
        self.condition_count = 0
        self._by_text: OrderedDict[str, Matcher] = OrderedDict()

    def of(self, text: str) -> Matcher:
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
