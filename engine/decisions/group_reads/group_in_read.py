"""A group while it is read: as each cursor of a read finds it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from heapq import merge
from itertools import islice, takewhile

from headgate.engine.commands import (
    Command,
    EntriesDelivered,
    EntriesIndexed,
    EntriesPassed,
    EntriesRedelivered,
)
from headgate.engine.config import NO_POLICY
from headgate.engine.entry import MAX_ID, MIN_ID, EntryId, EntryTimes
from headgate.engine.limits import COUNT_MAX
from headgate.engine.requests.deliveries import ReadGroup
from headgate.engine.state.group import Group, Pace
from headgate.engine.state.pending import Consumer
from headgate.engine.state.stream import Stream

_NEWCOMER = Consumer(b"", 0)
"""Stands for a consumer that does not exist yet and so holds nothing."""


class GroupInRead:
    """A group as the consumer finds it after the earlier cursors of the same read are applied.

    Redis serves the streams of a read one by one. If a stream is named twice, the second cursor
    gets what the first has left.
    """

    __slots__ = (
        "_consumer",
        "clock_set_ms",
        "counts",
        "deadlines",
        "entries_read",
        "gained",
        "gone",
        "has_indexed",
        "indexes",
        "last_id",
        "pel",
        "policy",
        "rate_used_ms",
        "rotation",
        "rules",
        "shares_claims",
        "state",
        "through",
    )

    def __init__(self, stream: Stream, group: Group, request: ReadGroup, clock_set_ms: int) -> None:
        self.clock_set_ms = clock_set_ms
        # Of the entries that have times, as far as they matter.
        self.deadlines = stream.deadlines if request.by_policy else None
        self._consumer = group.consumers.get(request.consumer) or _NEWCOMER
        self.pel = group.pel  # as before the read
        self.policy = group.policy.on(stream.name)
        self.rules = self.policy if request.by_policy else NO_POLICY  # of what may be delivered
        self.rate_used_ms = group.rate_used_ms
        self.last_id = group.last_id
        self.entries_read = group.entries_read
        self.counts: dict[EntryId, int] = {}  # delivery counts of what this read delivers
        self.gained: set[EntryId] = set()  # ids that the consumer did not hold before
        self.state = group
        self.indexes = group.indexes
        self.has_indexed = False  # some more, by this read
        self.rotation = group.ahead if request.by_policy else None  # None: by id
        self.gone: set[EntryId] = set()  # from the indexes, as is all `through` an id
        self.through = MIN_ID
        self.shares_claims = not group.has_claimed_last

    @property
    def held_count(self) -> int:
        return len(self._consumer.pending) + len(self.gained)

    def held_before(self, ids: Collection[EntryId]) -> set[EntryId]:
        find, top = self.pel.by_id.get, self._consumer.pending.top
        entries = (
            find(entry_id) for entry_id in ids if entry_id <= top
        )  # new ids are mostly above
        return {
            entry.id for entry in entries if entry is not None and entry.owner is self._consumer
        }

    def note(self, command: Command) -> None:
        if isinstance(command, EntriesRedelivered):
            self._count_one_more(command.ids)
        elif isinstance(command, EntriesDelivered):
            self._count_one_more(command.claimed)
            self.counts.update(dict.fromkeys(command.delivered, 1))
            pending = {*command.claimed, *command.delivered}
            self.gained |= pending - self.held_before(pending)
            self.last_id, self.entries_read = command.last_id, command.entries_read
            if self.indexes:
                self.gone.update(command.delivered)
            pace = Pace.of(self.rules)
            if pace is not None:
                used_ms, at_ms = self.rate_used_ms, command.at_ms - self.clock_set_ms
                self.rate_used_ms = pace.used_after(used_ms, at_ms, command.rated_count)

        elif isinstance(command, EntriesIndexed):
            self.last_id, self.entries_read = command.last_id, command.entries_read
            self.has_indexed = True
        elif isinstance(command, EntriesPassed):
            self.gone.update(command.ids)
            self.through = max(self.through, command.through)

    def ids_ahead(self) -> Iterator[EntryId]:
        """Yield what is ahead by id. Do not change anything meanwhile."""
        ids = (entry_id for index in self.indexes for entry_id, _ in index.by_id())
        return (each for each in ids if each > self.through and each not in self.gone)

    @property
    def ahead_count(self) -> int:
        return sum(map(len, self.indexes)) - len(self.gone) if self.indexes else 0

    def claim_room(self, room: int | None) -> int | None:
        """Return how many entries a read may claim.

        While others wait for their first delivery, no more than half of it: the failures of one key
        would keep all others waiting. Of a single entry, every second one.
        """
        if room is None or self.rotation is None or not self.rotation.is_ready:
            return room
        return int(self.shares_claims) if room == 1 else (room + 1) // 2

    def is_paused(self, now_ms: int) -> bool:
        until_ms = self.rules.paused_until_ms
        return until_ms is not None and now_ms < until_ms

    def allowance(self, now_ms: int) -> int | None:
        if self.is_paused(now_ms):
            return 0
        pace = Pace.of(self.rules)
        return (
            None if pace is None else pace.allowance(self.rate_used_ms, now_ms - self.clock_set_ms)
        )

    def times_of(self, entry_id: EntryId) -> EntryTimes | None:
        return None if self.deadlines is None else self.deadlines.by_id.get(entry_id)

    def is_over(self, entry_id: EntryId, steady_ms: int) -> bool:
        """Tell whether the deadline of an entry is over, and that matters."""
        times = self.times_of(entry_id)
        return times is not None and times.is_over(steady_ms)

    @property
    def walks(self) -> bool:
        rules = self.rules
        has_rule = rules.filters is not None or rules.key_field is not None
        return has_rule or bool(self.deadlines)

    def held_after(self, after: EntryId) -> Iterator[EntryId]:
        if after == MAX_ID:
            return iter(())
        before = (pending.id for pending in self._consumer.pending.walk(after.next()))
        return merge(before, sorted(entry_id for entry_id in self.gained if entry_id > after))

    def may_hold_all(self, after: EntryId, max_pending: int) -> bool:
        """Tell without counting whether all entries above `after` are within `max_pending`."""
        held = self.held_count
        if held == max_pending:
            return next(iter(self.held_after(after)), None) is not None
        return held < max_pending

    def held_through(self, end: EntryId, limit: int) -> int:
        """Count entries up to `end` that the consumer holds; earlier ones only up to `limit`."""
        through = takewhile(lambda pending: pending.id <= end, self._consumer.pending.walk())
        return sum(1 for _ in islice(through, limit)) + sum(
            entry_id <= end for entry_id in self.gained
        )

    def _count_one_more(self, ids: Sequence[EntryId]) -> None:
        for entry_id in ids:
            count = self.counts.get(entry_id) or self.pel.by_id[entry_id].delivery_count
            self.counts[entry_id] = min(count + 1, COUNT_MAX)
