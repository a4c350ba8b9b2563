"""Schedules by name, and in the order in which something is to be done about them."""

from __future__ import annotations

from collections.abc import Callable

from sortedcontainers import SortedDict, SortedSet

from headgate.engine.schedules import ScheduleInfo
from headgate.engine.state.memory import PART_BYTES, SCHEDULE_BYTES


def _nothing() -> None:
    pass


class ScheduleIndex:
    def __init__(self) -> None:
        self.by_name: SortedDict[bytes, ScheduleInfo] = SortedDict()
        self.wakes: SortedSet[tuple[int, bytes]] = SortedSet()  # unix ms; the next one comes first
        self.size_bytes = 0
        self.on_change: Callable[[], None] = _nothing  # something may be due earlier

    def put(self, info: ScheduleInfo) -> None:
        self._leave(info.name)
        self.by_name[info.name] = info
        self.size_bytes += _size_of(info)
        if info.progress.wake_ms is not None:
            self.wakes.add((info.progress.wake_ms, info.name))
            self.on_change()

    def remove(self, name: bytes) -> None:
        self._leave(name)
        del self.by_name[name]

    def _leave(self, name: bytes) -> None:
        before = self.by_name.get(name)
        if before is None:
            return
        self.size_bytes -= _size_of(before)
        if before.progress.wake_ms is not None:
            self.wakes.discard((before.progress.wake_ms, name))


def _size_of(info: ScheduleInfo) -> int:
    fields = info.definition.fields
    return SCHEDULE_BYTES + PART_BYTES * len(fields) + sum(map(len, fields))
