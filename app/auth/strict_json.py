"""Strict JSON: objects without duplicate members, as keys files and tokens have them."""

import json
from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json


def object_of(data: bytes) -> dict[str, Any]:
    """Return the JSON object that this is.

    Raises:
        ValueError: it is none, has a member twice, or is nested too deep.
    """
    from_json(data, allow_inf_nan=False)  # refuses what is too deep, is not UTF-8 or is no JSON
    value = json.loads(data, object_pairs_hook=_unique)
    if not isinstance(value, dict):
        raise ValueError("this is no JSON object")  # noqa: TRY004 the type is one of the text
    return value


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"the member {name!r} is there twice")
        members[name] = value
    return members
