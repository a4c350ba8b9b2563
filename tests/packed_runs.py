"""Packed runs: what a read of packed entries has, unpacked one by one."""

from collections.abc import Iterable

from headgate.engine.entry import Entry
from headgate.engine.packing import Unpacker
from headgate.engine.replies import PackedEntries


def entries_in(runs: Iterable[PackedEntries]) -> list[Entry]:
    """Return the entries of runs, which have as many as they say."""
    unpacker = Unpacker()
    entries: list[Entry] = []
    for run in runs:
        if run.first_id is None:
            unpacked = unpacker.entries(run.packed)
        else:
            unpacked = unpacker.run(run.packed, run.first_id)
        assert len(unpacked) == run.entry_count
        entries += unpacked
    return entries
