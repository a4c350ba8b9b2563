"""Needed bytes: what tells that packed entries have no match, before one of them is unpacked."""

from __future__ import annotations

import msgspec

from headgate.engine.filters.conditions import (
    AllOf,
    AnyOf,
    Filter,
    NumberRange,
    Present,
    TextCondition,
)


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
