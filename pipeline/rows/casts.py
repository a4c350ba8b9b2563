"""Casts of fields: values of entries as a column type, and the values that do not fit.

Everything here works on columns: raw values are binary, and null where an entry lacks the field.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Texts: values of columns as the fields of an entry hold them.
#
# Arrays, structs and maps have no text of their own; by option they become JSON, as Spark's
# `to_json` writes it: no spaces, and no null in a struct.

_NO_NUMBERS = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def text_of_column(values: pa.Array, *, nested_as_json: bool = False) -> pa.Array:
    """Return values as text in bytes, times as ISO 8601; may raise ArrowNotImplementedError."""
    if pa.types.is_nested(values.type):
        if not nested_as_json:
            raise pa.ArrowNotImplementedError(str(values.type))
        return pa.array(_json(values), pa.string()).cast(pa.binary())
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        return values.cast(pa.binary())
    text = values.cast(pa.string())
    if pa.types.is_timestamp(values.type):
        text = pc.replace_substring(text, " ", "T", max_replacements=1)
    return text.cast(pa.binary())


def _json(values: pa.Array) -> list[str | None]:
    kind = values.type
    if pa.types.is_struct(kind):
        texts = _structs(values)
    elif pa.types.is_map(kind):
        names = [_quoted(name) for name in _plain(values.keys)]
        items = [item or "null" for item in _json(values.items)]
        pairs = [f"{name}:{item}" for name, item in zip(names, items, strict=True)]
        texts = [f"{{{part}}}" for part in _parts(values, pairs)]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = [item or "null" for item in _json(values.values)]
        texts = [f"[{part}]" for part in _parts(values, items)]
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        texts = _plain(values)
    else:
        write = _number if pa.types.is_floating(kind) else _quoted
        texts = [write(text) for text in _plain(values)]
    is_valid = values.is_valid().to_pylist()
    return [text if valid else None for text, valid in zip(texts, is_valid, strict=True)]


def _structs(values: pa.StructArray) -> list[str]:
    """Return structs as JSON, without their nulls."""
    texts: list[list[str]] = [[] for _ in range(len(values))]
    for field, column in zip(values.type, values.flatten(), strict=True):
        name = _quoted(field.name)
        for members, item in zip(texts, _json(column), strict=True):
            if item is not None:
                members.append(f"{name}:{item}")
    return [f"{{{','.join(members)}}}" for members in texts]


def _parts(values: pa.Array, items: Sequence[str]) -> list[str]:
    return [",".join(items[begin:end]) for begin, end in pairwise(values.offsets.to_pylist())]


def _plain(values: pa.Array) -> list[str]:
    """Return scalars as text, empty where they are null; bytes as base64."""
    if pa.types.is_nested(values.type):
        return [text or "" for text in _json(values)]
    raw = text_of_column(values).to_pylist()
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        return [base64.b64encode(value or b"").decode() for value in raw]
    return [(value or b"").decode() for value in raw]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(text: str) -> str:
    """Return a number as JSON; NaN and infinity, which it lacks, in a form it has."""
    return _NO_NUMBERS.get(text, text)


BASE64 = "base64:"
"""Begins a value that is no text."""

ZONED = r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
"""A time that says its zone."""

_INFINITE = r"^[+-]?(?i:inf|infinity)$"
_Way = Callable[[pa.Array], pa.Array]


def cast_fields(raw: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, pa.Array | None]:
    """Return a column of a type, null at misfits, and the raw misfits (None: there are none)."""
    ways = ways_of(wanted)
    try:
        return ways[0](raw), None
    except pa.ArrowInvalid:
        pass
    # What does not fit is seldom, or is always the same: look at each value once, by halves.
    encoded = raw.dictionary_encode()
    pieces = _cast_by_halves(encoded.dictionary, wanted, ways)
    fitting = pa.concat_arrays(pieces).take(encoded.indices)
    is_misfit = pc.and_(raw.is_valid(), fitting.is_null())
    if not pc.any(is_misfit).as_py():
        return fitting, None
    return fitting, pc.if_else(is_misfit, raw, pa.scalar(None, pa.binary()))


def ways_of(wanted: pa.DataType) -> list[_Way]:
    """Return the conversions to a type, the usual one first; each raises ArrowInvalid."""

    def as_wanted(raw: pa.Array) -> pa.Array:
        return raw.cast(pa.string()).cast(wanted)

    def as_number(raw: pa.Array) -> pa.Array:
        texts = raw.cast(pa.string())
        numbers = texts.cast(wanted)
        is_beyond = pc.and_(
            pc.is_inf(numbers), pc.invert(pc.match_substring_regex(texts, _INFINITE))
        )
        if pc.any(is_beyond).as_py():
            raise pa.ArrowInvalid("a number is beyond those of its type")
        return numbers

    def as_decimal(raw: pa.Array) -> pa.Array:
        wide = pa.decimal256(76, wanted.scale)  # Arrow lets digits of 128 bits overflow
        return raw.cast(pa.string()).cast(wide).cast(wanted)

    def as_time(raw: pa.Array) -> pa.Array:
        texts = raw.cast(pa.string())
        is_zoned = pc.match_substring_regex(texts, ZONED)
        without = pc.if_else(is_zoned, None, texts).cast(pa.timestamp("us")).cast(wanted)
        return pc.coalesce(pc.if_else(is_zoned, texts, None).cast(wanted), without)

    if pa.types.is_binary(wanted):
        return [lambda raw: raw]
    if pa.types.is_timestamp(wanted):
        return [as_wanted, as_time]
    if pa.types.is_decimal128(wanted):
        return [as_decimal]
    return [as_number if pa.types.is_float32(wanted) or pa.types.is_float64(wanted) else as_wanted]


def rescued(misfits: Mapping[str, pa.Array], count: int) -> pa.Array:
    """Return per row the values that did not fit, as JSON by name; null if all did."""
    by_row: dict[int, dict[str, str]] = {}
    for name, values in misfits.items():
        for row in np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False)).tolist():
            by_row.setdefault(row, {})[name] = text_of(values[row].as_py())
    texts: list[str | None] = [None] * count
    for row, values_by_name in by_row.items():
        texts[row] = json.dumps(values_by_name, ensure_ascii=False)
    return pa.array(texts, pa.string())


def text_of(value: bytes) -> str:
    """Return a value as text; invalid UTF-8 as base64, marked as such."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return BASE64 + base64.b64encode(value).decode()


def decoded(values: pa.Array) -> pa.Array:
    """Return bytes as text; what is no UTF-8 has replacement characters."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        coded = values.dictionary_encode()
        texts = [value.decode(errors="replace") for value in coded.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(coded.indices)


def _cast_by_halves(values: pa.Array, wanted: pa.DataType, ways: Sequence[_Way]) -> list[pa.Array]:
    for way in ways:
        try:
            return [way(values)]
        except pa.ArrowInvalid:
            continue
    if len(values) == 1:
        return [pa.nulls(1, wanted)]
    half = len(values) // 2
    return _cast_by_halves(values[:half], wanted, ways) + _cast_by_halves(
        values[half:], wanted, ways
    )
