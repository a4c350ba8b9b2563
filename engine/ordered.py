"""A mapping in key order, for keys that mostly arrive in order and mostly leave from the front.

Pending entries live by id and by delivery time, and both come and go like that. So the keys lie in
sorted blocks: a key above all others is appended to the last one, any other is inserted where it
belongs, and a removed key stays as a shadow until its block is swept. A removal from the front
sweeps what it bares; while there is more than a shadow to two living keys, each removal elsewhere
sweeps one block, in turn; a walk sweeps the mostly dead blocks it has passed. So nothing ever costs
more than a block or two, however many keys there are, and there is no moment at which all shadows
go at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice, takewhile
from operator import itemgetter
from typing import Any, TypeVar

K = TypeVar("K", bound=tuple[Any, ...])
V = TypeVar("V")

_BLOCK_KEYS_MAX = 512
"""A block to be swept or to be inserted into costs some 20 µs; 1 M keys make 2000 blocks."""

_first_of = itemgetter(0)


class OrderedMap(dict[K, V]):
    """A dict that can also be walked in key order from any key.

    Only `insert` and `remove` may change it: the inherited mutators know nothing of the order.
    """

    __slots__ = ("_block_max", "_blocks", "_hand", "_head", "_key_count")

    def __init__(self, block_max: int = _BLOCK_KEYS_MAX) -> None:
        """Start empty; a block takes so many keys."""
        super().__init__()
        self._block_max = block_max
        self._blocks: list[list[K]] = []  # none is empty
        self._head = 0  # of the first block, everything before it is shadow and it is not
        self._hand = 0  # the block that was swept last
        self._key_count = 0  # in all blocks, shadows included

    def insert(self, key: K, value: V) -> None:
        """Set `key` to `value`; a key that is there keeps its place."""
        if key not in self:
            blocks = self._blocks
            if blocks and key <= blocks[-1][-1]:
                self._insert_between(key)
            else:
                self._key_count += 1
                if blocks and len(blocks[-1]) < self._block_max:
                    blocks[-1].append(key)
                else:
                    blocks.append([key])
        self[key] = value

    def remove(self, key: K) -> V | None:
        """Take `key` out; returns what it held, or None if it was not there."""
        value = self.pop(key, None)
        if value is None:
            return None
        if key == self._blocks[0][self._head]:
            self._bare_front()
        elif (self._key_count - len(self)) * 2 > len(self) + 2 * self._block_max:
            self._hand = (min(self._hand, len(self._blocks)) or len(self._blocks)) - 1
            self._sweep(self._hand)
        return value

    def first(self) -> V | None:
        """Return the value of the smallest key, or None if empty."""
        return self[self._blocks[0][self._head]] if self else None

    def last(self) -> V | None:
        """Return the value of the greatest key, or None if empty."""
        while self:
            block = self._blocks[-1]
            while block and block[-1] not in self:
                block.pop()
                self._key_count -= 1
            if block:
                return self[block[-1]]
            self._blocks.pop()
        return None

    def walk(self, start: tuple[Any, ...] = ()) -> Iterator[V]:
        """Yield values in key order, from `start` on. Do not change the map meanwhile."""
        return map(self.__getitem__, self._alive_from(start))

    def count_through(self, end: tuple[Any, ...], limit: int) -> int:
        """Return how many keys are <= `end`, counting no further than `limit`."""
        through_end = takewhile(lambda key: key <= end, self._alive_from(()))
        return sum(1 for _ in islice(through_end, limit))

    def _alive_from(self, start: tuple[Any, ...]) -> Iterator[K]:
        blocks = self._blocks
        index = self._index_of(start)
        low = bisect_left(blocks[index], start) if blocks else 0
        while index < len(blocks):
            block = blocks[index]
            last, shadow_count = block[-1], 0
            for key in islice(block, max(low, 0 if index else self._head), None):
                if key in self:
                    yield key
                else:
                    shadow_count += 1
            if shadow_count * 2 > len(block):
                self._sweep(index)
            low, index = 0, bisect_right(blocks, last, key=_first_of)

    def _index_of(self, key: tuple[Any, ...]) -> int:
        """Return the index of the block in which a key stands or would stand."""
        return max(bisect_right(self._blocks, key, key=_first_of) - 1, 0)

    def _insert_between(self, key: K) -> None:
        blocks = self._blocks
        index = self._index_of(key)
        block = blocks[index]
        if index == 0:  # the key may belong among the shadows of the front
            del block[: self._head]
            self._key_count -= self._head
            self._head = 0
        at = bisect_left(block, key)
        if at < len(block) and block[at] == key:
            return  # a shadow of the key comes alive again
        block.insert(at, key)
        self._key_count += 1
        if len(block) > 2 * self._block_max:
            blocks[index : index + 1] = [block[: self._block_max], block[self._block_max :]]

    def _bare_front(self) -> None:
        """Move the head to the first key that is no shadow; whole blocks of shadows go."""
        blocks, head = self._blocks, self._head
        while blocks:
            block = blocks[0]
            while head < len(block) and block[head] not in self:
                head += 1
            if head < len(block):
                break
            self._key_count -= len(blocks.pop(0))
            head = 0
        self._head = head

    def _sweep(self, index: int) -> None:
        """Let go of the shadows of a block; a small rest joins the block before."""
        blocks = self._blocks
        low = index
        alive = [key for key in blocks[index] if key in self]
        self._key_count -= len(blocks[index]) - len(alive)
        if index == 0:
            self._head = 0
        elif len(blocks[index - 1]) + len(alive) <= self._block_max:
            low = index - 1
            alive = blocks[low] + alive
        blocks[low : index + 1] = [alive] if alive else []
