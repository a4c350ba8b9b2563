"""Filters: conditions on the fields of entries, in the dialects of CloudEvents subscriptions.

A filter is a JSON object with the name of a dialect, or a list of filters that all must hold:

    {"exact": {"kind": "sale"}}            the value is this text; so are `prefix` and `suffix`
    {"present": ["price"]}                 there are such fields
    {"range": {"price": {"ge": 1, "lt": 2.5}}}   a decimal number within bounds: gt, ge, lt, le
    {"all": […]}  {"any": […]}  {"not": {…}}

Of a field that repeats, the last value counts. Numbers are compared as floating point numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, NamedTuple, Self

from pydantic_core import from_json

from headgate.app.wire.problems import GatewayError, pointer_to

FILTER_BYTES_MAX = 4096
FILTER_NODES_MAX = 64
COLUMNS_MAX = 10_000

_COLUMNS = "/query/columns"
_BOUNDS = {"gt", "ge", "lt", "le"}


@dataclass(frozen=True, slots=True)
class TextCondition:
    """The value of a field is a text, or begins or ends with it."""

    name: bytes
    kind: Literal["exact", "prefix", "suffix"]
    text: bytes


@dataclass(frozen=True, slots=True)
class Present:
    """An entry has a field."""

    name: bytes


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The value of a field is a decimal number within bounds."""

    name: bytes
    low: float = -inf
    high: float = inf
    is_above: bool = False  # and not equal to the lower bound
    is_below: bool = False  # likewise


@dataclass(frozen=True, slots=True)
class AllOf:
    """All filters hold."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of the filters holds."""

    filters: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class NotThat:
    """A filter does not hold."""

    filter: Filter


Filter = TextCondition | Present | NumberRange | AllOf | AnyOf | NotThat


class Selection(NamedTuple):
    """The part of entries that a client wants."""

    filter: Filter | None = None  # None: all entries
    columns: tuple[bytes, ...] | None = None  # names of fields; None: all of them

    @classmethod
    def parse(cls, condition: str | None, columns: str | None) -> Self:
        """Return the selection in a query.

        Args:
            condition: the parameter `filter`.
            columns: the parameter `columns`: names with commas between them, or a JSON list.

        Raises:
            GatewayError: one of them makes no sense.
        """
        return cls(
            None if condition is None else parse_filter(condition, pointer="/query/filter"),
            None if columns is None else _columns(columns),
        )


EVERYTHING = Selection()
"""All entries, with all fields."""


def _columns(text: str) -> tuple[bytes, ...]:
    names: Any = text.split(",") if text else []
    if text.startswith("["):
        try:
            names = from_json(text)
        except ValueError as error:
            raise _wrong(f"a list of names ({error})", _COLUMNS) from None
    if len(names) > COLUMNS_MAX:
        raise _wrong(f"at most {COLUMNS_MAX} names", _COLUMNS)
    return tuple(_text(name, _COLUMNS) for name in names)


def parse_filter(text: str, *, pointer: str) -> Filter:
    """Return the filter that a client has written as JSON.

    Args:
        text: of the filter.
        pointer: where it stands in the request, for errors.

    Raises:
        GatewayError: it is no filter, or too large.
    """
    if len(text.encode()) > FILTER_BYTES_MAX:
        raise GatewayError(
            "invalid_request", f"at most {FILTER_BYTES_MAX} bytes of JSON", pointer=pointer
        )
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise GatewayError("invalid_request", f"not JSON: {error}", pointer=pointer) from None
    return _Reader().filter(value, pointer)


@dataclass(slots=True)
class _Reader:
    """Reads filters, and counts them."""

    count: int = 0

    def filter(self, value: Any, pointer: str) -> Filter:
        """Return a filter, or raise where it is none."""
        self._take(pointer)
        if isinstance(value, list):
            return AllOf(self._each(value, pointer))
        if not isinstance(value, dict) or len(value) != 1:
            raise _wrong("an object with the name of one dialect, or a list", pointer)
        [(dialect, inner)] = value.items()
        pointer += pointer_to(dialect)
        match dialect:
            case "all":
                return AllOf(self._each(_listed(inner, pointer), pointer))
            case "any":
                return AnyOf(self._each(_listed(inner, pointer), pointer))
            case "not":
                return NotThat(self.filter(inner, pointer))
            case "present":
                names = _listed([inner] if isinstance(inner, str) else inner, pointer)
                return self._joined([Present(_text(name, pointer)) for name in names], pointer)
            case "exact" | "prefix" | "suffix":
                return self._texts(dialect, inner, pointer)
            case "range":
                return self._ranges(inner, pointer)
        raise _wrong("exact, prefix, suffix, present, range, all, any or not", pointer)

    def _each(self, values: list[Any], pointer: str) -> tuple[Filter, ...]:
        return tuple(
            self.filter(value, pointer + pointer_to(index)) for index, value in enumerate(values)
        )

    def _texts(
        self, kind: Literal["exact", "prefix", "suffix"], value: Any, pointer: str
    ) -> Filter:
        conditions: list[Filter] = [
            TextCondition(name.encode(), kind, _text(text, pointer + pointer_to(name)))
            for name, text in _members(value, pointer)
        ]
        return self._joined(conditions, pointer)

    def _ranges(self, value: Any, pointer: str) -> Filter:
        conditions: list[Filter] = [
            _range(name.encode(), bounds, pointer + pointer_to(name))
            for name, bounds in _members(value, pointer)
        ]
        return self._joined(conditions, pointer)

    def _joined(self, conditions: list[Filter], pointer: str) -> Filter:
        for _ in conditions[1:]:
            self._take(pointer)
        return conditions[0] if len(conditions) == 1 else AllOf(tuple(conditions))

    def _take(self, pointer: str) -> None:
        self.count += 1
        if self.count > FILTER_NODES_MAX:
            raise _wrong(f"at most {FILTER_NODES_MAX} conditions", pointer)


def _range(name: bytes, bounds: Any, pointer: str) -> NumberRange:
    if not isinstance(bounds, dict) or not set(bounds) <= _BOUNDS:
        raise _wrong("an object with gt, ge, lt or le", pointer)
    if {"gt", "ge"} <= set(bounds) or {"lt", "le"} <= set(bounds):
        raise _wrong("one lower and one upper bound", pointer)
    given = {key: _number(bound, pointer + pointer_to(key)) for key, bound in bounds.items()}
    return NumberRange(
        name,
        given.get("gt", given.get("ge", -inf)),
        given.get("lt", given.get("le", inf)),
        is_above="gt" in given,
        is_below="lt" in given,
    )


def _number(value: Any, pointer: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong("a number", pointer)
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _members(value: Any, pointer: str) -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping) or not value:
        raise _wrong("an object with names of fields", pointer)
    return list(value.items())


def _listed(value: Any, pointer: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise _wrong("a list that is not empty", pointer)
    return value


def _text(value: Any, pointer: str) -> bytes:
    if not isinstance(value, str):
        raise _wrong("a text", pointer)
    return value.encode(errors="surrogatepass")


def _wrong(wanted: str, pointer: str) -> GatewayError:
    return GatewayError("invalid_request", f"should be {wanted}", pointer=pointer)
