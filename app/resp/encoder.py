"""Encoder: replies as RESP2 and RESP3 (https://redis.io/docs/latest/develop/reference/protocol-spec)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from headgate.app.redis_syntax.errors import exact_error_text
from headgate.app.redis_syntax.replies import (
    KeyedArrays,
    Members,
    NullArray,
    Pairs,
    Reply,
    Status,
    Verbatim,
)
from headgate.engine.errors import StreamError

RESP2, RESP3 = 2, 3

_ITEMS_AT_ONCE = 64
"""Items of the outermost array that are written at once."""

_PIECE_BYTES = 256 * 1024
"""Fewer, if they are larger together."""

_COPIED_BYTES_MAX = 64 * 1024
"""A value up to this size is copied to go with what is around it; a larger one is sent as it is."""


def error_reply(text: str) -> bytes:
    """Return the reply of a command that has failed. A text has one line.

    Surrogates in the text stand for bytes (PEP 383).
    """
    line = text.replace("\r", " ").replace("\n", " ")
    return b"-%b\r\n" % line.encode(errors="surrogateescape")


def encode(reply: Reply | StreamError, protocol: int) -> list[bytes]:
    """Return the parts of a reply. An array that may be large is written by `pieces`."""
    parts: list[bytes] = []
    _write(parts, reply, protocol)
    return parts


def pieces(reply: list[Any], protocol: int) -> Iterator[Sequence[bytes]]:
    """Yield an array in parts, those of some of its items at a time, or of one that is large."""
    parts, count, size_bytes = [_header(reply, protocol)], 0, 0
    items: Sequence[Any] = reply
    if protocol == RESP3 and isinstance(reply, KeyedArrays):
        items = [part for pair in cast("Any", reply) for part in pair]  # of two each
    for item in items:
        before = len(parts)
        _write(parts, item, protocol)
        count += 1
        size_bytes += sum(map(len, parts[before:]))
        if count == _ITEMS_AT_ONCE or size_bytes > _PIECE_BYTES:
            yield list(joined(parts))
            parts, count, size_bytes = [], 0, 0
    yield list(joined(parts))


def joined(parts: Sequence[bytes]) -> Iterator[bytes]:
    """Yield parts joined to as few as there can be without a copy of what is large."""
    at = 0
    for end, part in enumerate(parts):
        if len(part) > _COPIED_BYTES_MAX:
            if at < end:
                yield b"".join(parts[at:end])
            yield part
            at = end + 1
    if at < len(parts):
        yield b"".join(parts[at:])


def _header(reply: Sequence[Reply], protocol: int) -> bytes:
    if protocol == RESP3:
        if isinstance(reply, Pairs):
            return b"%%%d\r\n" % (len(reply) // 2)
        if isinstance(reply, KeyedArrays):
            return b"%%%d\r\n" % len(reply)
        if isinstance(reply, Members):
            return b"~%d\r\n" % len(reply)
    return b"*%d\r\n" % len(reply)


def _write(parts: list[bytes], reply: Any, protocol: int) -> None:
    kind = type(reply)
    if kind is bytes:
        _write_text(parts, reply)
    elif kind is int:
        parts.append(b":%d\r\n" % reply)
    elif kind is list:
        parts.append(b"*%d\r\n" % len(reply))
        for item in reply:
            if type(item) is bytes and len(item) <= _COPIED_BYTES_MAX:
                parts.append(b"$%d\r\n%b\r\n" % (len(item), item))
            else:
                _write(parts, item, protocol)
    elif kind in (Pairs, KeyedArrays, Members):
        parts.append(_header(reply, protocol))
        is_map = protocol == RESP3 and kind is KeyedArrays
        for item in (part for pair in reply for part in pair) if is_map else reply:
            _write(parts, item, protocol)
    else:
        parts.append(_scalar(reply, protocol))


def _write_text(parts: list[bytes], text: bytes) -> None:
    if len(text) > _COPIED_BYTES_MAX:
        parts += b"$%d\r\n" % len(text), text, b"\r\n"
    else:
        parts.append(b"$%d\r\n%b\r\n" % (len(text), text))


def _scalar(  # noqa: PLR0911 a case for each kind
    reply: Any, protocol: int
) -> bytes:
    if reply is None:
        return b"_\r\n" if protocol == RESP3 else b"$-1\r\n"
    if isinstance(reply, NullArray):
        return b"_\r\n" if protocol == RESP3 else b"*-1\r\n"
    if isinstance(reply, Status):
        return b"+%b\r\n" % reply.encode(errors="replace")
    if isinstance(reply, Verbatim):
        if protocol == RESP3:
            return b"=%d\r\ntxt:%b\r\n" % (len(reply) + 4, reply)
        return b"$%d\r\n%b\r\n" % (len(reply), reply)
    if isinstance(reply, StreamError):
        return error_reply(exact_error_text(reply))
    if isinstance(reply, bool | int):
        return b":%d\r\n" % reply
    if isinstance(reply, bytes):
        return b"$%d\r\n%b\r\n" % (len(reply), reply)
    parts = (part for item in reply for part in encode(item, protocol))
    return b"*%d\r\n%b" % (len(reply), b"".join(parts))
