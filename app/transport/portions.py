"""Portions: what a peer sends is parsed a little at a time, and others have their turn between."""


class Unparsed:
    """What was read and is not parsed yet: what was read at once, as no more is read meanwhile."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        """Begin with nothing."""
        self.data = memoryview(b"")  # to look at, and most often only whether there is any

    def add(self, data: bytes) -> None:
        """Keep what was read."""
        self.data = memoryview(bytes(self.data) + data if self.data else data)

    def take(self, bytes_max: int) -> memoryview:
        """Return the next portion."""
        portion, self.data = self.data[:bytes_max], self.data[bytes_max:]
        return portion

    def clear(self) -> None:
        """Forget all of it."""
        self.data = memoryview(b"")
