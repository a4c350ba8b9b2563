"""Pending entries: delivered, not yet acknowledged. One object, seen from its group and its owner.

The group sees its pending entries list (PEL) by id and by delivery time, the consumer its own by
id. `Pel` keeps the three views equal; nothing else may change a `PendingEntry`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain, takewhile

from engine.entry import EntryId
from engine.ordered import OrderedMap


class Consumer:
    """A named reader of a group."""

    __slots__ = ("active_at_ms", "name", "pending", "seen_at_ms")

    def __init__(self, name: bytes, seen_at_ms: int) -> None:
        """Start with nothing pending and no success yet."""
        self.name = name
        self.seen_at_ms = seen_at_ms  # last attempt to read or claim
        self.active_at_ms: int | None = None  # last attempt that got something
        self.pending: OrderedMap[EntryId, PendingEntry] = OrderedMap()  # its part of the PEL


class PendingEntry:
    """One delivery that waits for its acknowledgement."""

    __slots__ = ("delivered_at_ms", "delivery_count", "id", "owner", "rests_until_ms", "serial")

    def __init__(self, entry_id: EntryId) -> None:
        """Make an entry that `Pel` is about to fill in."""
        self.id = entry_id
        self.owner: Consumer | None = None  # None after a nack: whoever comes first may have it
        self.delivered_at_ms = 0  # unix time of the last delivery; -1 while nobody owns it
        self.delivery_count = 0
        self.rests_until_ms = 0  # unix time before which nobody gets it, while nobody owns it
        self.serial = 0  # order of arrival among equal delivery times, or of release

    def idle_ms(self, now_ms: int) -> int:
        """Return how long ago it was delivered; never negative, whatever the clock did."""
        return max(now_ms - self.delivered_at_ms, 0)

    def is_owned_by(self, consumer: bytes) -> bool:
        """Tell whether the consumer of that name holds it."""
        return self.owner is not None and self.owner.name == consumer

    def is_claimable(self, now_ms: int, min_idle_ms: int) -> bool:
        """Tell whether it may change hands: nobody's and rested, or idle for long enough."""
        if self.owner is None:
            return now_ms >= self.rests_until_ms
        return self.idle_ms(now_ms) >= min_idle_ms

    def claimable_at_ms(self, min_idle_ms: int) -> int:
        """Return when it may change hands (unix ms), if nothing happens before."""
        return self.rests_until_ms if self.owner is None else self.delivered_at_ms + min_idle_ms


class Pel:
    """The pending entries list of one group."""

    __slots__ = ("_by_time", "_nobodys", "_resting", "_serial", "by_id")

    def __init__(self) -> None:
        """Start empty."""
        self.by_id: OrderedMap[EntryId, PendingEntry] = OrderedMap()
        self._nobodys: OrderedDict[EntryId, PendingEntry] = OrderedDict()  # in order of release
        self._resting: OrderedMap[tuple[int, int], PendingEntry] = OrderedMap()  # nobody's, later
        self._by_time: OrderedMap[tuple[int, int], PendingEntry] = OrderedMap()
        self._serial = 0

    def __len__(self) -> int:
        """Return how many entries are pending."""
        return len(self.by_id)

    def assign(self, entry_id: EntryId, owner: Consumer, at_ms: int, delivery_count: int) -> None:
        """Make `owner` hold the entry, delivered at `at_ms`; it may be new or somebody else's."""
        pending = self.by_id.get(entry_id)
        if pending is None:
            pending = PendingEntry(entry_id)
            self.by_id.insert(entry_id, pending)
        self.hide(pending)
        if pending.owner is not owner:
            if pending.owner is not None:
                pending.owner.pending.remove(entry_id)
            owner.pending.insert(entry_id, pending)
            pending.owner = owner
        self._serial += 1
        pending.serial = self._serial
        pending.delivered_at_ms = at_ms
        pending.delivery_count = delivery_count
        pending.rests_until_ms = 0
        self._by_time.insert((at_ms, self._serial), pending)

    def release(self, entry_id: EntryId, delivery_count: int, rests_until_ms: int = 0) -> None:
        """Make an entry pending and nobody's; it goes to the end of the nacked ones.

        If it is to rest, it comes among them when its time has come.
        """
        pending = self.by_id.get(entry_id)
        if pending is None:
            pending = PendingEntry(entry_id)
            self.by_id.insert(entry_id, pending)
        else:
            self.hide(pending)
        if pending.owner is not None:
            pending.owner.pending.remove(entry_id)
            pending.owner = None
        self._serial += 1
        pending.serial = self._serial
        pending.delivered_at_ms = 0
        pending.delivery_count = delivery_count
        pending.rests_until_ms = rests_until_ms
        self._show_nobodys(pending)

    def remove(self, entry_id: EntryId) -> bool:
        """Forget a pending entry; tells whether it was there."""
        pending = self.by_id.remove(entry_id)
        if pending is None:
            return False
        self.hide(pending)
        if pending.owner is not None:
            pending.owner.pending.remove(entry_id)
        return True

    def hide(self, pending: PendingEntry) -> None:
        """Leave an entry out of `longest_idle_first` until it is assigned or released again.

        For one whose stream entry is gone: it can only be in the way, unless its id comes again.
        """
        if pending.owner is None:
            self._nobodys.pop(pending.id, None)
            if pending.rests_until_ms:
                self._resting.remove((pending.rests_until_ms, pending.serial))
        else:
            self._by_time.remove((pending.delivered_at_ms, pending.serial))

    def is_hidden(self, pending: PendingEntry) -> bool:
        """Tell whether `longest_idle_first` leaves an entry out."""
        if pending.owner is None:
            is_resting = (pending.rests_until_ms, pending.serial) in self._resting
            return not is_resting and pending.id not in self._nobodys
        return (pending.delivered_at_ms, pending.serial) not in self._by_time

    def show_all(self) -> None:
        """Undo every `hide`: ids of entries that are gone may come again."""
        self._nobodys = OrderedDict()
        self._resting = OrderedMap()
        self._by_time = OrderedMap()
        for pending in self.in_time_order():
            if pending.owner is None:
                self._show_nobodys(pending)
            else:
                self._by_time.insert((pending.delivered_at_ms, pending.serial), pending)

    def in_time_order(self) -> list[PendingEntry]:
        """Return all entries, hidden ones too, by delivery time or, for nobody's, by release."""
        return sorted(self.by_id.walk(), key=lambda one: (one.delivered_at_ms, one.serial))

    def longest_idle_first(self, now_ms: int) -> Iterator[PendingEntry]:
        """Yield nacked entries first, then by delivery time. Do not change the PEL meanwhile.

        Of nacked entries, those that have rested come first; those that still rest are left out.
        """
        rested = takewhile(lambda one: one.rests_until_ms <= now_ms, self._resting.walk())
        return chain(rested, self._nobodys.values(), self._by_time.walk())

    def first_resting(self) -> PendingEntry | None:
        """Return the entry whose rest ends first, if any rests."""
        return self._resting.first()

    def _show_nobodys(self, pending: PendingEntry) -> None:
        if pending.rests_until_ms:
            self._resting.insert((pending.rests_until_ms, pending.serial), pending)
        else:
            self._nobodys[pending.id] = pending
