"""Files that a rewrite has replaced go, and no others, even if segments begin meanwhile."""

from typing import Any

import pytest

from headgate.engine.journal import recovery
from headgate.engine.journal.blocks import Header, Kind, pack_header
from headgate.engine.journal.names import journal_name, snapshot_name
from tests.journals.memory_disk import MemoryDisk
from tests.journals.records import recorded, written


class Busy(MemoryDisk):
    """A disk on which a segment begins between any two calls of somebody else."""

    first = 0

    def names(self) -> list[str]:
        names = super().names()
        self.append(journal_name(self.first), pack_header(Header(Kind.JOURNAL, self.first)))
        return names


async def test_a_segment_that_begins_while_old_files_go_stays() -> None:
    history = await written((await recorded(1, 40))[:20], restart_at=10)
    disk = Busy({name: bytes(data) for name, data in history.disk.files.items()})
    recovery.save(history.disk, recovery.load(history.disk, through=10).keyspace, 10)
    disk.files[snapshot_name(10)] = history.disk.files[snapshot_name(10)]
    disk.first = 21
    sizes = recovery.clean(disk)
    assert list(disk.files) == [journal_name(11), snapshot_name(10), journal_name(21)]
    assert sizes == {name: len(disk.files[name]) for name in [snapshot_name(10), journal_name(11)]}
    assert recovery.recover(MemoryDisk({n: bytes(d) for n, d in disk.files.items()})).position == 20


@pytest.mark.parametrize("name", ["journal-1", "notes", "aside-journal-00000000000000000001-32"])
def test_files_that_are_nobodys_stay(name: str) -> None:
    files: dict[str, Any] = {name: b"x", snapshot_name(3) + ".new": b"y"}
    disk = MemoryDisk(files)
    recovery.clean(disk)
    assert disk.names() == [name]
