"""Ranges of ids, and conditions on fields, derived from Spark's filters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringEndsWith,
    StringStartsWith,
)

from headgate.pipeline.offsets import SEQ_MAX, Id, earlier, later, parse_id

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS_MAX = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """No row that passes the filters is outside these bounds; rows inside may still fail them.

    `streams` None means any. `id_min` and `id_max` are text: Spark compares ids as text.
    """

    streams: frozenset[str] | None = None
    ms_min: int = 0
    ms_max: int = _MS_MAX
    id_min: str | None = None
    id_max: str | None = None

    def has_stream(self, name: str) -> bool:
        return self.streams is None or name in self.streams

    def narrowed(self, after: str, to: str, first_id: str | None, last_id: str) -> tuple[str, str]:
        """Return the part of (after, to] within the bounds; it may be empty."""
        if self.ms_min > 0:
            after = later(after, str(Id(self.ms_min - 1, SEQ_MAX)))
        if self.ms_max < _MS_MAX:
            to = earlier(to, str(Id(max(self.ms_max, 0), SEQ_MAX)))
        # Text is ordered as ids are where the milliseconds have as many digits.
        width = len(str(parse_id(last_id).ms))
        if first_id is None or len(str(parse_id(max(after, first_id, key=parse_id)).ms)) != width:
            return after, to
        low, high = _ms_of(self.id_min, width), _ms_of(self.id_max, width)
        if low:
            after = later(after, str(Id(low - 1, SEQ_MAX)))
        if high is not None:
            to = earlier(to, str(Id(high, SEQ_MAX)))
        return after, to


def bounds_of(filters: Iterable[Filter], *, is_entries: bool) -> Bounds:
    """Return the bounds that a conjunction of Spark's filters implies.

    Unless `is_entries`, the schema is a user's: `_id`, `_stream`, `_timestamp` are the entry's own.
    """
    streams: frozenset[str] | None = None
    ms_min, ms_max = 0, _MS_MAX
    id_min: str | None = None
    id_max: str | None = None
    for condition in filters:
        values = _values(condition)
        if values is None:
            continue
        name, smallest, largest = values
        name = name if is_entries else name.removeprefix("_") if name.startswith("_") else ""
        if name == "stream" and isinstance(condition, EqualTo | EqualNullSafe | In):
            names = frozenset(condition.value if isinstance(condition, In) else [condition.value])
            streams = names if streams is None else streams & names
        elif name in {"ms", "timestamp"}:
            low, high = _ms(smallest), _ms(largest)
            ms_min = ms_min if low is None else max(ms_min, low)
            ms_max = ms_max if high is None else min(ms_max, high)
        elif name == "id":
            if isinstance(smallest, str):
                id_min = smallest if id_min is None else max(id_min, smallest)
            if isinstance(largest, str):
                id_max = largest if id_max is None else min(id_max, largest)
    return Bounds(streams, ms_min, ms_max, id_min, id_max)


_CONDITION_LENGTH_MAX = 3000
_CONDITIONS_MAX = 60
"""The gateway takes a little more."""


def condition_of(filters: Iterable[Filter], kinds: Mapping[str, pa.DataType]) -> list[Any] | None:
    """Return a condition for the gateway that every row passing the filters meets, or None.

    A row that meets it may still fail the filters, so Spark checks each row again.
    """
    conditions: list[Any] = []
    for each in filters:
        path: tuple[str, ...] = getattr(each, "attribute", ())
        kind = kinds.get(path[0]) if len(path) == 1 else None
        condition = None if kind is None else _condition(each, path[0], kind)
        if condition is not None and _is_small([*conditions, condition]):
            conditions.append(condition)
    return conditions or None


def _condition(condition: Any, name: str, kind: pa.DataType) -> Any:
    if isinstance(condition, IsNotNull):
        return {"present": [name]}
    if pa.types.is_string(kind):
        match condition:
            case EqualTo(value=str(text)) | EqualNullSafe(value=str(text)):
                return {"exact": {name: text}}
            case In() if condition.value and all(isinstance(text, str) for text in condition.value):
                return {"any": [{"exact": {name: text}} for text in condition.value]}
            case StringStartsWith():
                return {"prefix": {name: condition.value}}
            case StringEndsWith():
                return {"suffix": {name: condition.value}}
    values = _values(condition)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not is_number or values is None:
        return None
    _, smallest, largest = values
    bounds = {"ge": _number(smallest), "le": _number(largest)}
    given = {key: number for key, number in bounds.items() if number is not None}
    # A column takes some texts for numbers that the gateway does not.
    others = {"all": [{"present": [name]}, {"not": {"range": {name: {}}}}]}
    return {"any": [{"range": {name: given}}, others]} if given else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    number = float(value)
    return number if isfinite(number) else None


def _is_small(conditions: list[Any]) -> bool:
    text = json.dumps(conditions)
    return len(text) <= _CONDITION_LENGTH_MAX and text.count("{") <= _CONDITIONS_MAX


def _values(condition: Filter) -> tuple[str, object, object] | None:
    """Return column, smallest and largest value of a filter; None is an open bound."""
    if isinstance(condition, EqualTo | EqualNullSafe) and condition.value is not None:
        smallest, largest = condition.value, condition.value
    elif isinstance(condition, In) and condition.value and None not in condition.value:
        smallest, largest = min(condition.value), max(condition.value)
    elif isinstance(condition, GreaterThan | GreaterThanOrEqual):
        smallest, largest = condition.value, None
    elif isinstance(condition, LessThan | LessThanOrEqual):
        smallest, largest = None, condition.value
    else:
        return None
    return (condition.attribute[0], smallest, largest) if len(condition.attribute) == 1 else None


def _ms(value: object) -> int | None:
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _ms_of(text: str | None, width: int) -> int | None:
    """Return the milliseconds of an id with that many digits of them; None of any other text."""
    match = re.fullmatch(r"([0-9]+)-[0-9]+", text or "", re.ASCII)
    return int(match[1]) if match is not None and len(match[1]) == width else None
