"""Long arrays: ranges of entries that are sent while they are read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from headgate.app.redis_syntax.replies import KeyedArrays, Reply
from headgate.engine.entry import Entry
from headgate.engine.errors import StreamError
from headgate.engine.replies import OpenedRange
from headgate.engine.requests import Request
from headgate.engine.requests.ranges import CloseRange, ReadOn

Perform = Callable[[Request[Any]], Awaitable[Any]]


class LongRange:
    """The entries of an open range, as a reply; only clients of RESP get one."""

    def __init__(
        self, stream: bytes, opened: OpenedRange, entry_reply: Callable[[Entry], Reply]
    ) -> None:
        """Begin with the first page.

        Args:
            stream: whose entries they are.
            opened: the range, and its first page.
            entry_reply: makes the reply of an entry.
        """
        self.count = opened.entry_count
        self.perform: Perform  # set by who runs the command: reads on in the name of its caller
        self._stream = stream
        self._page = opened.entries
        self._number = opened.number
        self._left = opened.entry_count
        self._entry_reply = entry_reply

    async def pages(self) -> AsyncIterator[Sequence[Reply]]:
        """Yield the entries, some at a time."""
        while self._left:
            page = self._page or await self.perform(ReadOn(self._stream, self._number or 0))
            self._page = []
            self._left -= len(page)
            yield list(map(self._entry_reply, page))
        self._number = None

    async def close(self) -> None:
        """Let go of what was not read."""
        number, self._number = self._number, None
        if number is not None and self._left:
            with suppress(StreamError):  # it is closed in time by itself
                await self.perform(CloseRange(self._stream, number))


def long_range(stream: bytes, opened: OpenedRange, entry_reply: Callable[[Entry], Reply]) -> Reply:
    """Return the reply for an open range: an array, or a long one if there is more to read."""
    if opened.number is None:
        return list(map(entry_reply, opened.entries))
    return cast("Reply", LongRange(stream, opened, entry_reply))  # who opens it knows what it gets


def long_ranges_in(reply: object) -> list[LongRange]:
    """Return the long arrays of a reply."""
    if isinstance(reply, LongRange):
        return [reply]
    if not isinstance(reply, KeyedArrays):
        return []
    pairs = cast("list[tuple[bytes, object]]", reply)
    return [array for _, array in pairs if isinstance(array, LongRange)]
