"""JSON objects without duplicate members, as in keys files and tokens."""

import json
from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json


def object_of(data: bytes) -> dict[str, Any]:
    """Parse a JSON object; ValueError: it is none, repeats a member, or is too deeply nested."""
    from_json(data, allow_inf_nan=False)  # refuses what is too deep, is not UTF-8 or is no JSON
    value = json.loads(data, object_pairs_hook=_unique)
    if not isinstance(value, dict):
        raise ValueError("should be a JSON object")  # noqa: TRY004 the type is one of the text
    return value


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the member {name!r} occurs twice")
        members[name] = value
    return members
