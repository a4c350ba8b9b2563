"""Replies of commands as JSON.

A reply may have many megabytes, so other tasks get turns while it is written.
"""

import base64
from collections.abc import Sequence
from io import BytesIO
from typing import Any, TypeGuard

from pydantic_core import to_json

from headgate.app.redis_syntax.command import error_text
from headgate.app.redis_syntax.replies import NullArray, Reply, Status
from headgate.engine.errors import StreamError
from headgate.engine.threads import this_turn

_ITEMS_AT_ONCE = 256
"""Strings or numbers written before other tasks may run."""


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
        if not _is_array(reply) or _is_small(reply):
            self._write(to_json(self._shape(reply)))
            return
        self._write(b"[")
        begin = 0
        while begin < len(reply):
            if begin:
                await self._turn.pause()
                self._write(b",")
            if _is_array(reply[begin]):
                await self._add(reply[begin])
                begin += 1
            else:
                leaves = _leaves(reply, begin)
                self._write(to_json([self._shape(leaf) for leaf in leaves])[1:-1])
                begin += len(leaves)
        self._write(b"]")

    def _shape(self, reply: Reply) -> Any:
        if reply is None or isinstance(reply, int):
            return reply
        if isinstance(reply, Status):
            is_plain = reply == "OK" or not self._is_base64
            return str(reply) if is_plain else base64.b64encode(reply.encode()).decode()
        if isinstance(reply, bytes):
            if self._is_base64:
                return base64.b64encode(reply).decode()
            return reply.decode(errors="replace")
        if isinstance(reply, NullArray):
            return None
        return [self._shape(item) for item in reply]

    def _write(self, part: bytes) -> None:
        self.size_bytes += self._written.write(part)


def _is_array(reply: Reply) -> TypeGuard[Sequence[Reply]]:
    # Most items are strings, and it takes longer to tell that something is a sequence.
    return not isinstance(reply, bytes | str) and isinstance(reply, Sequence)


def _is_small(reply: Sequence[Reply]) -> bool:
    """Return whether an array has few items and at most two levels."""
    items = len(reply)
    for item in reply if items <= _ITEMS_AT_ONCE else ():
        if _is_array(item):
            items += len(item)
            if items > _ITEMS_AT_ONCE or any(map(_is_array, item)):
                return False
    return items <= _ITEMS_AT_ONCE


def _leaves(reply: Sequence[Reply], begin: int) -> Sequence[Reply]:
    items = reply[begin : begin + _ITEMS_AT_ONCE]
    end = next((at for at, item in enumerate(items) if _is_array(item)), len(items))
    return items[:end]
