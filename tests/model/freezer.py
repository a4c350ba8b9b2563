"""Freezer: a storage in memory that sealed chunks go to, as a rewrite would have it.

An engine on it has short chunks, so that most entries are cold after a few requests; no answer may
show that. Its records must lead to the state that it is in, and so must a snapshot of it.
"""

from __future__ import annotations

from headgate.engine.engine import Engine
from headgate.engine.entry import MAX_ID, MIN_ID
from headgate.engine.journal.extents import freeze
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.state.chunk import Chunk
from headgate.engine.state.extent import OpenedExtent
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import ExtentPlace
from tests.journals.records import reloaded, replayed
from tests.model.snapshot import held_by, snapshot


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


def frozen_engine() -> Engine:
    """Return an engine on a freezer; what is cold is read anew each time."""
    engine = Engine(Freezer())
    engine.cold._cached_bytes_max = 0
    return engine


def freeze_some(engine: Engine, step: int) -> None:
    """Freeze one sealed chunk of each stream, or two."""
    assert isinstance(engine.storage, Freezer)
    engine.storage.freeze(engine.keyspace, 1 + step % 2)


def check_state(engine: Engine) -> None:
    """Assert the properties of any state; records and a snapshot lead to it again."""
    for stream in engine.keyspace.streams.values():
        with engine.cold.at_once():
            ids = [entry.id for entry in stream.log.range(MIN_ID, MAX_ID)]
        assert ids == sorted(set(ids))
        assert not ids or ids[-1] <= stream.last_id
        for group in stream.groups.values():
            for name, consumer in group.consumers.items():
                assert list(consumer.pending.walk()) == held_by(group, name)
            owners = {entry.owner.name for entry in group.pel.walk() if entry.owner is not None}
            assert owners <= set(group.consumers)
    assert engine.waiter_count == 0
    kept = replayed(engine)
    assert isinstance(engine.storage, Freezer)
    engine.keyspace.memory.extents = engine.storage
    assert snapshot(kept) == snapshot(engine.keyspace)
    assert snapshot(reloaded(kept)) == snapshot(kept)
