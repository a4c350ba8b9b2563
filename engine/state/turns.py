"""Turns: the order among pending entries of the same key.

The policy of a group may bound how many entries with the same value of a field, the *key*, are
pending at once. Such an entry has its *turn* from its first delivery until it is not pending any
more. Entries behind it are *held*: they are pending, without an owner, and nobody gets them before
their turn comes. Which keys have room and held entries is known at any time, so the next entry is
found at once, however many keys there are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain, islice

from sortedcontainers import SortedDict

from headgate.engine.entry import EntryId
from headgate.engine.state.memory import TURN_BYTES, Memory

HELD_MS = 2**62
"""The end of a held entry's delay: it is not due by time."""


class Turns:
    """The entries of a group that have a key."""

    __slots__ = (
        "_heads",
        "_held",
        "_ids",
        "_keys",
        "_memory",
        "_ready",
        "_taken",
        "at_once",
        "held_count",
    )

    def __init__(self, memory: Memory) -> None:
        """Start without entries; `memory` is told what they take."""
        self.at_once: int | None = None  # turns of a key at the same time; None: any number
        self.held_count = 0
        self._memory = memory
        memory.has_turns = True
        self._keys: dict[EntryId, bytes] = {}
        self._taken: dict[bytes, list[EntryId]] = {}
        self._held: dict[bytes, OrderedDict[EntryId, None]] = {}  # in order of ids
        # Of keys with room and held entries the first of these, and the keys by it.
        self._heads: dict[bytes, EntryId] = {}
        self._ready: SortedDict[EntryId, bytes] = SortedDict()
        self._ids: list[EntryId] = []  # a heap; some are not here any more

    def __len__(self) -> int:
        """Return how many entries have a key."""
        return len(self._keys)

    @property
    def has_ready(self) -> bool:
        """Tell whether the turn of a held entry has come."""
        return bool(self._ready)

    @property
    def memory_bytes(self) -> int:
        """Return the memory of the turns, about."""
        return TURN_BYTES * len(self._keys)

    def items(self) -> Iterator[tuple[EntryId, bytes]]:
        """Yield the entries with their keys, those of a key in the order of their turns."""
        for key in dict.fromkeys(chain(self._taken, self._held)):
            for entry_id in chain(self._taken.get(key, ()), self._held.get(key, ())):
                yield entry_id, key

    def room(self, key: bytes) -> int | None:
        """Return how many new entries of a key may have their turn; None: any number."""
        if self.at_once is None:
            return None
        if key in self._held:
            return 0  # those come first
        return max(self.at_once - len(self._taken.get(key, ())), 0)

    def ready(self) -> Iterator[EntryId]:
        """Yield the held entries whose turn has come, by id. Do not change the turns meanwhile."""
        heads = iter(self._ready.items())
        head = next(heads, None)
        following: list[tuple[EntryId, Iterator[EntryId]]] = []  # a heap
        others: Iterator[EntryId]
        while head is not None or following:
            if head is not None and (not following or head[0] < following[0][0]):
                (entry_id, key), head = head, next(heads, None)
                taken = len(self._taken.get(key, ()))
                room = None if self.at_once is None else self.at_once - taken
                others = islice(self._held[key], 1, room)
            else:
                entry_id, others = heappop(following)
            yield entry_id
            after = next(others, None)
            if after is not None:
                heappush(following, (after, others))

    def before(self, entry_id: EntryId) -> Sequence[EntryId]:
        """Return the entries whose turn a held entry waits for; nothing: it is not held."""
        key = self._keys.get(entry_id)
        if key is None or entry_id not in self._held.get(key, ()):
            return ()
        return self._taken.get(key, ())

    def change(self, at_once: int | None) -> None:
        """Set how many turns of a key there are at the same time."""
        self.at_once = at_once
        for key in self._held:
            self._check(key)

    def take(self, entry_id: EntryId, key: bytes) -> None:
        """Give a turn to an entry that is delivered for the first time."""
        if self._note(entry_id, key):
            self._taken.setdefault(key, []).append(entry_id)
            self._check(key)

    def hold(self, entry_id: EntryId, key: bytes) -> None:
        """Hold an entry back."""
        if self._note(entry_id, key):
            self._held.setdefault(key, OrderedDict())[entry_id] = None
            self.held_count += 1
            self._check(key)

    def begin(self, entry_id: EntryId) -> None:
        """Give a held entry its turn; nothing happens if it is not held."""
        key = self._keys.get(entry_id)
        if key is None or entry_id not in self._held.get(key, ()):
            return
        self._let_go(entry_id, key)
        self._taken.setdefault(key, []).append(entry_id)
        self._check(key)

    def end(self, entry_id: EntryId) -> None:
        """Forget an entry; nothing happens if it has no key."""
        key = self._keys.pop(entry_id, None)
        if key is None:
            return
        self._memory.pending_bytes -= TURN_BYTES
        if entry_id in self._held.get(key, ()):
            self._let_go(entry_id, key)
        else:
            taken = self._taken[key]
            taken.remove(entry_id)
            if not taken:
                del self._taken[key]
        self._check(key)
        if len(self._ids) > 2 * len(self._keys) + 64:
            self._ids = list(self._keys)
            heapify(self._ids)

    def through(self, entry_id: EntryId) -> Iterator[EntryId]:
        """Yield the entries up to an id, each of which is to be forgotten then."""
        while self._ids and self._ids[0] <= entry_id:
            first = heappop(self._ids)
            if first in self._keys:
                yield first

    def _note(self, entry_id: EntryId, key: bytes) -> bool:
        """Note the key of an entry; tells whether it is new."""
        if entry_id in self._keys:
            return False
        self._keys[entry_id] = key
        self._memory.pending_bytes += TURN_BYTES
        heappush(self._ids, entry_id)
        return True

    def _let_go(self, entry_id: EntryId, key: bytes) -> None:
        held = self._held[key]
        del held[entry_id]
        self.held_count -= 1
        if not held:
            del self._held[key]

    def _check(self, key: bytes) -> None:
        """Note whether a key has room and held entries, and the first of these."""
        has_room = self.at_once is None or len(self._taken.get(key, ())) < self.at_once
        head = next(iter(self._held.get(key, ())), None) if has_room else None
        before = self._heads.get(key)
        if head == before:
            return
        if before is not None:
            del self._heads[key], self._ready[before]
        if head is not None:
            self._heads[key] = head
            self._ready[head] = key
