"""Extent files: extents that lie behind each other are read together."""

import errno
import os

from headgate.engine.entry import Entry, EntryId
from headgate.engine.journal.extents import ExtentFile, read_span
from headgate.engine.state.chunk import Chunk
from headgate.engine.state.extent import OpenedExtent
from headgate.engine.state.memory import ExtentPlace
from tests.journals.memory_disk import MemoryDisk


class Scratched(MemoryDisk):
    """A disk of which some bytes cannot be read."""

    scratches: tuple[int, ...] = ()

    def read(self, name: str, offset: int, size_bytes: int) -> bytes:
        if any(offset <= byte < offset + size_bytes for byte in self.scratches):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read(name, offset, size_bytes)


def written(disk: MemoryDisk, count: int) -> list[ExtentPlace]:
    file = ExtentFile(disk, 1)
    places = []
    for number in range(1, count + 1):
        chunk = Chunk()
        chunk.extend([Entry(EntryId(number, 0), (b"n", b"%d" % number))], 2)
        chunk.seal()
        places.append(file.append([chunk]))
    file.finish()
    return places


def number(extent: OpenedExtent | OSError) -> int | None:
    if isinstance(extent, OSError) or extent.is_unreadable:
        return None
    return extent.chunks(0)[0].first_id.ms


def test_neighbours_take_one_read() -> None:
    disk = Scratched()
    places = written(disk, 4)
    assert [number(each) for each in read_span(disk, places[1:])] == [2, 3, 4]
    assert len(disk.reads) == 1


def test_one_that_cannot_be_read_spoils_no_neighbour() -> None:
    disk = Scratched()
    places = written(disk, 4)
    disk.scratches = (places[2].offset + 1,)
    read = read_span(disk, places)
    assert [number(each) for each in read] == [1, 2, None, 4]
    assert isinstance(read[2], OSError)
    assert read[2].errno == errno.EIO


def test_a_file_that_ends_too_early_has_what_it_has() -> None:
    disk = Scratched()
    places = written(disk, 4)
    disk.truncate("extents-00000000000000000001", places[2].offset + 3)
    assert [number(each) for each in read_span(disk, places)] == [1, 2, None, None]
