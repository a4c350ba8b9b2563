"""Replies of commands as JSON.

A reply may have many megabytes, so other tasks get turns while it is written.
"""

import codecs
from collections.abc import Sequence
from io import BytesIO
from typing import Any, TypeGuard

import pybase64
from pydantic_core import to_json

from headgate.app.redis_syntax.command import error_text
from headgate.app.redis_syntax.replies import NullArray, Reply, Status
from headgate.engine.errors import StreamError
from headgate.engine.threads import this_turn

_ITEMS_AT_ONCE = 256
"""Strings or numbers written before other tasks may run; a long string is as many as its pieces."""
_PIECE_BYTES = 1023
"""Pieces of a long string; a multiple of three, so that their base64 is that of the whole."""


class Answers:
    """Writes the replies of one request; `is_base64` encodes the strings in them."""

    def __init__(self, *, is_base64: bool) -> None:
        self._is_base64 = is_base64
        self._written = BytesIO(b"[")  # the start of an array; `only` leaves it out
        self._written.seek(1)
        self._turn = this_turn()
        self._count = 0
        self.size_bytes = 0

    async def add(self, reply: Reply | StreamError) -> None:
        if self._count:
            await self._turn.pause()
            self._write(b",")
        self._count += 1
        if isinstance(reply, StreamError):
            self._write(to_json({"error": error_text(reply)}))
        else:
            self._write(b'{"result":')
            await self._add(reply)
            self._write(b"}")

    def only(self) -> bytes:
        return bytes(self._written.getbuffer()[1:])

    def all(self) -> bytes:
        """Return the JSON array of all replies. Call this once, after the last `add`."""
        self._written.write(b"]")
        return self._written.getvalue()  # no copy: it may be many megabytes

    async def _add(self, reply: Reply) -> None:
        if _is_long(reply):
            await self._add_long(reply)
        elif not _is_array(reply) or _is_small(reply):
            self._write(to_json(self._shape(reply)))
        else:
            await self._add_items(reply)

    async def _add_long(self, reply: bytes) -> None:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        encode = pybase64.b64encode_as_string
        size = _ITEMS_AT_ONCE * _PIECE_BYTES
        self._write(b'"')
        for begin in range(0, len(reply), size):
            await self._turn.pause()
            part, is_last = reply[begin : begin + size], begin + size >= len(reply)
            self._write(to_json(encode(part) if self._is_base64 else decode(part, is_last))[1:-1])
        self._write(b'"')

    async def _add_items(self, reply: Sequence[Reply]) -> None:
        self._write(b"[")
        begin = 0
        while begin < len(reply):
            if begin:
                await self._turn.pause()
                self._write(b",")
            leaves = _leaves(reply, begin)
            if not leaves:
                await self._add(reply[begin])
                begin += 1
            else:
                self._write(to_json([self._shape(leaf) for leaf in leaves])[1:-1])
                begin += len(leaves)
        self._write(b"]")

    def _shape(self, reply: Reply) -> Any:
        if reply is None or isinstance(reply, int):
            return reply
        if isinstance(reply, Status):
            is_plain = reply == "OK" or not self._is_base64
            return str(reply) if is_plain else pybase64.b64encode_as_string(reply.encode())
        if isinstance(reply, bytes):
            if self._is_base64:
                return pybase64.b64encode_as_string(reply)
            return reply.decode(errors="replace")
        if isinstance(reply, NullArray):
            return None
        return [self._shape(item) for item in reply]

    def _write(self, part: bytes) -> None:
        self.size_bytes += self._written.write(part)


def _is_array(reply: Reply) -> TypeGuard[Sequence[Reply]]:
    # Most items are strings, and it takes longer to tell that something is a sequence.
    return not isinstance(reply, bytes | str) and isinstance(reply, Sequence)


def _is_long(reply: Reply) -> TypeGuard[bytes]:
    return isinstance(reply, bytes) and len(reply) > _ITEMS_AT_ONCE * _PIECE_BYTES


def _weight(leaf: Reply) -> int:
    return 1 + len(leaf) // _PIECE_BYTES if isinstance(leaf, bytes) else 1


def _is_small(reply: Sequence[Reply]) -> bool:
    """Return whether an array is written at once: it has little in it, and at most two levels."""
    if len(reply) > _ITEMS_AT_ONCE:
        return False
    weight = 0
    for item in reply:
        if not _is_array(item):
            weight += _weight(item)
        elif len(item) > _ITEMS_AT_ONCE or any(map(_is_array, item)):
            return False
        else:
            weight += 1 + sum(map(_weight, item))
        if weight > _ITEMS_AT_ONCE:
            return False
    return True


def _leaves(reply: Sequence[Reply], begin: int) -> Sequence[Reply]:
    """Return what is written at once from there on; nothing if an item is written by itself."""
    weight, end = 0, begin
    while end < len(reply) and not _is_array(reply[end]):
        weight += _weight(reply[end])
        if weight > _ITEMS_AT_ONCE:
            break
        end += 1
    return reply[begin:end]
