"""Replies as RESP2 and RESP3 (https://redis.io/docs/latest/develop/reference/protocol-spec)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final, cast

from headgate.app.redis_syntax.command import exact_error_text
from headgate.app.redis_syntax.replies import (
    KeyedArrays,
    LongRange,
    Members,
    NullArray,
    Pairs,
    PushMessage,
    PushMessages,
    Reply,
    Status,
    Verbatim,
    long_ranges_in,
)
from headgate.app.transport.sockets import UNTAKEN_BYTES_MAX
from headgate.engine.errors import StreamError
from headgate.engine.threads import Turn, this_turn

RESP2, RESP3 = 2, 3

_ITEMS_AT_ONCE = 64
"""Items of the outermost array that are written at once."""

_PIECE_BYTES = 256 * 1024
"""Fewer, if they are larger together."""

_COPIED_BYTES_MAX = 64 * 1024
"""A value up to this size is copied to go with what is around it; a larger one is sent as it is."""


def error_reply(text: str) -> bytes:
    """Return an error reply of one line. Surrogates in the text stand for bytes (PEP 383)."""
    line = text.replace("\r", " ").replace("\n", " ")
    return b"-%b\r\n" % line.encode(errors="surrogateescape")


def encode(reply: Reply | StreamError, protocol: int) -> list[bytes]:
    """Return the parts of a reply. An array that may be large is written by `pieces`."""
    parts: list[bytes] = []
    _write(parts, reply, protocol)
    return parts


def pieces(reply: list[Any], protocol: int) -> Iterator[Sequence[bytes]]:
    """Yield an array in parts: some small items together, or one large item."""
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
    """Yield parts, joined where that does not copy large ones."""
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
        if isinstance(reply, PushMessage):
            return b">%d\r\n" % len(reply)
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
    elif kind in (Pairs, KeyedArrays, Members, PushMessage):
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


_LARGE_BYTES: Final = 2**20
"""Replies that are so large together are sent before more of them are made."""


class BrokenReply(Exception):
    """The client has the beginning of a reply, and cannot get its end."""


class Replies:
    """The unsent replies, and whether the client wants any (CLIENT REPLY)."""

    SENT: Final = Status()
    """Instead of a reply that the client does not get."""

    def __init__(
        self, write: Callable[[bytes], None], until_taken: Callable[[int], Awaitable[None]]
    ) -> None:
        self.protocol = RESP2
        self._write = write
        self._until_taken = until_taken
        self._parts: list[bytes] = []
        self._size_bytes = 0
        self._is_partial = False  # the end of an array is still to come
        self._pushed: list[bytes] = []  # what comes behind that
        self._sends_all = True  # or else replies are left out,
        self._skips = 0  # only so many, unless it is 0

    def reset(self) -> None:
        self.protocol, self._sends_all, self._skips = RESP2, True, 0

    @property
    def are_large(self) -> bool:
        return self._size_bytes > _LARGE_BYTES

    @property
    def size_bytes(self) -> int:
        return self._size_bytes + sum(map(len, self._pushed))

    def push(self, message: bytes) -> None:
        """Add a message that no command waits for, between two replies."""
        if self._is_partial:
            self._pushed.append(message)
        else:
            self._add([message])

    async def add(self, outcome: Reply | StreamError) -> None:
        """Add the outcome of a command. A large reply is sent while it is encoded."""
        self._is_partial = True
        try:
            await self._add_outcome(outcome)
        finally:
            self._is_partial = False
            pushed, self._pushed = self._pushed, []
            self._add(pushed)

    async def _add_outcome(self, outcome: Reply | StreamError) -> None:
        if outcome is self.SENT:
            return
        long = long_ranges_in(outcome)
        if self._is_left_out():
            for array in long:
                await array.close()
        elif isinstance(outcome, LongRange):
            await self._add_long(outcome)
        elif isinstance(outcome, PushMessages):
            await self._add_all((encode(push, self.protocol) for push in outcome), this_turn())
        elif long:
            await self._add_keyed(cast("KeyedArrays", outcome), long)
        elif isinstance(outcome, list):
            await self._add_all(pieces(outcome, self.protocol), this_turn())
        else:
            self._add(encode(outcome, self.protocol))

    async def _add_all(self, encoded: Iterable[Sequence[bytes]], turn: Turn) -> None:
        for at, parts in enumerate(encoded):
            if at:
                await turn.pause()
            self._add(parts)
            if self.are_large:
                self.flush()
                await self._until_taken(UNTAKEN_BYTES_MAX)

    async def _add_long(self, array: LongRange) -> None:
        """Add an array as fast as the client reads it. Raises BrokenReply if the rest fails."""
        turn = this_turn()
        self._add([b"*%d\r\n" % array.count])
        try:
            async for page in array.pages():
                await self._add_all((encode(item, self.protocol) for item in page), turn)
                self.flush()
                await self._until_taken(_LARGE_BYTES)
        except StreamError as error:
            raise BrokenReply(str(error)) from None
        finally:
            await array.close()

    async def _add_keyed(self, reply: KeyedArrays, long: Sequence[LongRange]) -> None:
        is_map = self.protocol == RESP3
        self._add([(b"%%%d\r\n" if is_map else b"*%d\r\n") % len(reply)])
        try:
            for name, entries in cast("list[tuple[bytes, Reply]]", reply):
                self._add([b"" if is_map else b"*2\r\n", *encode(name, self.protocol)])
                if isinstance(entries, LongRange):
                    await self._add_long(entries)
                else:
                    self._add(encode(entries, self.protocol))
        finally:
            for array in long:
                await array.close()

    def add_texts(self, texts: Sequence[bytes]) -> None:
        encoded = [b"$%d\r\n%b\r\n" % (len(text), text) for text in texts]
        if not self._sends_all:
            encoded = [each for each in encoded if not self._is_left_out()]
        self._add([b"".join(encoded)])

    def change(self, mode: bytes) -> Reply:
        """Send replies, or none, or none to the next command (CLIENT REPLY)."""
        if mode == b"SKIP":
            if self._sends_all:
                self._sends_all, self._skips = False, 1
            return self.SENT
        self._sends_all, self._skips = mode == b"ON", 0
        return Status("OK") if self._sends_all else self.SENT

    def flush(self) -> None:
        if self._parts:
            parts, self._parts, self._size_bytes = self._parts, [], 0
            for data in joined(parts):
                self._write(data)

    def _add(self, parts: Sequence[bytes]) -> None:
        self._parts += parts
        self._size_bytes += sum(map(len, parts))

    def _is_left_out(self) -> bool:
        """Return whether the client does not want the next reply, and count that reply."""
        if self._sends_all:
            return False
        if self._skips:
            self._skips -= 1
            self._sends_all = not self._skips
        return True
