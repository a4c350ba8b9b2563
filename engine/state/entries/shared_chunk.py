"""SharedChunk: a hot chunk of a stream, with its entries in the log, and those in the archive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headgate.engine.state.entries.chunk import Chunk


class SharedChunk(NamedTuple):
    """A hot chunk that does not grow any more. One log has it, or both; positions are the same."""

    live: Chunk | None
    archived: Chunk | None = None

    @property
    def chunk(self) -> Chunk:
        """Return the chunk with all of its positions: in the archive it may end early."""
        chunk = self.live or self.archived
        assert chunk is not None
        return chunk

    def part_of(self, *, is_archived: bool) -> Chunk:
        """Return the chunk as one of the logs has it; if it has none of it, all is dead."""
        part = self.archived if is_archived else self.live
        alive = 0 if part is None else part.alive
        return self.chunk.marked(~alive & ((1 << self.chunk.count) - 1))


def shared_chunks(live: Sequence[Chunk], archived: Sequence[Chunk]) -> Sequence[SharedChunk]:
    """Return the chunks of two logs, in order.

    Args:
        live: sealed chunks of the log.
        archived: those of the archive.
    """
    by_id = {chunk.first_id: SharedChunk(chunk) for chunk in live}
    for chunk in archived:
        shared = by_id.get(chunk.first_id)
        by_id[chunk.first_id] = SharedChunk(None if shared is None else shared.live, chunk)
    return [by_id[first_id] for first_id in sorted(by_id)]
