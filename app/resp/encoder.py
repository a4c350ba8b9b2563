"""Encoder: replies as RESP2 and RESP3 (https://redis.io/docs/latest/develop/reference/protocol-spec)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from headgate.app.backends.port import (
    KeyedArrays,
    Members,
    NullArray,
    Pairs,
    Reply,
    Status,
    Verbatim,
)
from headgate.app.redis_syntax.errors import exact_error_text
from headgate.engine.errors import StreamError

RESP2, RESP3 = 2, 3

_ITEMS_AT_ONCE = 64
"""Items of the outermost array that are written at once."""

_PIECE_BYTES = 256 * 1024
"""Fewer, if they are larger together."""


def error_reply(text: str) -> bytes:
    """Return the reply of a command that has failed. A text has one line.

    Surrogates in the text stand for bytes (PEP 383).
    """
    line = text.replace("\r", " ").replace("\n", " ")
    return b"-%b\r\n" % line.encode(errors="surrogateescape")


def encode(reply: Reply | StreamError, protocol: int) -> bytes:
    """Return a reply as bytes. An array that may be large is written by `pieces`."""
    if type(reply) is bytes:
        return b"$%d\r\n%b\r\n" % (len(reply), reply)
    if type(reply) is int:
        return b":%d\r\n" % reply
    parts: list[bytes] = []
    _write(parts, reply, protocol)
    return b"".join(parts)


def pieces(reply: list[Any], protocol: int) -> Iterator[bytes]:
    """Yield an array as bytes, some of its items at a time, or one that is large."""
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
            yield b"".join(parts)
            parts, count, size_bytes = [], 0, 0
    yield b"".join(parts)


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
        parts.append(b"$%d\r\n%b\r\n" % (len(reply), reply))
    elif kind is int:
        parts.append(b":%d\r\n" % reply)
    elif kind is list:
        parts.append(b"*%d\r\n" % len(reply))
        for item in reply:
            if type(item) is bytes:
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
    return b"*%d\r\n%b" % (len(reply), b"".join(encode(item, protocol) for item in reply))
