"""Replies of Redis commands in RESP2; some types have another form in RESP3."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Self, cast

from headgate.app.backends.port import Perform
from headgate.engine.entry import Entry
from headgate.engine.errors import StreamError
from headgate.engine.replies import OpenedRange
from headgate.engine.requests.entries import CloseRange, ReadOn


class Status(str):
    __slots__ = ()


class Verbatim(bytes):
    """A bulk string of plain text; a verbatim string in RESP3."""

    __slots__ = ()


class Pairs(list["Reply"]):
    """A map: an array of key, value, key, value in RESP2, a map in RESP3."""

    __slots__ = ()

    @classmethod
    def of(cls, values: Mapping[bytes, Reply]) -> Self:
        return cls(part for pair in values.items() for part in pair)


class KeyedArrays(list["Reply"]):
    """An array of pairs of a key and an array in RESP2; a map in RESP3."""

    __slots__ = ()


class Members(list["Reply"]):
    """An array in RESP2, a set in RESP3."""

    __slots__ = ()


class PushMessage(list["Reply"]):
    """A message that no command waits for: an array in RESP2, a push in RESP3."""

    __slots__ = ()


class PushMessages(list[PushMessage]):
    """The replies of a command that has one for each of its arguments, as messages."""

    __slots__ = ()


class NullArray:
    """A null in place of an array; RESP2 has two nulls, RESP3 has one."""

    __slots__ = ()


NULL_ARRAY = NullArray()


Reply = None | int | bytes | Status | NullArray | Sequence["Reply"]
"""RESP2: null, integer, bulk string, simple string, null array, array. Some know what they are in
RESP3."""


class LongRange:
    """The entries of an open range, read page by page; only RESP clients get one."""

    def __init__(
        self, stream: bytes, opened: OpenedRange, entry_reply: Callable[[Entry], Reply]
    ) -> None:
        self.count = opened.entry_count
        self.perform: Perform  # set by who runs the command: reads on in the name of its caller
        self._stream = stream
        self._page = opened.entries
        self._number = opened.number
        self._left = opened.entry_count
        self._entry_reply = entry_reply

    async def pages(self) -> AsyncIterator[Sequence[Reply]]:
        while self._left:
            page = self._page or await self.perform(ReadOn(self._stream, self._number or 0))
            self._page = []
            self._left -= len(page)
            yield list(map(self._entry_reply, page))
        self._number = None

    async def close(self) -> None:
        number, self._number = self._number, None
        if number is not None and self._left:
            with suppress(StreamError):  # it is closed in time by itself
                await self.perform(CloseRange(self._stream, number))


def long_range(stream: bytes, opened: OpenedRange, entry_reply: Callable[[Entry], Reply]) -> Reply:
    """Return an array, or a LongRange if there is more to read."""
    if opened.number is None:
        return list(map(entry_reply, opened.entries))
    return cast("Reply", LongRange(stream, opened, entry_reply))  # who opens it knows what it gets


def long_ranges_in(reply: object) -> list[LongRange]:
    if isinstance(reply, LongRange):
        return [reply]
    if not isinstance(reply, KeyedArrays):
        return []
    pairs = cast("list[tuple[bytes, object]]", reply)
    return [array for _, array in pairs if isinstance(array, LongRange)]
