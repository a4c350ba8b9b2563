"""Entry schema: the columns of a view by the JSON Schema of its stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from headgate.pipeline.views.table import type_of

_SPELLINGS = {"string": "text", "integer": "int", "number": "float", "boolean": "bool"}
_REF = "#/$defs/"


def columns_of(schema: Mapping[str, Any]) -> dict[str, pa.DataType]:
    """Return the types of the fields that a schema names, as far as it says one.

    An array or an object is a text of JSON.
    """
    spellings = {
        name: _spelling(schema, child) for name, child in schema.get("properties", {}).items()
    }
    return {name: type_of(text) for name, text in spellings.items() if text is not None}


def _spelling(root: Mapping[str, Any], schema: Any) -> str | None:
    if not isinstance(schema, Mapping):
        return None
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF).replace("~1", "/").replace("~0", "~")
        return _spelling(root, root["$defs"][name])  # a schema of a stream has no recursion
    given = schema.get("type", [])
    kinds = {given} if isinstance(given, str) else set(given)
    kinds -= {"null"} | ({"integer"} if "number" in kinds else set())
    if len(kinds) != 1:
        return None
    [kind] = kinds
    if kind == "string" and schema.get("format") == "date-time":
        return "timestamp"
    return _SPELLINGS.get(kind, "text")
