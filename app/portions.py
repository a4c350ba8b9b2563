"""Portions: what a peer sends is parsed a little at a time, and others have their turn between."""


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

    def take(self, bytes_max: int) -> memoryview:
        """Return the next portion."""
        portion, self._data = self._data[:bytes_max], self._data[bytes_max:]
        return portion

    def clear(self) -> None:
        """Forget all of it."""
        self._data = memoryview(b"")
