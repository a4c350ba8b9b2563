"""Reading: filters as people write them, in the dialects of CloudEvents subscriptions.

A filter is a JSON object with the name of a dialect, or a list of filters that all must hold:

    {"exact": {"kind": "sale"}}            the value is this text; so are `prefix` and `suffix`
    {"present": ["price"]}                 there are such fields
    {"range": {"price": {"ge": 1, "lt": 2.5}}}   a decimal number within bounds: gt, ge, lt, le
    {"all": […]}  {"any": […]}  {"not": {…}}

Of a field that repeats, the last value counts. Numbers are compared as floating point numbers.
A value of more than 1,000 characters is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import msgspec

from headgate.engine.errors import Invalid, Location
from headgate.engine.filters.conditions import (
    AllOf,
    AnyOf,
    Filter,
    NotThat,
    NumberRange,
    Present,
    TextCondition,
    TextKind,
)
from headgate.engine.limits import FILTER_BYTES_MAX, FILTER_NODES_MAX

_BOUNDS = {"gt", "ge", "lt", "le"}


def read_filter(text: str) -> Filter:
    """Return the filter of a JSON text.

    Raises:
        Invalid: it is no filter, or too large. `location` is the place in the filter.
    """
    if len(text.encode(errors="surrogatepass")) > FILTER_BYTES_MAX:
        raise Invalid(f"at most {FILTER_BYTES_MAX} bytes of JSON")
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Invalid(f"not JSON: {error}") from None
    return _Reader().filter(value, ())


@dataclass(slots=True)
class _Reader:
    """Reads filters, and counts them."""

    count: int = 0

    def filter(self, value: Any, place: Location) -> Filter:
        """Return a filter, or raise where it is none."""
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
