"""Records: from the moment they are appended until they are durable, with the callers that wait.

Records that arrive while the disk is busy go into the next block together, so one sync serves every
request in flight (group commit).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from headgate.engine import commands
from headgate.engine.eager import Completion
from headgate.engine.errors import Unavailable
from headgate.engine.limits import BLOCK_BYTES_MAX, SERVED_AT_ONCE_MAX

_Waits = deque[tuple[int, Completion[None]]]


class Records:
    """The records that are not durable yet."""

    def __init__(self, position: int) -> None:
        """Begin behind the record at a position."""
        self.position = self.durable_position = position
        self.written_position = position  # of the last record on disk; more may be asked for
        self.gate: Callable[[int], int] = _open
        """Returns the position that may be answered, of one that is on disk."""
        self.closing = asyncio.Event()  # what is there is written, and then the journal ends
        self._unwritten: list[bytes] = []
        self._parts: list[bytes] = []  # of the record that comes next
        self._waits: _Waits = deque()
        self._is_settling = False  # some of those who wait are woken in the next turn
        self._wake = asyncio.Event()

    @property
    def has_unwritten(self) -> bool:
        """Tell whether there is a record to write."""
        return bool(self._unwritten)

    def append(self, record: bytes) -> int:
        """Append a record; returns its position."""
        self._unwritten.append(record)
        self.position += 1
        self._wake.set()
        return self.position

    def stage(self, parts: Iterable[bytes]) -> None:
        """Take parts of the record that comes next."""
        self._parts += parts

    def append_staged(self) -> None:
        """Append the parts as one record; without any, none."""
        if self._parts:
            parts, self._parts = self._parts, []
            self.append(commands.encode_parts(parts))

    def close(self) -> None:
        """Let the journal end once all is written."""
        self.closing.set()
        self._wake.set()

    def wake(self) -> None:
        """Let the writer look for work."""
        self._wake.set()

    async def until_woken(self) -> None:
        """Return when there may be work for the writer."""
        self._wake.clear()
        await self._wake.wait()

    def take(self) -> Sequence[bytes]:
        """Take the records of one block from those to be written: at least one."""
        size_bytes = 0
        for count, record in enumerate(self._unwritten, 1):
            size_bytes += len(record)
            if size_bytes >= BLOCK_BYTES_MAX:
                taken, self._unwritten = self._unwritten[:count], self._unwritten[count:]
                return taken
        taken, self._unwritten = self._unwritten, []
        return taken

    def put_back(self, records: Sequence[bytes]) -> None:
        """Put records that were taken, and not written, before all others."""
        self._unwritten = [*records, *self._unwritten]

    def wait(self, position: int) -> Completion[None]:
        """Return a completion: everything up to `position` is durable, or never will be."""
        durable: Completion[None] = Completion()
        self._waits.append((position, durable))
        return durable

    def settle(self, position: int) -> None:
        """Note that records up to a position are on disk."""
        self.written_position = position
        self.release()

    def release(self) -> None:
        """Wake everyone whose answer may be sent now."""
        self.durable_position = max(self.gate(self.written_position), self.durable_position)
        if self._waits and not self._is_settling:
            self._is_settling = True
            asyncio.get_running_loop().call_soon(self._settle_in_turns)

    def _settle_in_turns(self) -> None:
        """Wake some of those who wait, and the others in the next turns of the event loop.

        Those who are woken may run on at once (`eager`).
        """
        waits, woken_count = self._waits, 0
        try:
            while waits and waits[0][0] <= self.durable_position:
                if woken_count == SERVED_AT_ONCE_MAX:
                    break
                waits.popleft()[1].succeed(None)
                woken_count += 1
        finally:  # whoever fails keeps nobody else waiting
            waits = self._waits
            self._is_settling = bool(waits) and waits[0][0] <= self.durable_position
            if self._is_settling:
                asyncio.get_running_loop().call_soon(self._settle_in_turns)

    def drop(self, reason: str) -> None:
        """Forget the records that are not written, and wake those who wait for them."""
        self._unwritten.clear()
        self._parts.clear()
        if self._waits:
            waits, self._waits = self._waits, deque()
            loop = asyncio.get_running_loop()
            loop.call_soon(_wake_all, waits, self.durable_position, reason)

    def follow(self, position: int) -> None:
        """Go on behind a record that somebody else has made safe."""
        self.position = self.written_position = self.durable_position = position

    def go_to(self, position: int) -> None:
        """Go on behind a record; those behind it were dropped, or are hidden for a while."""
        self.position = position


def _open(position: int) -> int:
    """Let everything be answered that is on disk."""
    return position


def _wake_all(waits: _Waits, durable_position: int, reason: str) -> None:
    """Wake all waiting callers: records up to a position are safe, others were given up."""
    for position, durable in waits:
        if position <= durable_position:
            durable.succeed(None)
        else:
            durable.fail(Unavailable(reason))
