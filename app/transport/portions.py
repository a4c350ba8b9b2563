"""Portions: what a peer sends is parsed in small portions, and other tasks run in between."""


class Unparsed:
    """Data that was read at once and is not parsed yet; no more is read meanwhile."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        """Begin with nothing."""
        self.data = memoryview(b"")  # public: it is mostly read to see whether it is empty

    def add(self, data: bytes) -> None:
        """Add data behind the unparsed data."""
        self.data = memoryview(bytes(self.data) + data if self.data else data)

    def take(self, bytes_max: int) -> memoryview:
        """Return the next portion."""
        portion, self.data = self.data[:bytes_max], self.data[bytes_max:]
        return portion

    def clear(self) -> None:
        """Forget all of it."""
        self.data = memoryview(b"")
