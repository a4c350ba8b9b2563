"""Portions: what a peer sends is parsed a little at a time, and others have their turn between."""

import time

PORTION_BYTES = 1024
"""Parsed at a time: fifty of the smallest requests, or what deflate makes a megabyte of."""

_TURN_S = 0.001


class Turn:
    """How long one connection may keep the event loop before it lets others have it."""

    __slots__ = ("_over_at_s",)

    def __init__(self) -> None:
        """Begin a turn."""
        self._over_at_s = time.perf_counter() + _TURN_S

    def is_over(self) -> bool:
        """Tell whether it is time to let others have the loop."""
        return time.perf_counter() >= self._over_at_s


class Unparsed:
    """What was read and is not parsed yet: what was read at once, as no more is read meanwhile."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        """Begin with nothing."""
        self._data = memoryview(b"")

    def __bool__(self) -> bool:
        """Tell whether there is something."""
        return self._data.nbytes > 0

    def add(self, data: bytes) -> None:
        """Keep what was read."""
        self._data = memoryview(bytes(self._data) + data if self._data else data)

    def take(self) -> memoryview:
        """Return the next portion."""
        portion, self._data = self._data[:PORTION_BYTES], self._data[PORTION_BYTES:]
        return portion

    def clear(self) -> None:
        """Forget all of it."""
        self._data = memoryview(b"")
