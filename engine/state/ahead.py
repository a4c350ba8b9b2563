"""What lies ahead of a group, by key: the index behind fair delivery.

A group with `fair_field` does not read the log in order. Each entry is indexed by its *key*, the
value of that field, as it is appended. The keys with something to deliver stand in a *rotation*: a
key's turn is as many entries as its weight says, and then it goes to the back. So the next entry is
known at once, however long the backlog of another key is.

A key without room for another pending entry (`key_pending_max`) *rests*. It stands in no rotation
until one of its entries is settled.

Entries of one priority are in one *lane*, and each lane has a rotation of its own.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from operator import attrgetter, itemgetter
from typing import NamedTuple

from headgate.engine.entry import MIN_ID, EntryId, Fields, key_of
from headgate.engine.state.lane import KEYS_AT_ONCE, IdRun, Key, Lane, Next, Room, Waiting
from headgate.engine.state.memory import AHEAD_BYTES, AHEAD_KEY_BYTES, Memory, Pieces

_CLASS_MAX = 9
_PRIORITIES = {b"%d" % each: each for each in range(_CLASS_MAX + 1)}


class AheadRun(NamedTuple):
    """Neighbouring entries of a key, as they are dumped."""

    is_former: bool  # indexed by the fields of a policy before
    fields: tuple[bytes | None, bytes | None]  # of the key and of the priority
    priority: int
    key: Key
    majors: bytes  # of the ids, 8 bytes each
    minors: bytes


class Ahead:
    """All that lies ahead of a group, in one lane or in a lane for each priority."""

    __slots__ = (
        "_age_ms",
        "_lanes",
        "_memory",
        "_unchecked",
        "count",
        "fair_field",
        "has_news",
        "priority_field",
        "resting",
        "shares",
        "weights",
    )

    def __init__(
        self, fair_field: bytes | None, priority_field: bytes | None, memory: Memory
    ) -> None:
        self.fair_field = fair_field
        self.priority_field = priority_field
        self.count = 0
        self.weights: Mapping[bytes, int] = {}
        self.shares = Shares()
        self.has_news = False  # a key that rested has a turn again
        self._age_ms: int | None = None  # an entry rises by a priority in so long
        self._memory = memory
        self._lanes: dict[int, Lane] = {}
        self._unchecked: deque[Key] = deque()  # keys that may have a turn again
        self.resting: set[Key] = set()  # keys that rest, and some that have nothing ahead

    def __len__(self) -> int:
        return self.count

    def set_rules(self, weights: Iterable[tuple[bytes, int]], age_ms: int | None) -> None:
        self.weights, self._age_ms = dict(weights), age_ms

    @property
    def memory_bytes(self) -> int:
        return AHEAD_BYTES * self.count + AHEAD_KEY_BYTES * self.key_count

    @property
    def key_count(self) -> int:
        return sum(map(len, self._lanes.values()))

    @property
    def is_ready(self) -> bool:
        """Tell whether an entry may be delivered now."""
        return bool(self._unchecked) or any(lane.turns for lane in self._lanes.values())

    @property
    def first_id(self) -> EntryId | None:
        return next((entry_id for entry_id, _ in self.by_id()), None)

    def place_of(self, fields: Fields) -> tuple[Key, int]:
        """Return the key and the priority of an entry; 0 if it has none that is a digit."""
        key = None if self.fair_field is None else key_of(fields, self.fair_field)
        if self.priority_field is None:
            return key, 0
        return key, _PRIORITIES.get(key_of(fields, self.priority_field) or b"", 0)

    def add(self, entry_id: EntryId, key: Key, priority: int = 0, *, rests: bool = False) -> None:
        """Add an entry, whose id is above all others of its key and priority."""
        lane = self._lanes.get(priority)
        if lane is None:
            lane = self._lanes[priority] = Lane(self._memory)
        lane.add(entry_id, key, rests=rests)
        if rests:
            self.resting.add(key)
        self.count += 1
        self._memory.pending_bytes += AHEAD_BYTES

    def take(self, ids: Sequence[EntryId], keys: Sequence[Key]) -> None:
        """Remove entries that are delivered, or passed by, in their turns."""
        lanes = list(self._lanes.values())
        if len(lanes) == 1:
            self._note_gone(lanes[0].remove_all(ids, keys, self.weights))
            return
        for entry_id, key in zip(ids, keys, strict=True):
            if any(lane.remove(entry_id, key, self.weights) for lane in lanes):
                self._note_gone(1)

    def forget(self, entry_id: EntryId, fields: Fields) -> None:
        """Remove an entry that is about to go from the stream."""
        key, priority = self.place_of(fields)
        lane = self._lanes.get(priority)
        if lane is not None and lane.remove(entry_id, key):
            self._note_gone(1)

    def has(self, entry_id: EntryId, fields: Fields) -> bool:
        key, priority = self.place_of(fields)
        found = self._lanes[priority].find(key) if priority in self._lanes else None
        return found.has(entry_id) if isinstance(found, IdRun) else found == entry_id

    def trim(self, through: EntryId) -> None:
        """Remove everything up to an id. Whoever decides that bounds how much it is."""
        self._note_gone(sum(lane.trim(through) for lane in self._lanes.values()))

    def _note_gone(self, count: int) -> None:
        self.count -= count
        self._memory.pending_bytes -= AHEAD_BYTES * count

    def having_turns(self, keys: Sequence[Key]) -> list[Key]:
        """Return those of some keys of which entries are ahead, and may come."""
        lanes = self._lanes.values()
        return [key for lane in lanes for key in filter(lane.turns.__contains__, keys)]

    def rest(self, key: Key) -> None:
        self.resting.add(key)
        for lane in self._lanes.values():
            lane.rest(key)

    def rouse(self, key: Key) -> None:
        """Give a key that has room again its turn, behind all others."""
        self.resting.discard(key)
        for lane in self._lanes.values():
            if lane.rouse(key):
                self.has_news = True

    def check_all(self) -> None:
        """Note that every key that rests may have room, as the bound has changed."""
        self._unchecked.extend(self.resting)

    def look(self) -> None:
        for _ in range(min(KEYS_AT_ONCE, len(self._unchecked))):
            self.rouse(self._unchecked.popleft())

    def front(self, count: int) -> tuple[list[EntryId], list[Key]] | None:
        """Return what comes next, with its keys, if each of these has one entry; else None."""
        lanes = [lane for lane in self._lanes.values() if lane.turns]
        return lanes[0].front(count) if len(lanes) == 1 else None

    def rotation(self, room_of: Room | None, now_ms: int) -> Iterator[Next]:
        """Yield what comes next, as if each was delivered. Do not change anything meanwhile.

        With priorities, the lane whose first entry has the highest one comes first. An entry rises
        as it ages; of two lanes as high as each other, the one with the older entry comes first.
        """
        lanes = {at: lane for at, lane in self._lanes.items() if lane.turns}
        if len(lanes) < 2:
            for lane in lanes.values():
                yield from lane.rotation(room_of, self.weights)
            return
        rotations = {at: lane.rotation(room_of, self.weights) for at, lane in lanes.items()}
        fronts = {at: each for at, rotation in rotations.items() if (each := next(rotation, None))}
        given: Counter[Key] = Counter()
        while fronts:
            at = max(fronts, key=lambda at: self._rank(at, fronts[at], now_ms))
            front = fronts.pop(at)
            room = None if room_of is None or front[0] is None else room_of(front[1])
            if room is None or given[front[1]] < room:  # no other lane has used it up
                given[front[1]] += 1
                yield front
            after = next(rotations[at], None)
            if after is not None:
                fronts[at] = after

    def _rank(self, priority: int, front: Next, now_ms: int) -> tuple[int, int, int]:
        first_id, _ = front
        if first_id is None:
            return _CLASS_MAX + 1, 0, 0
        if self._age_ms:
            priority += max(now_ms - first_id.ms, 0) // self._age_ms
        return min(priority, _CLASS_MAX), -first_id.ms, -first_id.seq

    def by_id(self) -> Iterator[tuple[EntryId, Key]]:
        """Yield all entries in order of their ids. Do not change anything meanwhile."""
        return merge(*(lane.by_id() for lane in self._lanes.values()), key=itemgetter(0))

    def waiting(self, start: EntryId = MIN_ID) -> Iterator[Waiting]:
        """Yield keys of lanes, from an id on: those that wait longest first."""
        lanes = (lane.waiting(start) for lane in self._lanes.values())
        return merge(*lanes, key=attrgetter("first_id"))

    @property
    def fields(self) -> tuple[bytes | None, bytes | None]:
        return self.fair_field, self.priority_field

    def dump(self, *, is_former: bool) -> Iterator[AheadRun]:
        """Yield what is ahead, in order of the rotation."""
        for priority, lane in self._lanes.items():
            for home in (lane.turns, lane.resting):
                for key, found in home.items():
                    run = found if isinstance(found, IdRun) else IdRun((found,))
                    for columns in run.pages():
                        yield AheadRun(is_former, self.fields, priority, key, *columns)

    def load(self, run: AheadRun) -> None:
        for ms, seq in zip(array("Q", run.majors), array("Q", run.minors), strict=True):
            self.add(EntryId(ms, seq), run.key, run.priority)

    def leave(self) -> None:
        self._memory.pending_bytes -= self.memory_bytes

    def dismantle(self) -> Pieces:
        for lane in self._lanes.values():
            yield from lane.dismantle()


_SHARE_MS = 10_000
_SHARES = 6
_SHARED_KEYS_MAX = 1_000


class Shares:
    """How much of the deliveries of the last minute each key had. It is never recorded."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: deque[tuple[int, Counter[Key]]] = deque(maxlen=_SHARES)

    def note(self, keys: Sequence[Key], at_ms: int) -> None:
        number = at_ms // _SHARE_MS
        if not self._parts or self._parts[-1][0] < number:
            self._parts.append((number, Counter()))
        counts = self._parts[-1][1]
        if len(counts) < _SHARED_KEYS_MAX:
            counts.update(keys)
        else:  # keys that are new now have small shares
            counts.update(filter(counts.__contains__, keys))

    def of(self, now_ms: int) -> Mapping[Key, float]:
        """Return the shares of keys, each from 0 to 1."""
        first = now_ms // _SHARE_MS - _SHARES
        counts: Counter[Key] = Counter()
        for number, part in self._parts:
            if number > first:
                counts.update(part)
        total = counts.total()
        return {key: count / total for key, count in counts.items()}
