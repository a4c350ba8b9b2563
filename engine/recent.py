"""Recent: the newest values by key, within a bound by number and one by bytes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from headgate.engine.limits import RECENT_BYTES_MAX, RECENT_COUNT_MAX

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    __slots__ = ("_by_key", "_size_bytes")

    def __init__(self) -> None:
        self._by_key: dict[K, tuple[V, int]] = {}  # with its size; the newest comes last
        self._size_bytes = 0

    def get(self, key: K) -> V | None:
        held = self._by_key.get(key)
        return None if held is None else held[0]

    def put(self, key: K, value: V, size_bytes: int) -> None:
        """Take in a value for its key; the oldest ones go that there is no room for."""
        if key in self._by_key:
            self._remove(key)
        self._by_key[key] = value, size_bytes
        self._size_bytes += size_bytes
        while len(self._by_key) > 1 and (
            len(self._by_key) > RECENT_COUNT_MAX or self._size_bytes > RECENT_BYTES_MAX
        ):
            self._remove(next(iter(self._by_key)))

    def clear(self) -> None:
        self._by_key.clear()
        self._size_bytes = 0

    def _remove(self, key: K) -> None:
        self._size_bytes -= self._by_key.pop(key)[1]
