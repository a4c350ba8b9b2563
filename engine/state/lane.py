"""Lane: entries ahead of a group that have one priority, and the rotation of their keys.

A key has most often either one entry or very many. One is kept as its id. Many are an `IdRun`: 16
bytes each, in blocks, so that nothing moves that is long.

Keys are listed in order of their first entries, too: for reads by id, trims, and those who ask who
waits longest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple, cast

from headgate.engine.entry import EntryId
from headgate.engine.limits import FREED_AT_ONCE_MAX
from headgate.engine.state.memory import AHEAD_KEY_BYTES, Memory, Pieces
from headgate.engine.state.ordered import AscendingKeys, KeyedRun, OrderedView

Key = bytes | None
"""The value of the field; None: the entry has no such field. These share one turn."""

Room = Callable[[Key], int | None]
"""Tells how many more entries of a key may be pending; None: any number."""

_BLOCK_IDS = 1_024

KEYS_AT_ONCE = 1_000
"""Keys that are looked at together after a change of the bound. Each takes 2 µs."""


class IdRun:
    """Ids of one key, at least one, ascending."""

    __slots__ = ("_at", "_blocks", "count")

    def __init__(self, ids: Iterable[EntryId]) -> None:
        self._blocks: list[AscendingKeys] = []
        self._at = 0  # of the first block, those before it have gone
        self.count = 0
        for entry_id in ids:
            self.append(entry_id)

    @property
    def head(self) -> EntryId:
        block = self._blocks[0]
        return EntryId(block.majors[self._at], block.minors[self._at])

    def append(self, entry_id: EntryId) -> None:
        if not self._blocks or len(self._blocks[-1]) >= _BLOCK_IDS:
            self._blocks.append(AscendingKeys())
        block = self._blocks[-1]
        block.majors.append(entry_id.ms)
        block.minors.append(entry_id.seq)
        self.count += 1

    def __iter__(self) -> Iterator[EntryId]:
        at = self._at
        for block in self._blocks:
            for place in range(at, len(block)):
                yield EntryId(block.majors[place], block.minors[place])
            at = 0

    def pages(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the ids, a block at a time, in two columns."""
        at = self._at
        for block in self._blocks:
            yield block.majors[at:].tobytes(), block.minors[at:].tobytes()
            at = 0

    def has(self, entry_id: EntryId) -> bool:
        return self._place(entry_id) is not None

    def remove(self, entry_id: EntryId) -> bool:
        first = self._blocks[0]
        at = self._at
        if first.majors[at] == entry_id.ms and first.minors[at] == entry_id.seq:
            self._leave(at + 1)
            return True
        place = self._place(entry_id)
        if place is None:
            return False
        index, at = place
        block = self._blocks[index]
        del block.majors[at], block.minors[at]
        if not block.majors:
            del self._blocks[index]
        self.count -= 1
        return True

    def trim(self, through: EntryId) -> int:
        """Remove the ids up to one; returns how many."""
        before = self.count
        while self.count:
            block = self._blocks[0]
            at = block.place(through.ms, through.seq + 1)
            if at <= self._at:
                break
            self._leave(at)
        return before - self.count

    def _leave(self, at: int) -> None:
        self.count -= at - self._at
        self._at = at
        if at == len(self._blocks[0]):
            del self._blocks[0]
            self._at = 0

    def _place(self, entry_id: EntryId) -> tuple[int, int] | None:
        index = bisect_left(self._blocks, entry_id, key=_last_of)
        if index == len(self._blocks):
            return None
        block = self._blocks[index]
        at = block.place(*entry_id)
        is_there = block.majors[at] == entry_id.ms and block.minors[at] == entry_id.seq
        return (index, at) if is_there and (index or at >= self._at) else None


def _last_of(block: AscendingKeys) -> EntryId:
    return EntryId(block.majors[-1], block.minors[-1])


class Waiting(NamedTuple):
    """A key of which entries lie ahead."""

    key: Key
    entry_count: int
    first_id: EntryId
    is_resting: bool

    def with_lane(self, other: Waiting) -> Waiting:
        """Return the same key with its entries of another lane."""
        return Waiting(
            self.key,
            self.entry_count + other.entry_count,
            min(self.first_id, other.first_id),
            self.is_resting and other.is_resting,
        )


