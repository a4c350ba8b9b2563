"""Freezer: a storage in memory that sealed chunks go to, as a rewrite would have it."""

from __future__ import annotations

from headgate.engine.journal.extents.freezing import freeze
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.state.entries.chunk import Chunk
from headgate.engine.state.extents.opened import OpenedExtent
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import ExtentPlace


class Freezer(MemoryStorage):
    """Keeps records, and chunks that were frozen."""

    def __init__(self) -> None:
        super().__init__(read_extent=self.find)
        self._written: dict[ExtentPlace, list[Chunk]] = {}

    def find(self, place: ExtentPlace) -> OpenedExtent:
        return OpenedExtent(place, self._written[place])

    def freeze(self, keyspace: Keyspace, chunks_max: int) -> None:
        """Freeze so many sealed chunks of each stream."""
        for stream in keyspace.streams.values():
            if nodes := stream.sealed()[:chunks_max]:
                chunks = [node.chunk.unmarked() for node in nodes]
                place = ExtentPlace(
                    1, len(self._written), sum(chunk.packed_bytes for chunk in chunks)
                )
                self._written[place] = chunks
                freeze(stream, nodes, place)
