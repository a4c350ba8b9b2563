"""Sight: whoever checks a state sees what is cold, without the disk noticing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headgate.engine.journal import extents as extent_files
from headgate.engine.journal.names import extents_name
from headgate.engine.state.extent import OpenedExtent
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import ExtentPlace
from tests.simulation.platter import Platter


class PlatterReader:
    """Reads extents from a platter. It is an `OpenedExtents`."""

    def __init__(self, platter: Platter) -> None:
        self._platter = platter

    def find(self, place: ExtentPlace) -> OpenedExtent:
        data = self._platter.names[extents_name(place.file)].data
        return extent_files.opened(place, bytes(data[place.offset :][: place.size_bytes]))


@contextmanager
def seen(keyspace: Keyspace, platter: Platter) -> Iterator[Keyspace]:
    """Let everything that is cold be seen, in this context."""
    memory, before = keyspace.memory, keyspace.memory.extents
    memory.extents = PlatterReader(platter)
    try:
        yield keyspace
    finally:
        memory.extents = before
