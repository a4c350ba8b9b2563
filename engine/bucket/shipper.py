"""Shipper: what the journal has written goes to the bucket, part by part.

One part is put at a time, and the next one takes all that has come meanwhile (group commit). Bytes
are read from the segments again, so what has to wait for a bucket that is away takes no memory.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import suppress

from headgate.engine.bucket import parts
from headgate.engine.bucket.bucket import Bucket
from headgate.engine.bucket.parts import Part
from headgate.engine.bucket.restoring import Mark
from headgate.engine.clock import Clock
from headgate.engine.errors import LeaseLost
from headgate.engine.journal.disk import Disk
from headgate.engine.limits import PART_BYTES_MAX

_MARK_BYTES = PART_BYTES_MAX // 4

PAUSE_S_MIN = 0.1
PAUSE_S_MAX = 5.0
"""Longest pause before what a bucket did not take is tried again: the pause doubles."""


class Shipper:
    def __init__(
        self,
        bucket: Bucket,
        disk: Disk,
        clock: Clock,
        *,
        writer: str,
        ship_ms: int,
        on_shipped: Callable[[], None],
        on_error: Callable[[OSError | None], None],
    ) -> None:
        """`ship_ms` is the least time between two parts; `on_error` gets None once it works."""
        self.term = 0
        self.next_number = 1
        self.shipped = Mark("", 0, 0)
        """Up to here the bucket has everything."""
        self.begins: dict[str, int] = {}
        """The numbers of the parts with which segments begin."""
        self._bucket, self._disk, self._clock = bucket, disk, clock
        self._writer, self._ship_s = writer, ship_ms / 1000
        self._on_shipped, self._on_error = on_shipped, on_error
        self._marks: deque[Mark] = deque()
        self._taken_ms: deque[int] = deque()  # by mark: what was appended before ends there
        self._writing_ms = 0
        self.covered_ms = 0
        """A moment, by wall time: the bucket has everything that was appended before it."""
        self._waiting_ms: int | None = None  # since when something waits, by monotonic time
        self._unsettled: Part | None = None  # it was put, and nobody knows whether that worked
        self._wake = asyncio.Event()
        self._ending = asyncio.Event()

    def note_writing(self) -> None:
        self._writing_ms = self._clock.wall_ms()

    def note_written(self, segment: str, end: int, position: int) -> None:
        mark, marks = Mark(segment, end, position), self._marks
        before = marks[-2] if len(marks) > 1 else None
        base = before.end if before is not None and before.segment == segment else 0
        if marks and marks[-1].segment == segment and end - base < _MARK_BYTES:
            marks[-1], self._taken_ms[-1] = mark, self._writing_ms
        else:
            marks.append(mark)
            self._taken_ms.append(self._writing_ms)
        if self._waiting_ms is None:
            self._waiting_ms = self._clock.monotonic_ms()
        self._wake.set()

    def end(self) -> None:
        self._ending.set()
        self._wake.set()

    @property
    def is_idle(self) -> bool:
        return not self._marks and self._unsettled is None

    @property
    def waiting_bytes(self) -> int:
        total, (segment, offset, _) = 0, self.shipped
        for mark in self._marks:
            total += mark.end - (offset if mark.segment == segment else 0)
            segment, offset = mark.segment, mark.end
        return total

    @property
    def waiting_ms(self) -> int | None:
        since_ms = self._waiting_ms
        return None if since_ms is None else self._clock.monotonic_ms() - since_ms

    @property
    def segments(self) -> AbstractSet[str]:
        return {mark.segment for mark in self._marks}

    async def run(self) -> None:
        """Ship segments until `end`; LeaseLost if another leader has put the next part."""
        loop, pause_s = asyncio.get_running_loop(), PAUSE_S_MIN
        while True:
            if self.is_idle:
                if self._ending.is_set():
                    return
                self._wake.clear()
                await self._wake.wait()
                continue
            began_s = loop.time()
            try:
                await self._ship()
            except OSError as error:
                self._on_error(error)
                await self._pause(pause_s)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
                continue
            pause_s = PAUSE_S_MIN
            self._on_error(None)
            self._on_shipped()
            if not self._ending.is_set():
                await self._pause(began_s + self._ship_s - loop.time())

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._ending.wait()

    async def fence(self, number: int) -> Part | None:
        """Put an empty part so that no earlier leader can; return one already there, or None."""
        position, now_ms = self.shipped.position, self._clock.wall_ms()
        if not self.covered_ms and not self._marks:  # the first leader has written nothing yet
            self.covered_ms = now_ms
        times = now_ms, self.covered_ms
        part = Part(number, self.term, self._writer, "", 0, position, *times, b"")

        def put() -> Part | None:
            return None if parts.put(self._bucket, part) else parts.read(self._bucket, number)

        there = await self._bucket.in_thread(put)
        if there is None:
            self.next_number = number + 1
        return there

    async def _ship(self) -> None:
        began_ms = self._clock.monotonic_ms()
        if self._unsettled is None:
            self._unsettled = await self._next_part()
        part = self._unsettled
        if not await self._bucket.in_thread(lambda: parts.put(self._bucket, part)):
            why = f"another gateway has written to {self._bucket.url}: part {part.number}"
            raise LeaseLost(why)
        self._unsettled = None
        self.shipped = Mark(part.segment, part.end, part.position)
        if part.offset == 0:
            self.begins[part.segment] = part.number
        self.next_number = part.number + 1
        marks = self._marks
        while marks and (marks[0].segment, marks[0].end) <= (part.segment, part.end):
            marks.popleft()
            self._taken_ms.popleft()
        self.covered_ms = part.covered_ms
        self._waiting_ms = began_ms if marks else None

    async def _next_part(self) -> Part:
        first, covered_ms, put_ms = self._marks[0], self.covered_ms, self._clock.wall_ms()
        segment = first.segment
        offset = self.shipped.end if segment == self.shipped.segment else 0
        mark = first
        for following, taken_ms in zip(self._marks, self._taken_ms, strict=True):
            is_next = following.segment == segment and following.end - offset <= PART_BYTES_MAX
            if following is not first and not is_next:
                break
            mark, covered_ms = following, max(covered_ms, taken_ms)
        size_bytes = mark.end - offset
        data = await self._disk.in_thread(lambda: self._disk.read(segment, offset, size_bytes))
        if len(data) < size_bytes:
            raise OSError(f"{segment} has become shorter")
        facts = self.next_number, self.term, self._writer
        return Part(*facts, segment, offset, mark.position, put_ms, covered_ms, data)
