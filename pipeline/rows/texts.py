"""Texts: values of columns as the fields of an entry hold them.

Arrays, structs and maps have no text of their own; by option they become JSON, as Spark's `to_json`
writes it: no spaces, and no null in a struct.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

_NO_NUMBERS = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def text_of_column(values: pa.Array, *, nested_as_json: bool = False) -> pa.Array:
    """Return values as fields hold them: text, in bytes; times as ISO 8601.

    Raises:
        ArrowNotImplementedError: they have no text.
    """
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
    """Return values as JSON, null where they are null."""
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
    """Return the items of each list, with commas between."""
    return [",".join(items[begin:end]) for begin, end in pairwise(values.offsets.to_pylist())]


def _plain(values: pa.Array) -> list[str]:
    """Return values without parts as text, empty where they are null; bytes are base64."""
    if pa.types.is_nested(values.type):
        return [text or "" for text in _json(values)]
    raw = text_of_column(values).to_pylist()
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        return [base64.b64encode(value or b"").decode() for value in raw]
    return [(value or b"").decode() for value in raw]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(text: str) -> str:
    """Return a number as JSON, which has no word for those that are none."""
    return _NO_NUMBERS.get(text, text)
