"""Deadlines: the times of a stream's entries, by id, and in the order in which they expire.

Most entries have none. All times here are steady. Times go with their entry; those of a long trim
go bit by bit, as nobody asks for them any more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from sortedcontainers import SortedList

from headgate.engine.entry import MIN_ID, EntryId, EntryTimes
from headgate.engine.limits import FORGOTTEN_TIMES_MAX, FREED_AT_ONCE_MAX
from headgate.engine.state.memory import DEADLINE_BYTES, TIMES_BYTES, Memory, Pieces


class Deadlines:
    __slots__ = (
        "_by_deadline",
        "_deadline_count",
        "_gone_through",
        "_memory",
        "by_id",
        "memory_bytes",
    )

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.memory_bytes = 0
        self.by_id: OrderedDict[EntryId, EntryTimes] = OrderedDict()
        self._by_deadline: SortedList[tuple[int, EntryId]] = SortedList()  # not looked at yet
        self._deadline_count = 0  # of all entries, looked at or not
        self._gone_through = MIN_ID  # no entry up to here is left

    def __len__(self) -> int:
        """Return how many entries have times; of some the entry may be gone."""
        return len(self.by_id)

    def extend(self, times: Iterable[tuple[EntryId, EntryTimes]]) -> None:
        more = dict(times)
        self.by_id.update(more)
        deadlines = [
            (each.expires_at_ms, entry_id)
            for entry_id, each in more.items()
            if each.expires_at_ms is not None
        ]
        self._by_deadline.update(deadlines)
        self._deadline_count += len(deadlines)
        self._grow(TIMES_BYTES * len(more) + DEADLINE_BYTES * len(deadlines))
        self._forget_some()

    def items(self) -> Iterator[tuple[EntryId, EntryTimes]]:
        return (item for item in self.by_id.items() if item[0] > self._gone_through)

    def forget(self, entry_id: EntryId) -> None:
        times = self.by_id.pop(entry_id, None)
        if times is not None:
            self._grow(-_size_of(times))
            self._deadline_count -= times.expires_at_ms is not None
            self._pass((times.expires_at_ms or 0, entry_id))

    def forget_through(self, entry_id: EntryId) -> None:
        """Forget the times of all entries up to an id; many of them a bit later."""
        self._gone_through = max(self._gone_through, entry_id)
        self._forget_some()

    def _forget_some(self) -> None:
        for entry_id in list(islice(self.by_id, FORGOTTEN_TIMES_MAX)):
            if entry_id > self._gone_through:
                return
            self.forget(entry_id)

    def forget_gone(self) -> None:
        """Forget the times of all entries that are gone, as their ids may come again."""
        while self.by_id and next(iter(self.by_id)) <= self._gone_through:
            self._forget_some()
        self._gone_through = MIN_ID

    @property
    def next_ms(self) -> int | None:
        """Return when the next deadline is over of those that were not looked at; None: never."""
        return self._by_deadline[0][0] if self._by_deadline else None

    def is_any_over(self, now_ms: int) -> bool:
        """Tell whether any deadline is over, looked at or not."""
        if self._deadline_count > len(self._by_deadline):
            return True
        return self.next_ms is not None and self.next_ms <= now_ms

    def due(self, now_ms: int, limit: int) -> list[EntryId]:
        due: list[EntryId] = []
        for at_ms, entry_id in self._by_deadline:
            if at_ms > now_ms or len(due) == limit:
                break
            due.append(entry_id)
        return due

    def pass_all(self, ids: Sequence[EntryId]) -> None:
        """Note that the deadlines of entries were looked at: nobody is to do so again."""
        for entry_id in ids:
            times = self.by_id.get(entry_id)
            if times is not None:
                self._pass((times.expires_at_ms or 0, entry_id))

    def _pass(self, deadline: tuple[int, EntryId]) -> None:
        if deadline in self._by_deadline:
            self._by_deadline.remove(deadline)

    def _grow(self, size_bytes: int) -> None:
        self.memory_bytes += size_bytes
        self._memory.streams_bytes += size_bytes

    def dismantle(self) -> Pieces:
        self._by_deadline.clear()
        while self.by_id:
            for _ in range(min(FREED_AT_ONCE_MAX, len(self.by_id))):
                self.by_id.popitem()
            yield


def _size_of(times: EntryTimes) -> int:
    return TIMES_BYTES + (0 if times.expires_at_ms is None else DEADLINE_BYTES)
