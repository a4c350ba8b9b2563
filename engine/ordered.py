"""A mapping in key order, for keys that mostly arrive in order and mostly leave from the front.

Pending entries live by id and by delivery time, and both come and go like that. So the keys are
one plain sorted list: a key above all others is appended, any other is inserted where it belongs,
and a removed key stays in the list as a shadow until enough shadows have gathered to be swept in
one go. All of it is amortised constant time but the insertion in the middle, one memmove of eight
bytes a key.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, TypeVar

K = TypeVar("K", bound=tuple[Any, ...])
V = TypeVar("V")

_SHADOWS_MIN = 64
"""Sweeping fewer is not worth the call."""


class OrderedMap(dict[K, V]):
    """A dict that can also be walked in key order from any key.

    Only `insert` and `remove` may change it: the inherited mutators know nothing of the order.
    """

    __slots__ = ("_head", "_keys")

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self._keys: list[K] = []
        self._head = 0  # everything before it is shadow

    def insert(self, key: K, value: V) -> None:
        """Set `key` to `value`; a key that is there keeps its place."""
        keys = self._keys
        if key not in self:
            if not keys or key > keys[-1]:
                keys.append(key)
            else:
                if self._head and key <= keys[self._head - 1]:
                    del keys[: self._head]  # or the next removal would walk all these shadows
                    self._head = 0
                at = bisect_left(keys, key)
                if at == len(keys) or keys[at] != key:  # a shadow of the key comes alive again
                    keys.insert(at, key)
        self[key] = value

    def remove(self, key: K) -> V | None:
        """Take `key` out; returns what it held, or None if it was not there."""
        value = self.pop(key, None)
        if value is not None:
            self._sweep()
        return value

    def first(self) -> V | None:
        """Return the value of the smallest key, or None if empty."""
        return next(self.walk(), None)

    def last(self) -> V | None:
        """Return the value of the greatest key, or None if empty."""
        keys = self._keys
        while keys and keys[-1] not in self:
            keys.pop()
        self._head = min(self._head, len(keys))
        return self[keys[-1]] if keys else None

    def walk(self, start: tuple[Any, ...] = ()) -> Iterator[V]:
        """Yield values in key order, from `start` on. Do not change the map meanwhile."""
        keys = self._keys
        for at in range(max(self._head, bisect_left(keys, start)), len(keys)):
            key = keys[at]
            if key in self:
                yield self[key]

    def count_through(self, end: tuple[Any, ...], limit: int) -> int:
        """Return how many keys are <= `end`, counting no further than `limit`."""
        count = 0
        for at in range(self._head, bisect_right(self._keys, end)):
            count += self._keys[at] in self
            if count >= limit:
                break
        return count

    def _sweep(self) -> None:
        keys = self._keys
        head = self._head
        while head < len(keys) and keys[head] not in self:
            head += 1
        self._head = head
        if head > _SHADOWS_MIN and head * 2 > len(keys):
            del keys[:head]
            self._head = 0
        elif len(keys) - head > 2 * len(self) + _SHADOWS_MIN:
            self._keys = [key for key in keys if key in self]
            self._head = 0
