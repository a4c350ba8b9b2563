"""Extent reads: cold entries are read beside the event loop; those used last stay in memory."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from time import perf_counter
from typing import TypeAlias, TypeVar

from headgate.engine.buckets import SECONDS, Buckets
from headgate.engine.errors import Unavailable
from headgate.engine.limits import COLD_READS_MAX, PINNED_BYTES_MAX
from headgate.engine.loop.checking import Checking
from headgate.engine.state.extent import Damaged, Missing, OpenedExtent
from headgate.engine.state.memory import ExtentPlace
from headgate.engine.state.schemas import Unchecked

# Cold reads: extents are read beside the event loop, and those used last stay in memory.
#
# A decision that needs an extent raises `Missing`, and has changed nothing. `until_read` reads
# what is missing and decides again, until all is there. What was read for a decision stays for it,
# even if there is no room for it among those that stay for all.
#
# Nobody waits who reads nothing cold: reads have threads of their own, and at most so many
# requests have reads under way; the others wait for their turn, in order.

T = TypeVar("T")

ReadExtents = Callable[[Sequence[ExtentPlace]], Awaitable[Sequence[OpenedExtent | OSError]]]
"""Reads extents that lie behind each other in one file, beside the event loop."""

_Read: TypeAlias = dict[ExtentPlace, OpenedExtent | OSError]
"""Extents that were read, or why they cannot be."""

SPAN_BYTES_MAX = 512 * 1024
"""Extents of so many bytes are read together, or one that is larger."""

_GONE_MAX = 3
"""A file that is missing so often in a row is not one that a rewrite has removed."""


class ColdReads:
    on_damaged: Callable[[Damaged], None]
    """Is called with what is damaged, and lets the state lose it."""

    def __init__(
        self,
        read: ReadExtents,
        read_now: Callable[[ExtentPlace], OpenedExtent],
        cached_bytes_max: int,
    ) -> None:
        """Keep up to `cached_bytes_max` in memory, as it lies on disk; `read_now` blocks."""
        self.hit_count = self.read_count = 0  # extents found in memory, and read
        self.times = Buckets(SECONDS)  # of reads
        self.cached_bytes = 0
        self._read, self._read_now, self._cached_bytes_max = read, read_now, cached_bytes_max
        self._is_at_once = False
        # The last used comes last.
        self._cached: OrderedDict[ExtentPlace, OpenedExtent] = OrderedDict()
        self._pinned: dict[ExtentPlace, OpenedExtent] = {}
        self._reading: dict[ExtentPlace, asyncio.Future[_Read]] = {}
        self._turns = asyncio.Semaphore(COLD_READS_MAX)
        self._large_turn = asyncio.Lock()  # one request at a time may pin much

    def find(self, place: ExtentPlace) -> OpenedExtent | None:
        opened = self._pinned.get(place)
        if opened is not None:  # it was read for this very request
            return opened
        opened = self._cached.get(place)
        if opened is None:
            return self._read_at_once(place) if self._is_at_once else None
        self._cached.move_to_end(place)
        self.hit_count += 1
        return opened

    def opened(self, place: ExtentPlace) -> OpenedExtent:
        """Return an extent, or raise Missing if it is not in memory."""
        opened = self.find(place)
        if opened is None:
            raise Missing([place])
        return opened

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let extents be read while all others wait, as nothing else is left."""
        before, self._pinned, self._is_at_once = self._pinned, dict(self._pinned), True
        try:
            yield
        finally:
            self._pinned, self._is_at_once = before, False

    def _read_at_once(self, place: ExtentPlace) -> OpenedExtent:
        try:
            opened = self._pinned[place] = self._read_now(place)
        except OSError as error:
            raise _unreadable(error) from None
        return opened

    def keep(self, opened: OpenedExtent) -> None:
        """Keep an extent for those who come; those not used for the longest go."""
        place = opened.place
        is_of_use = place not in self._cached and not opened.is_unreadable
        if not is_of_use or place.size_bytes > self._cached_bytes_max:
            return
        self._cached[place] = opened
        self.cached_bytes += place.size_bytes
        while self.cached_bytes > self._cached_bytes_max:
            self.cached_bytes -= self._cached.popitem(last=False)[0].size_bytes

    async def until_read(self, act: Callable[[], T]) -> T:
        """Call `act`, which changes nothing if `Missing`, until it has its extents; Unavailable."""
        try:
            return act()
        except Missing as missing:
            first = missing.with_traceback(None)  # that would keep this frame, and it the extents
        async with self._turns, AsyncExitStack() as turn:
            return await self._read_and_act(act, first, turn)

    async def _read_and_act(
        self, act: Callable[[], T], missing: Missing, turn: AsyncExitStack
    ) -> T:
        pinned: dict[ExtentPlace, OpenedExtent] = {}
        is_large, checking = False, Checking()
        gone_count = 0  # how often a file had gone in a row
        while True:
            try:
                if isinstance(missing, Unchecked):
                    await checking.check(missing)
                pinned |= {opened.place: opened for opened in await self._fetched(missing)}
                gone_count = 0
            except FileNotFoundError as error:  # with what was needed: then that is seen now
                gone_count += 1
                if gone_count == _GONE_MAX:
                    raise _unreadable(error) from None
            if not is_large and sum(place.size_bytes for place in pinned) > PINNED_BYTES_MAX:
                await turn.enter_async_context(self._large_turn)
                is_large = True
            before, self._pinned = self._pinned, pinned
            try:
                if isinstance(missing, Damaged):
                    self.on_damaged(missing)
                with checking.known():
                    return act()
            except Missing as again:
                missing = again.with_traceback(None)
            finally:
                self._pinned = before

    async def _fetched(self, missing: Missing) -> list[OpenedExtent]:
        self._begin(missing.needed)
        reading = [self._reading[place] for place in missing.needed]
        if len(self._reading) < COLD_READS_MAX:
            self._begin([place for place in missing.ahead if self.find(place) is None])
        fetched: list[OpenedExtent] = []
        for place, span in zip(missing.needed, reading, strict=True):
            opened = (await asyncio.shield(span))[place]
            if isinstance(opened, FileNotFoundError):  # itself would know this frame
                raise FileNotFoundError(*opened.args)
            if isinstance(opened, OSError):
                raise _unreadable(opened)
            fetched.append(opened)
        return fetched

    def _begin(self, places: Iterable[ExtentPlace]) -> None:
        for span in _spans(place for place in places if place not in self._reading):
            reading = asyncio.ensure_future(self._read_span(span))
            self._reading |= dict.fromkeys(span, reading)
            reading.add_done_callback(partial(self._end, span))

    async def _read_span(self, span: Sequence[ExtentPlace]) -> _Read:
        began_s = perf_counter()
        opened = dict(zip(span, await self._read(span), strict=True))
        self.read_count += len(span)
        seconds = perf_counter() - began_s
        for _ in span:  # each of them took so long
            self.times.note(seconds)
        return opened

    def _end(self, span: Sequence[ExtentPlace], done: asyncio.Future[_Read]) -> None:
        for place in span:
            del self._reading[place]
        with suppress(asyncio.CancelledError, Exception):
            for opened in done.result().values():
                if isinstance(opened, OpenedExtent):
                    self.keep(opened)


def _spans(places: Iterable[ExtentPlace]) -> Iterator[list[ExtentPlace]]:
    span: list[ExtentPlace] = []
    for place in sorted(places):
        if span and (
            place.file != span[0].file
            or place.offset > span[-1].offset + span[-1].size_bytes
            or place.offset + place.size_bytes > span[0].offset + SPAN_BYTES_MAX
        ):
            yield span
            span = []
        span.append(place)
    if span:
        yield span


def _unreadable(error: OSError) -> Unavailable:
    return Unavailable(f"entries cannot be read: {error.strerror or error}")
