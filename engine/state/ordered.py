"""A view: values in the order of keys that mostly arrive in order and mostly leave from the front.

A view does not know which values belong to it: each value knows. A pending entry is in three views:
by id, by delivery time, and by id among those of its consumer. When it is acknowledged it marks
itself, and from then on it is in none of them. Each view keeps a tombstone in its place. So a value
that leaves costs a view one counter and no search; among a million values a search would cost most.

The keys are pairs of numbers. They lie in sorted blocks, and each block has its values beside them.
A key above all others is appended to the last block; any other is inserted where it belongs.

Tombstones go when their block is swept:

- While more than a third of the keys are tombstones, each value that leaves sweeps the next block.
- A walk sweeps the blocks it has passed that are mostly dead, and notes how far the front is dead.

So no step costs more than a block or two, however many values there are, and tombstones never go
all at once.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from headgate.engine.state.memory import Pieces

V = TypeVar("V")

Key = tuple[int, int]
"""Two unsigned 64-bit numbers, compared in that order; an entry id is one."""

_BLOCK_KEYS_MAX = 512
"""A block to be swept or to be inserted into costs some 50 µs; 1 M keys make 2000 blocks."""


class AscendingKeys:
    """Ascending keys in two columns: numbers side by side, so that a search touches no objects."""

    __slots__ = ("majors", "minors")

    def __init__(self, majors: Iterable[int] = (), minors: Iterable[int] = ()) -> None:
        self.majors = array("Q", majors)
        self.minors = array("Q", minors)

    def __len__(self) -> int:
        return len(self.majors)

    def place(self, major: int, minor: int) -> int:
        majors = self.majors
        low = bisect_left(majors, major)
        if low == len(majors) or majors[low] != major:
            return low
        return bisect_left(self.minors, minor, low, bisect_right(majors, major, low))


_NO_KEYS = AscendingKeys()
"""Of each view that never had a value: most groups never have a delayed one, for example."""


class KeyedRun(AscendingKeys, Generic[V]):
    """Neighbours: ascending keys, and the value of each at the same place. Never empty."""

    __slots__ = ("values",)

    def __init__(self, majors: Iterable[int], minors: Iterable[int], values: list[V]) -> None:
        super().__init__(majors, minors)
        self.values = values


Living = Callable[[KeyedRun[V], int], Iterator[int]]
"""Given a block and where to start, yields the places of those that are alive."""


class OrderedView(Generic[V]):
    __slots__ = (
        "_block_max",
        "_blocks",
        "_firsts",
        "_head",
        "_key_count",
        "_live_count",
        "_living",
        "_sweep_next",
        "top",
    )

    def __init__(self, living: Living[V], block_max: int = _BLOCK_KEYS_MAX) -> None:
        """Start empty; `living` tells who is alive: of one key, at most one value."""
        self._living = living
        self._block_max = block_max
        self._blocks: list[KeyedRun[V]] = []
        self._firsts = _NO_KEYS  # first key of each block, dead or alive
        self.top: Key = (0, 0)  # no key is above it
        self._head = 0  # of the first block, everything before it is dead
        self._sweep_next = 0  # the block that is swept next
        self._key_count = 0  # in all blocks, tombstones included
        self._live_count = 0

    def __len__(self) -> int:
        return self._live_count

    def insert(self, key: Key, value: V) -> None:
        self._live_count += 1
        blocks = self._blocks
        if blocks and key <= self.top:
            self._insert_between(key, value)
            return
        self.top = key
        self._key_count += 1
        major, minor = key
        if blocks and len(blocks[-1].values) < self._block_max:
            block = blocks[-1]
            block.majors.append(major)
            block.minors.append(minor)
            block.values.append(value)
        else:
            self._put(len(blocks), len(blocks), KeyedRun((major,), (minor,), [value]))

    def extend(self, keys: Sequence[Key], values: list[V]) -> None:
        """Add values that are alive; their keys ascend, and are above all others."""
        majors, minors = (array("Q", column) for column in zip(*keys, strict=True))
        self.top = keys[-1]
        self._live_count += len(values)
        self._key_count += len(values)
        blocks, at = self._blocks, 0
        if blocks:
            block = blocks[-1]
            at = max(self._block_max - len(block.values), 0)
            block.majors += majors[:at]
            block.minors += minors[:at]
            block.values += values[:at]
        for low in range(at, len(values), self._block_max):
            part = slice(low, low + self._block_max)
            run = KeyedRun(majors[part], minors[part], values[part])
            self._put(len(blocks), len(blocks), run)

    def note_left(self, count: int = 1) -> None:
        self._live_count -= count
        if not self._live_count:
            self._put(0, len(self._blocks))
            self._head = self._key_count = 0
            return
        for _ in range(count):
            dead_count = self._key_count - self._live_count
            if dead_count * 2 <= self._live_count + self._block_max // 2:
                return
            self._sweep(self._sweep_next if self._sweep_next < len(self._blocks) else 0)

    def dismantle(self) -> Pieces:
        self._living = _nobody
        while self._blocks:
            self._blocks.pop()
            yield

    def first(self) -> V | None:
        return next(self.walk(), None)

    def last(self) -> V | None:
        while self._blocks:
            block = self._blocks[-1]
            for at in range(len(block) - 1, -1, -1):
                if next(self._living(block, at), None) is not None:
                    return block.values[at]
                del block.majors[at], block.minors[at], block.values[at]
                self._key_count -= 1
            self._put(len(self._blocks) - 1, len(self._blocks))
        return None

    def walk(self, start: Key = (0, 0)) -> Iterator[V]:
        """Yield values in key order, from `start` on. No change and no other walk meanwhile."""
        blocks = self._blocks
        index = self._index_of(start)
        low = blocks[index].place(*start) if blocks else 0
        if index == 0 and low <= self._head:
            self.bare_front()
            low = self._head
        while index < len(blocks):
            block = blocks[index]
            last, dead_count = (block.majors[-1], block.minors[-1]), len(block) - low
            for at in self._living(block, low):
                dead_count -= 1
                yield block.values[at]
            if dead_count * 2 > len(block) and index < len(blocks) and blocks[index] is block:
                self._sweep(index)
            low, index = 0, self._blocks_through(last)

    def _blocks_through(self, key: Key) -> int:
        return self._firsts.place(key[0], key[1] + 1)

    def _index_of(self, key: Key) -> int:
        return max(self._blocks_through(key) - 1, 0)

    def _insert_between(self, key: Key, value: V) -> None:
        major, minor = key
        index = self._index_of(key)
        block = self._blocks[index]
        at = block.place(major, minor)
        if index == 0 and at < self._head:
            self._head = at
        if at < len(block) and block.minors[at] == minor and block.majors[at] == major:
            block.values[at] = value
            return
        block.majors.insert(at, major)
        block.minors.insert(at, minor)
        block.values.insert(at, value)
        self._key_count += 1
        if at == 0:
            self._put(index, index + 1, block)
        if len(block.values) > 2 * self._block_max:
            low, high = slice(self._block_max), slice(self._block_max, None)
            self._put(index, index + 1, *(_part(block, part) for part in (low, high)))

    def pass_front(self, values: list[V]) -> None:
        """Take values for dead, as far as the first ones are these."""
        at = 0
        while at < len(values) and self._blocks:
            block = self._blocks[0].values
            first = block[self._head : self._head + len(values) - at]
            if first != values[at : at + len(first)]:
                return
            at += len(first)
            self._head += len(first)
            if self._head == len(block):
                self._drop_first()

    def bare_front(self) -> None:
        """Move the head to the first value that is alive, and drop blocks of tombstones alone."""
        while self._blocks:
            head = next(self._living(self._blocks[0], self._head), None)
            if head is not None:
                self._head = head
                return
            self._drop_first()

    def _drop_first(self) -> None:
        self._key_count -= len(self._blocks[0])
        self._head = 0
        self._put(0, 1)

    def _sweep(self, index: int) -> None:
        """Drop the tombstones of a block; if few values are left, they join the block before."""
        block = self._blocks[index]
        alive = list(self._living(block, 0))
        if len(alive) == len(block):
            self._sweep_next = index + 1
            return
        self._key_count -= len(block) - len(alive)
        swept: KeyedRun[V] = KeyedRun(
            [block.majors[at] for at in alive],
            [block.minors[at] for at in alive],
            [block.values[at] for at in alive],
        )
        low = index
        if index == 0:
            self._head = 0
        elif alive and len(self._blocks[index - 1]) + len(alive) <= self._block_max:
            low = index - 1
            before = self._blocks[low]
            swept = KeyedRun(
                before.majors + swept.majors,
                before.minors + swept.minors,
                before.values + swept.values,
            )
        self._put(low, index + 1, *([swept] if alive else []))
        self._sweep_next = low + bool(alive)

    def _put(self, low: int, high: int, *blocks: KeyedRun[V]) -> None:
        if self._firsts is _NO_KEYS:
            self._firsts = AscendingKeys()
        self._blocks[low:high] = blocks
        self._firsts.majors[low:high] = array("Q", [block.majors[0] for block in blocks])
        self._firsts.minors[low:high] = array("Q", [block.minors[0] for block in blocks])


def _nobody(_: KeyedRun[V], __: int) -> Iterator[int]:
    return iter(())


def _part(block: KeyedRun[V], part: slice) -> KeyedRun[V]:
    return KeyedRun(block.majors[part], block.minors[part], block.values[part])
