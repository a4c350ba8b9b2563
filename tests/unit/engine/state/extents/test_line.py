"""One line for several: the same entries are alive, at the same positions behind each other."""

from headgate.engine.entry import Entry, EntryId
from headgate.engine.state.entries.chunk import Chunk
from headgate.engine.state.extents.line import Covered, line_of
from headgate.engine.state.memory import ExtentPlace


def chunk_of(first: int, count: int, dead: int) -> Chunk:
    chunk = Chunk()
    entries = [Entry(EntryId(number, 0), (b"n", b"v")) for number in range(first, first + count)]
    chunk.extend(entries, 10)
    chunk.seal()
    return chunk.marked(dead)


def test_a_line_for_extents_and_hot_chunks_has_the_dead_of_all_of_them() -> None:
    first = line_of([chunk_of(1, 3, 0b001), chunk_of(4, 2, 0b10)], ExtentPlace(1, 32, 50))
    second = line_of([chunk_of(6, 4, 0b0100)], ExtentPlace(1, 82, 50))
    hot = [chunk_of(10, 2, 0b00), chunk_of(12, 3, 0b110)]

    covered = Covered(0, [first, second], hot)
    line = covered.line(ExtentPlace(2, 32, 200))

    assert (first.dead, second.dead) == (0b10001, 0b0100)
    assert line.dead == 0b11000_0100_10001
    assert (line.entry_count, line.live_count, line.chunk_count) == (14, 9, 5)
    assert (line.first_id.ms, line.last_id.ms, line.through.ms) == (2, 12, 14)
    assert covered.entry_count == line.entry_count
    assert not covered.is_at(line.place)
    assert Covered(0, [first], []).is_at(first.place)
