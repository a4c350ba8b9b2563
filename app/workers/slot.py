"""A slot that always holds one process.

A process that ends is restarted: at once if it had served for a while, and with growing pauses if
it ends again and again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from headgate.app.runtime.periodic import is_shortage
from headgate.app.workers.child import Child

log = logging.getLogger("headgate")

LONG_S: Final = 2.0
"""A process that has served for so long has ended by chance, and is started anew at once."""

_PAUSE_S_MIN = 0.1
_PAUSE_S_MAX = 5.0

STARTS_MAX: Final = 5
"""So many starts that fail in a row are no chance."""


class RestartFailed(Exception):
    """A process that has ended cannot be restarted. The text says why."""


class Slot:
    """Keeps one process. Call `fill`, then run `keep` in a task."""

    def __init__(
        self,
        start: Callable[[], Awaitable[Child]],
        *,
        is_needed: Callable[[], bool],
        replaced_s_max: float = 0.0,
    ) -> None:
        """`is_needed` tells whether nothing is served while this slot is empty."""
        self.child: Child | None = None
        self.restart_count = 0
        self._start = start
        self._is_needed = is_needed
        self._replaced_s_max = replaced_s_max
        self._filled = asyncio.Event()
        self._changing = asyncio.Lock()
        self._leaving: set[asyncio.Task[None]] = set()

    async def fill(self) -> None:
        """Start a process, and return once it serves. Raises StartFailed or OSError."""
        self.child = await self._start()
        self._filled.set()

    async def keep(self) -> None:
        """Restart the process whenever it has ended; raises RestartFailed if nothing is served."""
        loop, quick_ends = asyncio.get_running_loop(), 0
        while True:
            await self._filled.wait()
            child, since_s = self.child, loop.time()
            assert child is not None
            code = await child.until_end()
            if child is not self.child:
                continue  # it was replaced
            facts = {"ended": child.name, "pid": child.process_id, "code": code}
            log.error("process has ended, and is started anew", extra=facts)
            self.child = None
            self._filled.clear()
            quick_ends = 0 if loop.time() - since_s >= LONG_S else quick_ends + 1
            async with self._changing:
                await self._fill_again(quick_ends)

    async def replace(self) -> bool:
        """Start another process, and stop the present one if the new one serves; return whether."""
        async with self._changing:
            before = self.child
            try:
                self.child = await self._start()
            except Exception as error:  # noqa: BLE001  for want of a thread, for instance
                log.error("reload given up, processes go on", extra={"reason": str(error)})  # noqa: TRY400
                return False
            self._filled.set()
        if before is not None:
            before.stop(is_replaced=True)
            leaving = asyncio.create_task(self._end_in_time(before))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
        return True

    async def _end_in_time(self, child: Child) -> None:
        try:
            async with asyncio.timeout(self._replaced_s_max):
                await child.until_end()
        except TimeoutError:
            log.warning("process killed, as it did not end", extra={"killed": child.name})
            child.kill()

    async def _fill_again(self, quick_ends: int) -> None:
        failures = 0
        while self.child is None:
            pauses = quick_ends + failures
            if pauses > 1 or failures:
                await asyncio.sleep(min(_PAUSE_S_MIN * 2**pauses, _PAUSE_S_MAX))
            try:
                await self.fill()
            except Exception as error:  # noqa: BLE001  for want of a thread, for instance
                failures += 1
                log.error("process does not start", extra={"reason": str(error)})  # noqa: TRY400
                is_passing = is_shortage(error)
                if failures >= STARTS_MAX and self._is_needed() and not is_passing:
                    raise RestartFailed(str(error)) from None
        self.restart_count += 1
