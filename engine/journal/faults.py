"""Faults: why records are refused, and what becomes of those that the disk does not take.

- A sync *fails*. Then nobody knows which of the writes are on disk, so the journal accepts nothing
  more.
- Anything else is a *fault*: a write, or the start of a segment. The journal undoes it and tries
  again until it works. Meanwhile it accepts no record. After a while it gives up the records that
  wait, and the engine goes back to what is durable, so that it can be read.
- There is a *shortage* of room. The journal refuses records that take room until there is more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from headgate.engine.commands import Command
from headgate.engine.errors import Corrupt, Unavailable
from headgate.engine.journal import recovery, room
from headgate.engine.journal.disk import Disk, is_full
from headgate.engine.journal.records import Records
from headgate.engine.journal.room import DiskBounds, Shortage
from headgate.engine.journal.storage import GoBack

PAUSE_S_MIN = 0.1
PAUSE_S_MAX = 1.0
"""Longest pause before the journal tries a failed write again: the pause doubles each time."""

PATIENCE_S = 2.0
"""Time that a record waits for a disk that does not take it, before it is given up."""

CLOSED = "the journal is closed"

OnEvent = Callable[[str, Mapping[str, object]], None]
"""Is called with an event and its facts, for the log."""


class Faults:
    def __init__(
        self,
        disk: Disk,
        bounds: DiskBounds,
        records: Records,
        size_bytes: Callable[[], int],
        on_event: OnEvent,
    ) -> None:
        self.failure: str | None = None
        self.fault: str | None = None
        self.shortage: Shortage | None = None
        self.closed = asyncio.Event()
        self.refusal: str | None = None  # the first there is of these
        self.is_given_up = False  # the engine has not gone back yet
        self.free_bytes: int | None = None
        self.hold: Unavailable | None = None
        """Why nothing is accepted for now, though the disk takes everything."""
        self._is_hidden = False  # the engine shows less than is on disk
        self._disk, self._bounds = disk, bounds
        self._records, self._size_bytes, self._on_event = records, size_bytes, on_event
        self._fault_began_s, self._pause_s = 0.0, PAUSE_S_MIN

    @property
    def end(self) -> str | None:
        return self.failure or (CLOSED if self.closed.is_set() else None)

    def check(self, record: list[Command]) -> None:
        if self.refusal is None or not record:
            return
        is_only_short = self.end is None and self.hold is None and self.fault is None
        if not is_only_short or room.takes_room(record):
            raise self.unavailable

    def fail(self, event: str, reason: str) -> None:
        self.failure = reason
        self._report(event, reason)
        self._drop(reason)

    def close(self) -> None:
        self.closed.set()
        self._drop(self.failure or CLOSED)

    def _drop(self, reason: str) -> None:
        self._note_refusal()
        self._records.drop(reason)

    def _note_refusal(self) -> None:
        short = None if self.shortage is None else self.shortage.why
        held = None if self.hold is None else str(self.hold)
        self.refusal = self.end or held or self.fault or short

    @property
    def unavailable(self) -> Unavailable:
        if self.end is None and self.hold is not None:
            return self.hold.with_traceback(None)
        return Unavailable(self.refusal or CLOSED)

    def _report(self, event: str, reason: str) -> None:
        self._on_event(event, {"reason": reason, "position": self._records.written_position})

    async def bear(self, error: OSError, go_back: GoBack) -> None:
        """Prepare to try again after an error, or raise it if no time is left for that."""
        if is_full(error) and await self._disk.in_thread(self._disk.give_up_reserve):
            self._set_shortage(_full(error))
            return
        now_s = asyncio.get_running_loop().time()
        if self.fault is None:
            self.fault = f"the journal cannot be written: {words(error)}"
            self._fault_began_s, self._pause_s = now_s, PAUSE_S_MIN
            self._note_refusal()
            self._report("journal not written for now", self.fault)
        if self._records.closing.is_set():
            raise error
        if self._records.has_unwritten and now_s - self._fault_began_s >= PATIENCE_S:
            await self.give_up(self.fault, go_back)
        await self._pause()

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pause_s):
                await self._records.closing.wait()
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)

    def end_fault(self) -> None:
        if self.fault is not None:
            self.fault = None
            self._note_refusal()
            position = self._records.written_position
            self._on_event("journal written again", {"position": position})

    async def give_up(self, reason: str, go_back: GoBack) -> None:
        """Forget records that are not durable, here and in the engine. No answer showed them."""
        self._drop(reason)
        go_back(None)
        written = self._records.written_position
        self.is_given_up = self._records.position > written
        if self.is_given_up:
            await self._go_to(lambda: written, go_back)
            self.is_given_up = False

    async def hide(self, go_back: GoBack) -> None:
        """Show the state that may be answered, so that it can be read while there is a hold."""
        records = self._records
        if records.position > records.durable_position:
            self.is_given_up = True  # of what was appended in this turn, nobody waits yet
            self._drop(self.refusal or CLOSED)
            go_back(None)
            await self._go_to(lambda: records.durable_position, go_back)
            self.is_given_up, self._is_hidden = False, True

    async def show(self, go_back: GoBack) -> None:
        if self._is_hidden:
            await self._go_to(lambda: self._records.written_position, go_back)
            self._is_hidden = False

    async def _go_to(self, wanted: Callable[[], int], go_back: GoBack) -> None:
        records, is_reported = self._records, False
        while not records.closing.is_set():
            position = wanted()
            try:
                loaded = await self._disk.in_thread(
                    lambda: recovery.load(self._disk, through=position)  # noqa: B023
                )
            except (OSError, Corrupt) as error:
                if not is_reported:
                    self._on_event("journal cannot be read", {"reason": words(error)})
                is_reported = True
                await self._pause()
            else:
                records.go_to(position)
                go_back(loaded.keyspace)
                return

    def set_hold(self, hold: Unavailable | None) -> None:
        self.hold = hold
        self._note_refusal()

    async def look_for_room(self) -> None:
        try:
            room_now = await self._disk.in_thread(lambda: room.look(self._disk, self._bounds))
        except OSError as error:
            if is_full(error):
                self._set_shortage(_full(error))
            return
        self.free_bytes = room_now.free_bytes
        self._set_shortage(room_now.shortage or self._own_shortage())

    def note_growth(self) -> None:
        shortage = self._own_shortage()
        if self.shortage is None or (shortage is not None and shortage.is_scarce):
            self._set_shortage(shortage)

    def _own_shortage(self) -> Shortage | None:
        return room.shortage_of(self._size_bytes(), self._bounds)

    def _set_shortage(self, shortage: Shortage | None) -> None:
        before, self.shortage = self.shortage, shortage
        self._note_refusal()
        size_bytes = self._size_bytes()
        if before is None and shortage is not None:
            self._on_event("room is short", {"reason": shortage.why, "size_bytes": size_bytes})
        elif before is not None and shortage is None:
            self._on_event("there is room again", {"size_bytes": size_bytes})


def _full(error: OSError) -> Shortage:
    """Return the shortage of a disk that has no room; the reserve is there still, or just gone."""
    return Shortage(f"the disk is full: {words(error)}", is_scarce=False)


def words(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
