"""RDB groups: the groups of a stream of a file, with pending entries in little memory."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter

from headgate.app.backends.plain.commands import NOBODY
from headgate.engine.config import NO_POLICY
from headgate.engine.entry import EntryId
from headgate.engine.images import GroupImage
from headgate.engine.replies import ConsumerInfo, GroupInfo, PendingItem, PendingSummary


class RdbGroup:
    """A group. Each pending entry takes 40 bytes."""

    def __init__(self, image: GroupImage, now_ms: int) -> None:
        """Take the group of the file.

        Args:
            image: the group in the file.
            now_ms: unix time from which idle times count.
        """
        pending = image.pending
        self._now_ms = now_ms
        self._ms = array("Q", [each.id.ms for each in pending])
        self._seq = array("Q", [each.id.seq for each in pending])
        self._owner = array("l", [each.consumer for each in pending])
        self._at_ms = array("q", [each.delivered_at_ms for each in pending])
        self._count = array("q", [each.delivery_count for each in pending])
        self._names = [consumer.name for consumer in image.consumers]
        held = Counter(self._owner)
        self.consumers = sorted(
            ConsumerInfo(consumer.name, held[number], max(now_ms - consumer.seen_at_ms, 0), None)
            for number, consumer in enumerate(image.consumers)
            if consumer.name != NOBODY
        )
        self.info = GroupInfo(
            name=image.name,
            last_id=image.last_id,
            entries_read=image.entries_read,
            lag=None,
            pending_count=len(pending),
            released_count=0,
            consumer_count=len(self.consumers),
            policy=NO_POLICY,
        )

    def summary(self) -> PendingSummary:
        """Return between which ids there are pending entries."""
        count = len(self._ms)
        first, last = (self._id(0), self._id(count - 1)) if count else (None, None)
        return PendingSummary(count, first, last, [], 0)

    def pending(self, start: EntryId, end: EntryId, limit: int) -> list[PendingItem]:
        """Return up to `limit` pending entries from `start` to `end`, both inclusive."""
        begin = bisect_left(range(len(self._ms)), start, key=self._id)
        stop = bisect_right(range(len(self._ms)), end, key=self._id)
        return [self._item(place) for place in range(begin, min(stop, begin + limit))]

    def _id(self, place: int) -> EntryId:
        return EntryId(self._ms[place], self._seq[place])

    def _item(self, place: int) -> PendingItem:
        owner = self._owner[place]
        name = NOBODY if owner < 0 else self._names[owner]
        if name == NOBODY:
            return PendingItem(self._id(place), None, None, self._count[place])
        idle_ms = max(self._now_ms - self._at_ms[place], 0)
        return PendingItem(self._id(place), name, idle_ms, self._count[place])
