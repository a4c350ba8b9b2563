"""Arguments: a request as a function takes it, by the names of its fields (MessagePack)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict

from headgate.app.backends.redis.settings import setting_texts
from headgate.engine.config import GroupPolicy, Patch, StreamConfig
from headgate.engine.entry import EntryId
from headgate.engine.limits import ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX
from headgate.engine.requests.attributes import AttributeChange
from headgate.engine.requests.names import NameFilter

_TEXTS = {
    *(
        "at_ms",
        "batch",
        "closed_at_ms",
        "entries_added",
        "entries_read",
        "epoch",
        "expires_at_ms",
        "idle_ms",
    ),
    *("retry_count", "samples", "time_ms", "ttl_ms"),
}
"""Numbers that may be any. They are texts, as a number of Lua is exact up to 2^53 only."""

_encode = msgspec.msgpack.Encoder().encode


def arguments(facts: Mapping[str, object]) -> bytes:
    """Return facts by their names as one argument of a function.

    A fact that is None is left out. An id is text.
    """
    return _encode(_named(facts))


def _named(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: str(value) if name in _TEXTS else _plain(value)
        for name, value in facts.items()
        if value is not None
    }


def _plain(value: Any) -> Any:
    form = _FORMS.get(type(value))
    if form is not None:
        return form(value)
    return _named(value._asdict()) if hasattr(value, "_asdict") else value


def change_argument(change: AttributeChange | None) -> dict[str, object] | None:
    """Return a change of attributes as our functions take it: names and values in turn."""
    if change is None:
        return None
    values, expected = change
    return {
        "values": [part for pair in values.items() if pair[1] is not None for part in pair],
        "gone": [name for name, value in values.items() if value is None],
        "expected": [part for pair in expected.items() if pair[1] is not None for part in pair],
        "absent": [name for name, value in expected.items() if value is None],
        "count_max": ATTRIBUTES_MAX,
        "bytes_max": ATTRIBUTES_BYTES_MAX,
    }


def _raw(data: bytes) -> msgspec.Raw:
    """Return bytes as the servers read them: their MessagePack has no type for bytes but text."""
    size = len(data)
    if size < 1 << 5:
        head = bytes((0xA0 | size,))
    elif size < 1 << 16:
        head = b"\xda" + size.to_bytes(2)
    else:
        head = b"\xdb" + size.to_bytes(4)
    return msgspec.Raw(head + data)


def _listed(values: Iterable[Any]) -> list[Any]:
    return list(map(_plain, values))


_FORMS: dict[type, Callable[[Any], Any]] = {
    bytes: _raw,
    EntryId: str,
    **dict.fromkeys((list, tuple, frozenset), _listed),
    dict: _named,
    Patch: lambda patch: _named(setting_texts(patch)),
    **dict.fromkeys(
        (StreamConfig, GroupPolicy), lambda value: _named(setting_texts(Patch.to(value)))
    ),
    NameFilter: lambda names: _named(asdict(names)),
}
"""The plain form of a value, by its type. A tuple with names is a map; all else is as it is."""
