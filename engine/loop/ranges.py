"""Open ranges: what somebody reads page by page, as it was at one moment.

A range shares the chunks of its stream (`LogView`). What the stream drops meanwhile stays in memory
for it. That has a bound: beyond it, the range is closed that was read from the longest ago.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import NamedTuple

from headgate.engine.entry import Entry
from headgate.engine.errors import LimitExceeded, RangeClosed
from headgate.engine.limits import (
    HELD_BYTES_MAX,
    OPEN_CHUNKS_MAX,
    OPEN_RANGES_MAX,
    RANGE_IDLE_MS_MAX,
)
from headgate.engine.loop.executor import Executor
from headgate.engine.replies import OpenedRange
from headgate.engine.requests.entries import CloseRange, OpenRanges, ReadOn, Span
from headgate.engine.state.entries.view import LogView
from headgate.engine.state.extent import Missing, require_each


class _Open(NamedTuple):
    stream: bytes
    view: LogView
    read_at_ms: int  # monotonic


class Ranges:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._open: dict[int, _Open] = {}  # the one read the longest ago comes first
        self._chunk_count = 0  # of all open ranges
        self._numbers = itertools.count(1)
        executor.on_held = self._hold_less

    def __len__(self) -> int:
        return len(self._open)

    async def open(self, request: OpenRanges) -> list[OpenedRange]:
        opened = await self._executor.cold.until_read(lambda: self.begin(request))
        try:
            return await self._executor.durable(opened)
        except BaseException:
            for each in opened:
                self._close(each.number)
            raise

    def begin(self, request: OpenRanges) -> list[OpenedRange]:
        """Do the same, and return before what was read is durable."""
        keyspace = self._executor.current()
        self._close_idle()
        opened: list[OpenedRange] = []
        if len(request.spans) > 1:  # each of them begins with a page
            is_down = request.reverse
            require_each(
                partial(stream.log.require_range, start, end, 1, None, reverse=is_down)
                for name, start, end in request.spans
                if (stream := keyspace.find(name)) is not None
            )
        try:
            for span in request.spans:
                find = keyspace.find if request.missing_ok else keyspace.stream
                stream = find(span.stream)
                if stream is None:
                    opened.append(OpenedRange(0, [], None))
                    continue
                view = stream.log.view(span.start, span.end, request.limit, reverse=request.reverse)
                opened.append(self._opened(span, view))
        except BaseException:
            for each in opened:
                self._close(each.number)
            raise
        return opened

    async def read_on(self, request: ReadOn) -> list[Entry]:
        return await self._executor.cold.until_read(lambda: self._page(request))

    def _page(self, request: ReadOn) -> list[Entry]:
        opened = self._open.pop(request.number, None)
        if opened is None or opened.stream != request.stream:
            if opened is not None:
                self._open[request.number] = opened
            raise RangeClosed
        try:
            page = opened.view.page()
        except Missing:
            self._open[request.number] = opened
            raise
        except BaseException:
            self._let_go(opened)
            raise
        if opened.view.is_over:
            self._let_go(opened)
        else:
            read_at_ms = self._executor.clock.monotonic_ms()
            self._open[request.number] = opened._replace(read_at_ms=read_at_ms)
        return page

    async def close(self, request: CloseRange) -> None:
        opened = self._open.get(request.number)
        if opened is not None and opened.stream == request.stream:
            self._close(request.number)

    def _opened(self, span: Span, view: LogView) -> OpenedRange:
        try:
            page = view.page()
        except BaseException:
            view.close()
            raise
        if view.is_over:
            view.close()
            return OpenedRange(view.count, page, None)
        if len(self._open) >= OPEN_RANGES_MAX:
            view.close()
            raise LimitExceeded("open ranges", OPEN_RANGES_MAX)
        if self._chunk_count + view.chunk_count > OPEN_CHUNKS_MAX:
            view.close()
            raise LimitExceeded("chunks of streams in open ranges", OPEN_CHUNKS_MAX)
        number = next(self._numbers)
        self._chunk_count += view.chunk_count
        self._open[number] = _Open(span.stream, view, self._executor.clock.monotonic_ms())
        return OpenedRange(view.count, page, number)

    def _close(self, number: int | None) -> None:
        if number is not None and (opened := self._open.pop(number, None)) is not None:
            self._let_go(opened)

    def _let_go(self, opened: _Open) -> None:
        self._chunk_count -= opened.view.chunk_count
        opened.view.close()

    def _close_idle(self) -> None:
        """Close ranges that nobody reads: whoever did has gone without a word."""
        since_ms = self._executor.clock.monotonic_ms() - RANGE_IDLE_MS_MAX
        while self._open:
            number, oldest = next(iter(self._open.items()))
            if oldest.read_at_ms >= since_ms:
                return
            self._close(number)

    def _hold_less(self) -> None:
        memory = self._executor.keyspace.memory
        while self._open and memory.held_bytes > HELD_BYTES_MAX:
            self._close(next(iter(self._open)))
