"""Pending entries: delivered, and not acknowledged yet. A group and a consumer share each object.

The group sees its pending entries list (PEL) by id and by delivery time; the consumer sees its own
entries by id. `Pel` keeps the three views equal, and nothing else may change a `PendingEntry`. All
times here are steady (`clock.py`), so nobody waits longer when somebody sets the wall clock.

A pending entry says itself in which views it is, by `is_pending`, `owner`, `is_waiting` and
`serial`. Only the group can look an entry up. So an acknowledgement costs one search and touches
one object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice, repeat, takewhile
from operator import attrgetter, lt

from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.limits import ERRORS_MAX, FREED_AT_ONCE_MAX
from headgate.engine.state.memory import ERROR_BYTES, PENDING_BYTES, Memory, Pieces
from headgate.engine.state.ordered import KeyedRun, OrderedView
from headgate.engine.state.turns import HELD_MS, Turns


class Consumer:
    __slots__ = ("active_at_ms", "name", "pending", "seen_at_ms")

    def __init__(self, name: bytes, seen_at_ms: int) -> None:
        self.name = name
        self.seen_at_ms = seen_at_ms  # last attempt to read or claim
        self.active_at_ms: int | None = None  # last attempt that got something
        self.pending: OrderedView[PendingEntry] = OrderedView(self._holds)  # by id

    def dismantle(self) -> Pieces:
        """Let go of the pending entries: they know the consumer, and the consumer knows them."""
        return self.pending.dismantle()

    def _holds(self, block: KeyedRun[PendingEntry], start: int) -> Iterator[int]:
        values = block.values
        return (at for at in range(start, len(values)) if values[at].owner is self)


class PendingEntry:
    __slots__ = (
        "delayed_until_ms",
        "delivered_at_ms",
        "delivery_count",
        "id",
        "is_pending",
        "is_waiting",
        "owner",
        "serial",
    )

    def __init__(
        self,
        entry_id: EntryId,
        owner: Consumer | None = None,
        delivered_at_ms: int = 0,
        serial: int = 0,
    ) -> None:
        self.id = entry_id
        self.owner = owner  # None after a nack: whoever comes first may have it
        self.delivered_at_ms = delivered_at_ms  # the last delivery; 0 while nobody owns it
        self.delivery_count = 1
        self.delayed_until_ms = 0  # nobody gets it before, while nobody owns it
        self.serial = serial  # order of arrival among equal delivery times, or of release
        self.is_pending = True  # until it is removed, for good
        self.is_waiting = True  # for its next delivery; not while it is hidden

    @property
    def is_held(self) -> bool:
        """Tell whether nobody gets it before its turn comes."""
        return self.delayed_until_ms == HELD_MS

    def idle_ms(self, now_ms: int) -> int:
        """Return the time since the delivery; never negative, even if the clock stepped back."""
        return max(now_ms - self.delivered_at_ms, 0)

    def is_owned_by(self, consumer: bytes) -> bool:
        return self.owner is not None and self.owner.name == consumer

    def is_claimable(self, now_ms: int, min_idle_ms: int) -> bool:
        """Tell whether another consumer may have it: it is nobody's, or idle for long."""
        if self.owner is None:
            return now_ms >= self.delayed_until_ms
        return self.idle_ms(now_ms) >= min_idle_ms

    def claimable_at_ms(self, min_idle_ms: int) -> int:
        return self.delayed_until_ms if self.owner is None else self.delivered_at_ms + min_idle_ms


Queue = OrderedView[PendingEntry]
"""By a time and then by serial."""


