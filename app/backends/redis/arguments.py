"""Arguments: a request as a function takes it, by the names of its fields (MessagePack)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict

from headgate.app.backends.redis.settings import setting_texts
from headgate.engine.config import GroupPolicy, Patch, StreamConfig
from headgate.engine.entry import EntryId

_TEXTS = {
    *("at_ms", "batch", "entries_added", "entries_read", "epoch", "expires_at_ms", "idle_ms"),
    *("retry_count", "samples", "time_ms", "ttl_ms"),
}
"""Numbers that may be any. They are texts, as a number of Lua is exact up to 2^53 only."""


def arguments(facts: Mapping[str, object]) -> bytes:
    """Return facts by their names as one argument of a function.

    A fact that is None is left out. An id is text.
    """
    return msgspec.msgpack.encode(_named(facts))


def _named(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: str(value) if name in _TEXTS else _plain(value)
        for name, value in facts.items()
        if value is not None
    }


def _plain(value: Any) -> Any:
    match value:
        case str() | int():
            return value
        case bytes():
            return _raw(value)
        case EntryId():
            return str(value)
        case list() | frozenset():
            return list(map(_plain, value))
        case tuple() if not hasattr(value, "_asdict"):
            return list(map(_plain, value))
    return _named(_fields(value))


def _fields(value: Any) -> Mapping[str, Any]:
    match value:
        case tuple():
            return value._asdict()  # type: ignore[attr-defined,no-any-return]
        case Patch():
            return setting_texts(value)
        case StreamConfig() | GroupPolicy():
            return setting_texts(Patch.to(value))
        case msgspec.Struct():
            return asdict(value)
    facts: Mapping[str, Any] = value
    return facts


def _raw(data: bytes) -> msgspec.Raw:
    """Return bytes as the servers read them: their MessagePack has no type for bytes but text."""
    size = len(data)
    if size < 1 << 5:
        head = bytes([0xA0 | size])
    elif size < 1 << 16:
        head = b"\xda" + size.to_bytes(2)
    else:
        head = b"\xdb" + size.to_bytes(4)
    return msgspec.Raw(head + data)