Next = tuple[EntryId | None, Key]
"""What a rotation comes to; without an id, the key has no room and is to rest."""


class _Left:
    """A key of which a read has taken some entries, and may take so many more."""

    __slots__ = ("_ids", "count", "key")

    def __init__(self, key: Key, run: IdRun, room: int | None) -> None:
        self.key = key
        self._ids = iter(run)
        self.count = run.count if room is None else min(run.count, room)

    def turn(self, quota: int) -> Iterator[Next]:
        quota = min(max(quota, 1), self.count)
        self.count -= quota
        for entry_id in islice(self._ids, quota):
            yield entry_id, self.key


class Lane:
    """The entries of one priority."""

    __slots__ = ("_in_order", "_keys", "_memory", "_served", "resting", "turns")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.turns: OrderedDict[Key, EntryId | IdRun] = OrderedDict()  # the rotation
        self.resting: dict[Key, EntryId | IdRun] = {}
        self._served = 0  # entries that the first key has had in its turn
        self._in_order: OrderedView[Key] = OrderedView(self._listed)  # of their first ids

    def __len__(self) -> int:
        return len(self.turns) + len(self.resting)

    def find(self, key: Key) -> EntryId | IdRun | None:
        return self.turns.get(key) or self.resting.get(key)

    def add(self, entry_id: EntryId, key: Key, *, rests: bool) -> None:
        home = self.turns if key in self.turns else self.resting
        found = home.get(key)
        if found is None:
            home = self.resting if rests else self.turns
            home[key] = entry_id
            self._in_order.insert(entry_id, key)
            self._memory.pending_bytes += AHEAD_KEY_BYTES
        elif isinstance(found, IdRun):
            found.append(entry_id)
        else:
            home[key] = IdRun((found, entry_id))

    def remove(
        self, entry_id: EntryId, key: Key, weights: Mapping[bytes, int] | None = None
    ) -> bool:
        """Remove an entry; with weights, it is part of the turn of its key."""
        home = self.turns if key in self.turns else self.resting
        found = home.get(key)
        if isinstance(found, IdRun):
            head = found.head
            if not found.remove(entry_id):
                return False
            if found.count:
                if entry_id == head:
                    self._list_again(found, key)
                if weights is not None and home is self.turns:
                    self._had_one(key, weights)
                return True
        elif found != entry_id:
            return False
        self._drop(home, key)
        return True

    def remove_all(
        self, ids: Sequence[EntryId], keys: Sequence[Key], weights: Mapping[bytes, int]
    ) -> int:
        """Remove entries that had their turns, in order; returns how many were there."""
        if self._served or list(map(self.turns.get, keys)) != ids:
            pairs = zip(ids, keys, strict=True)
            return sum(self.remove(entry_id, key, weights) for entry_id, key in pairs)
        deque(map(self.turns.pop, keys), 0)  # each of them was all there was of its key
        self._in_order.pass_front(list(keys))  # they stood there in most cases
        self._in_order.note_left(len(ids))
        self._memory.pending_bytes -= AHEAD_KEY_BYTES * len(ids)
        return len(ids)

    def _list_again(self, run: IdRun, key: Key) -> None:
        self._in_order.insert(run.head, key)
        self._in_order.note_left()

    def _drop(self, home: dict[Key, EntryId | IdRun], key: Key) -> None:
        if self._served and home is self.turns and next(iter(home)) == key:
            self._served = 0
        del home[key]
        self._in_order.note_left()
        self._memory.pending_bytes -= AHEAD_KEY_BYTES

    def _had_one(self, key: Key, weights: Mapping[bytes, int]) -> None:
        if weights and next(iter(self.turns)) == key:
            self._served += 1
            if self._served < weights.get(key or b"", 1):
                return
            self._served = 0
        self.turns.move_to_end(key)

    def rest(self, key: Key) -> None:
        if key in self.turns:
            if self._served and next(iter(self.turns)) == key:
                self._served = 0
            self.resting[key] = self.turns.pop(key)

    def rouse(self, key: Key) -> bool:
        found = self.resting.pop(key, None)
        if found is None:
            return False
        self.turns[key] = found
        return True

    def front(self, count: int) -> tuple[list[EntryId], list[Key]] | None:
        """Return what comes next, with its keys, if each of these has one entry; else None."""
        keys = list(islice(self.turns, count))
        found = list(map(self.turns.get, keys))
        if IdRun in set(map(type, found)):
            return None
        return cast("list[EntryId]", found), keys

    def rotation(self, room_of: Room | None, weights: Mapping[bytes, int]) -> Iterator[Next]:
        """Yield what comes next, as if each was delivered. Do not change anything meanwhile."""
        again: deque[_Left] = deque()
        served = self._served
        for key, found in self.turns.items():
            room = None if room_of is None else room_of(key)
            if room is not None and room <= 0:
                yield None, key
            elif isinstance(found, IdRun):
                left = _Left(key, found, room)
                yield from left.turn(weights.get(key or b"", 1) - served if weights else 1)
                if left.count:
                    again.append(left)
            else:
                yield found, key
            served = 0
        while again:
            left = again.popleft()
            yield from left.turn(weights.get(left.key or b"", 1) if weights else 1)
            if left.count:
                again.append(left)

    def by_id(self) -> Iterator[tuple[EntryId, Key]]:
        """Yield all entries in order of their ids. Do not change anything meanwhile."""
        heads = iter(self._in_order.walk())
        ahead = next(heads, _END)
        following: list[tuple[EntryId, int, Key, Iterator[EntryId]]] = []
        number = 0
        while True:
            while not isinstance(ahead, _End):
                if following and following[0][0] < self._first_id(ahead):
                    break
                found = self.turns.get(ahead) or self.resting[ahead]
                ids = iter(found) if isinstance(found, IdRun) else iter((found,))
                number += 1  # keys are not compared: one of them may be None
                heappush(following, (next(ids), number, ahead, ids))
                ahead = next(heads, _END)
            if not following:
                return
            entry_id, at, key, ids = heappop(following)
            yield entry_id, key
            after = next(ids, None)
            if after is not None:
                heappush(following, (after, at, key, ids))

    def trim(self, through: EntryId) -> int:
        """Remove entries up to an id; returns how many."""
        reached: list[Key] = []
        for key in self._in_order.walk():
            if self._first_id(key) > through:
                break
            reached.append(key)
        gone = 0
        for key in reached:
            home = self.turns if key in self.turns else self.resting
            found = home[key]
            if not isinstance(found, IdRun):
                gone += 1
                self._drop(home, key)
                continue
            gone += found.trim(through)
            if not found.count:
                self._drop(home, key)
            else:
                self._list_again(found, key)
        return gone

    def _listed(self, block: KeyedRun[Key], start: int) -> Iterator[int]:
        homes = [home for home in (self.turns, self.resting) if home]
        for at, key in enumerate(islice(block.values, start, None), start):
            for home in homes:
                if key in home:
                    found = home[key]
                    first_id = found.head if isinstance(found, IdRun) else found
                    if first_id == (block.majors[at], block.minors[at]):
                        yield at

    def _first_id(self, key: Key) -> EntryId:
        found = self.turns.get(key) or self.resting[key]
        return found.head if isinstance(found, IdRun) else found

    def waiting(self, start: EntryId) -> Iterator[Waiting]:
        """Yield keys, those that wait longest first. Do not change anything meanwhile."""
        for key in self._in_order.walk(start):
            is_resting = key in self.resting
            found = self.resting[key] if is_resting else self.turns[key]
            if isinstance(found, IdRun):
                yield Waiting(key, found.count, found.head, is_resting)
            else:
                yield Waiting(key, 1, found, is_resting)

    def dismantle(self) -> Pieces:
        yield from self._in_order.dismantle()
        for home in (self.turns, self.resting):
            while home:
                for _ in range(min(FREED_AT_ONCE_MAX, len(home))):
                    home.popitem()
                yield


class _End:
    """Stands behind the last key: None is one."""


_END = _End()
