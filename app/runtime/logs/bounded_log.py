"""Bounded log: lines that strangers cause, at most so many a second."""

import asyncio
import logging
from collections.abc import Mapping

log = logging.getLogger("headgate")

_SECOND = 1.0


class BoundedLog:
    """Writes warnings, and after each second how many it has left out."""

    def __init__(self, lines_per_s_max: int) -> None:
        """Begin with nothing written."""
        self._lines_per_s_max = lines_per_s_max
        self._count = 0  # in this second
        self._timer: asyncio.TimerHandle | None = None  # set while a second is under way

    def warn(self, event: str, facts: Mapping[str, object]) -> None:
        """Write a line, unless there are too many."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SECOND, self._begin_anew, event)
        self._count += 1
        if self._count <= self._lines_per_s_max:
            log.warning(event, extra=dict(facts))

    def _begin_anew(self, event: str) -> None:
        left_out = self._count - self._lines_per_s_max
        self._timer, self._count = None, 0
        if left_out > 0:
            log.warning(event, extra={"left_out": left_out})
