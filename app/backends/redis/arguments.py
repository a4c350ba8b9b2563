"""Arguments: a request as a function takes it, by the names of its fields (MessagePack)."""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.engine.entry import EntryId
from headgate.engine.requests import Request


def arguments(request: Request[Any], **more: object) -> bytes:
    """Return the fields of a request, and more, as one argument of a function.

    A field that is None is left out. An id is text, as a number of Lua is exact up to 2^53 only.

    Args:
        request: what is to be done.
        more: what else the function has to know, or other values of fields.
    """
    fields = {**msgspec.structs.asdict(request), **more}
    return msgspec.msgpack.encode(
        {name: _plain(value) for name, value in fields.items() if value is not None}
    )


def _plain(value: Any) -> Any:
    match value:
        case EntryId():
            return str(value)
        case bytes():
            return _raw(value)
        case list() | tuple():
            return list(map(_plain, value))
        case dict():
            return {name: _plain(item) for name, item in value.items()}
    return value


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
