"""Expected replies: the bytes of what an example says, by the types that Redis's replies have.

An example says what is in a reply. Of what types its parts are is settled by the command: which
nulls are arrays, what is a map in RESP3, and which words are a status.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

RESP2, RESP3 = 2, 3

_ERROR = re.compile(r"(ERR|NOGROUP|BUSYGROUP) ")

_STATUS = {"CONFIG SET", "XGROUP CREATE", "RENAME", "TYPE", "XCFGSET", "XIDMPRECORD", "XSETID"}

_READS = {"XREAD", "XREADGROUP"}
_NULL_ARRAYS = {"XRANGE", "XREVRANGE", *_READS}
"""Commands all of whose nulls are arrays. Of other commands they are strings."""

_NOTHING_PENDING = [0, None, None, None]

_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")


def expected_bytes(line: str, reply: Any, protocol: int) -> bytes:
    """Return the bytes of a reply to a command, as an example has it.

    Args:
        line: the command.
        reply: texts, integers, lists and None, or the text of an error.
        protocol: the version of RESP.
    """
    name, second = [*line.upper().split(), ""][:2]
    if isinstance(reply, str) and _ERROR.match(reply):
        return b"-%b\r\n" % _bytes(reply)
    if isinstance(reply, str) and not _STATUS.isdisjoint({name, f"{name} {second}"}):
        return b"+%b\r\n" % _bytes(reply)
    null = _null(protocol, is_array=name in _NULL_ARRAYS)
    if name == "XPENDING" and reply == _NOTHING_PENDING:
        return b"*4\r\n:0\r\n%b%b" % (null * 2, _null(protocol, is_array=True))
    if name == "CONFIG":
        return _map(reply, protocol, null)
    if name in _READS and reply is not None and protocol == RESP3:
        return _map([part for stream in reply for part in stream], protocol, null)
    return _part(reply, protocol, null)


def expected_map(flat: Sequence[Any], protocol: int) -> bytes:
    """Return the bytes of what XINFO tells: names and values, with such lists among them."""
    return _map(flat, protocol, _null(protocol, is_array=False))


def _part(part: Any, protocol: int, null: bytes) -> bytes:
    if part is None:
        return null
    if isinstance(part, int):
        return b":%d\r\n" % part
    if isinstance(part, str):
        data = _bytes(part)
        return b"$%d\r\n%b\r\n" % (len(data), data)
    if part and part[0] == "name" and len(part) % 2 == 0:  # of a group or a consumer
        return _map(part, protocol, null)
    return b"*%d\r\n%b" % (len(part), b"".join(_part(item, protocol, null) for item in part))


def _map(flat: Sequence[Any], protocol: int, null: bytes) -> bytes:
    header = b"%%%d\r\n" % (len(flat) // 2) if protocol == RESP3 else b"*%d\r\n" % len(flat)
    return header + b"".join(_part(item, protocol, null) for item in flat)


def _null(protocol: int, *, is_array: bool) -> bytes:
    if protocol == RESP3:
        return b"_\r\n"
    return b"*-1\r\n" if is_array else b"$-1\r\n"


def _bytes(text: str) -> bytes:
    """Return the bytes that the console shows as a text."""
    data = text.encode().replace("�".encode(), b"\xff")  # in errors it has no other way
    return _ESCAPED.sub(lambda match: bytes.fromhex(match[1].decode()), data)
