"""Conditions: the parts of a filter, as values."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

TextKind = Literal["exact", "prefix", "suffix"]


@dataclass(frozen=True, slots=True)
class TextCondition:
    """The value of a field is a text, or begins or ends with it."""

    name: bytes
    kind: TextKind
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


def names_in(condition: Filter | None) -> frozenset[bytes]:
    """Return the names of the fields that a condition looks at."""
    match condition:
        case None:
            return frozenset()
        case AllOf(filters) | AnyOf(filters):
            return frozenset().union(*map(names_in, filters))
        case NotThat(negated):
            return names_in(negated)
    return frozenset([condition.name])


def condition_count(condition: Filter) -> int:
    """Return how many conditions a filter has, with those that others are made of."""
    match condition:
        case AllOf(filters) | AnyOf(filters):
            return 1 + sum(map(condition_count, filters))
        case NotThat(negated):
            return 1 + condition_count(negated)
    return 1