class Pel:
    __slots__ = (
        "_by_time",
        "_delayed",
        "_errors_bytes",
        "_hidden",
        "_hidden_released_count",
        "_in_order",
        "_memory",
        "_released",
        "_serial",
        "by_id",
        "errors",
        "turns",
    )

    def __init__(self, memory: Memory | None = None) -> None:
        self._memory = memory or Memory()
        self.by_id: dict[EntryId, PendingEntry] = {}
        self.errors: dict[EntryId, bytes] = {}  # the last of each entry, the oldest first
        self._errors_bytes = 0
        self._in_order: OrderedView[PendingEntry] = OrderedView(_pending)  # of id
        self._serial = 0
        self._hidden: dict[EntryId, PendingEntry] = {}
        self._hidden_released_count = 0
        self._released: Queue = OrderedView(_waiting)  # in order of release
        self._delayed: Queue = OrderedView(_waiting)  # released, by the end of their delay
        self._by_time: Queue = OrderedView(_waiting)  # owned, by delivery time
        self.turns: Turns | None = None  # of keys, if the policy bounds them

    def __len__(self) -> int:
        return len(self.by_id)

    @property
    def memory_bytes(self) -> int:
        turns_bytes = 0 if self.turns is None else self.turns.memory_bytes
        return PENDING_BYTES * len(self.by_id) + self._errors_bytes + turns_bytes

    @property
    def released_count(self) -> int:
        waiting_count = len(self._released) + len(self._delayed)
        later_count = 0 if self.turns is None else self.turns.later_count
        return waiting_count + self._hidden_released_count + self.held_count + later_count

    @property
    def held_count(self) -> int:
        return 0 if self.turns is None else self.turns.held_count

    @property
    def delayed_count(self) -> int:
        """Return the number of entries whose delay was not over when they were last looked at."""
        return len(self._delayed) + (0 if self.turns is None else self.turns.later_count)

    def bound_keys(self, at_once: int | None, *, is_noted: bool = False) -> None:
        """Bound how many entries of a key are pending; without a bound, keys may be noted."""
        if self.turns is None and (at_once is not None or is_noted):
            self.turns = Turns(self._memory)
        if self.turns is not None:
            self.turns.change(at_once)

    def dismantle(self) -> Pieces:
        self.errors.clear()
        turns, self.turns = self.turns, None
        if turns is not None:
            yield from turns.dismantle()
        for view in (self._in_order, self._released, self._delayed, self._by_time):
            yield from view.dismantle()
        while self.by_id:
            for _ in range(min(FREED_AT_ONCE_MAX, len(self.by_id))):
                self.by_id.popitem()
            yield

    def walk(self, start: EntryId = MIN_ID) -> Iterator[PendingEntry]:
        """Yield entries in order of their ids, from `start` on. Do not change the PEL meanwhile."""
        return self._in_order.walk(start)

    def first(self) -> PendingEntry | None:
        return self._in_order.first()

    def last(self) -> PendingEntry | None:
        return self._in_order.last()

    def assign(self, entry_id: EntryId, owner: Consumer, at_ms: int, delivery_count: int) -> None:
        """Make `owner` hold the entry, delivered at `at_ms`; it may be new or somebody else's."""
        pending = self._taken_out(entry_id)
        former = pending.owner
        if former is not owner:
            pending.owner = owner
            owner.pending.insert(pending.id, pending)
            if former is not None:
                former.pending.note_left()
        pending.delivered_at_ms = at_ms
        pending.delivery_count = delivery_count
        pending.delayed_until_ms = 0
        pending.is_waiting = True
        self._by_time.insert((at_ms, pending.serial), pending)

    def assign_new(self, ids: Sequence[EntryId], owner: Consumer, at_ms: int) -> None:
        """Make `owner` hold entries that are delivered for the first time, in this order."""
        serial = self._serial + 1
        tops = self._in_order.top, owner.pending.top
        is_above = bool(ids) and ids[0] > max(tops) and (at_ms, serial) > self._by_time.top
        if not is_above or not all(map(lt, ids, islice(ids, 1, None))):
            for entry_id in ids:
                self.assign(entry_id, owner, at_ms, 1)
            return
        self._serial += len(ids)
        serials = range(serial, self._serial + 1)
        entries = list(map(PendingEntry, ids, repeat(owner), repeat(at_ms), serials))
        self.by_id.update(zip(ids, entries, strict=True))
        self._memory.pending_bytes += PENDING_BYTES * len(ids)
        self._in_order.extend(ids, entries)
        owner.pending.extend(ids, entries)
        self._by_time.extend(list(zip(repeat(at_ms), serials, strict=False)), entries)

    def release(self, entry_id: EntryId, delivery_count: int, delayed_until_ms: int = 0) -> None:
        """Make an entry pending without an owner, last of the released ones, or after its delay."""
        pending = self._taken_out(entry_id)
        former = pending.owner
        if former is not None:
            pending.owner = None
            former.pending.note_left()
        pending.delivered_at_ms = 0
        pending.delivery_count = delivery_count
        pending.delayed_until_ms = delayed_until_ms
        self._show(pending)

    def hold(self, entry_id: EntryId, key: bytes, due_ms: int = 0) -> None:
        """Hold an entry back until its turn; it does not wait for that before `due_ms`."""
        assert self.turns is not None
        pending = self._taken_out(entry_id)
        pending.delivery_count = 0
        pending.delayed_until_ms = HELD_MS
        pending.is_waiting = False
        self.turns.hold(entry_id, key, due_ms)

    def fill_turns(
        self,
        keys: Iterable[tuple[EntryId, bytes]],
        later: Iterable[tuple[EntryId, bytes, int]] = (),
    ) -> None:
        """Note the keys of pending entries: each has its turn, or is held as its delay says.

        `later` are those that are delayed before they wait, each with its key and when it is due.
        """
        if self.turns is None:
            self.turns = Turns(self._memory)
        for entry_id, key in keys:
            if self.by_id[entry_id].is_held:
                self._hold_again(entry_id, key, 0)
            else:
                self.turns.take(entry_id, key)
        for entry_id, key, due_ms in later:
            self._hold_again(entry_id, key, due_ms)

    def _hold_again(self, entry_id: EntryId, key: bytes, due_ms: int) -> None:
        count = self.by_id[entry_id].delivery_count
        self.hold(entry_id, key, due_ms)
        self.by_id[entry_id].delivery_count = count

    def forget_through(self, entry_id: EntryId) -> None:
        assert self.turns is not None
        self.forget_turns(self.turns.go_through(entry_id), entry_id)

    def forget_turns(self, first_id: EntryId, last_id: EntryId) -> None:
        assert self.turns is not None
        between = takewhile(lambda each: each.id <= last_id, self.walk(first_id))
        held: list[EntryId] = []
        others: list[EntryId] = []
        for pending in between:
            (held if pending.is_held else others).append(pending.id)
        self.remove_all(held)
        self.turns.end_all(others)

    def forget_turn(self, entry_id: EntryId) -> None:
        """End the turn of an entry that is gone from the stream; a held one is not pending then."""
        assert self.turns is not None
        pending = self.by_id.get(entry_id)
        if pending is not None and pending.is_held:
            self.remove(entry_id)
        else:
            self.turns.end_all((entry_id,))

    def note_error(self, entry_id: EntryId, error: bytes) -> None:
        """Keep the last error of a pending entry; the oldest one goes if there are too many."""
        self._forget_error(entry_id)
        self.errors[self.by_id[entry_id].id] = error
        self._grow_errors(ERROR_BYTES + len(error))
        if len(self.errors) > ERRORS_MAX:
            self._forget_error(next(iter(self.errors)))

    def _forget_error(self, entry_id: EntryId) -> None:
        error = self.errors.pop(entry_id, None)
        if error is not None:
            self._grow_errors(-ERROR_BYTES - len(error))

    def _grow_errors(self, size_bytes: int) -> None:
        self._errors_bytes += size_bytes
        self._memory.pending_bytes += size_bytes

    def _taken_out(self, entry_id: EntryId) -> PendingEntry:
        """Return the entry with its next serial, in no queue; it is made if need be."""
        pending = self.by_id.get(entry_id)
        if pending is None:
            pending = self.by_id[entry_id] = PendingEntry(entry_id)
            self._memory.pending_bytes += PENDING_BYTES
            self._in_order.insert(entry_id, pending)
        else:
            self._leave_queue(pending)
            if pending.is_held and self.turns is not None:
                self.turns.begin(pending.id)
        self._serial += 1
        pending.serial = self._serial
        return pending

    def remove(self, entry_id: EntryId) -> bool:
        is_there = entry_id in self.by_id
        self.remove_all((entry_id,))
        return is_there

    def remove_all(self, ids: Iterable[EntryId]) -> None:
        """Forget those entries that are pending; each view counts them together."""
        gone = [self.by_id.pop(entry_id, None) for entry_id in ids]
        there = (pending for pending in gone if pending is not None)
        for owner, entries in groupby(there, attrgetter("owner")):
            self._forget(owner, list(entries))

    def _forget(self, owner: Consumer | None, entries: list[PendingEntry]) -> None:
        waiting_count = 0
        if self.errors:
            for pending in entries:
                self._forget_error(pending.id)
        for pending in entries:
            if owner is not None and pending.is_waiting:
                pending.is_waiting = False
                waiting_count += 1
            else:
                self._leave_queue(pending)
            pending.is_pending = False
            pending.owner = None
        if self.turns is not None:
            self.turns.end_all([pending.id for pending in entries])
        self._memory.pending_bytes -= PENDING_BYTES * len(entries)
        self._in_order.note_left(len(entries))
        if waiting_count:
            self._by_time.note_left(waiting_count)
        if owner is not None:
            owner.pending.note_left(len(entries))

    def hide(self, pending: PendingEntry) -> None:
        """Leave an entry out of `longest_idle_first` until it is assigned or released again.

        For one whose stream entry is gone: it can only be in the way, unless its id comes again.
        """
        self._leave_queue(pending)
        self._hidden[pending.id] = pending
        self._hidden_released_count += pending.owner is None

    def _leave_queue(self, pending: PendingEntry) -> None:
        if pending.is_waiting:
            pending.is_waiting = False
            self._queue(pending).note_left()
        elif self._hidden.pop(pending.id, None) is not None:
            self._hidden_released_count -= pending.owner is None

    def is_hidden(self, pending: PendingEntry) -> bool:
        return not pending.is_waiting

    def show_all(self) -> None:
        """Undo every `hide`: ids of entries that are gone may come again."""
        self._hidden_released_count = 0
        while self._hidden:
            self._show(self._hidden.popitem()[1])

    def in_time_order(self) -> list[PendingEntry]:
        """Return all entries, hidden ones too, by delivery time or, if released, by release."""
        return sorted(self.walk(), key=lambda entry: (entry.delivered_at_ms, entry.serial))

    def longest_idle_first(self, now_ms: int) -> Iterator[PendingEntry]:
        """Yield released entries past their delay, then by delivery time. No change meanwhile."""
        rested = takewhile(lambda entry: entry.delayed_until_ms <= now_ms, self._delayed.walk())
        return chain(rested, self._released.walk(), self._by_time.walk())

    def longest_held(self) -> PendingEntry | None:
        return self._by_time.first()

    def first_delayed(self) -> PendingEntry | None:
        return self._delayed.first()

    def _queue(self, pending: PendingEntry) -> Queue:
        if pending.owner is not None:
            return self._by_time
        return self._delayed if pending.delayed_until_ms else self._released

    def _show(self, pending: PendingEntry) -> None:
        pending.is_waiting = True
        at_ms = pending.delayed_until_ms or pending.delivered_at_ms
        self._queue(pending).insert((at_ms, pending.serial), pending)


def _pending(block: KeyedRun[PendingEntry], start: int) -> Iterator[int]:
    values = block.values
    return (at for at in range(start, len(values)) if values[at].is_pending)


def _waiting(block: KeyedRun[PendingEntry], start: int) -> Iterator[int]:
    values, serials = block.values, block.minors
    places = range(start, len(values))
    return (at for at in places if values[at].is_waiting and values[at].serial == serials[at])
