"""The index in columns, its parts, and one line for several extents."""

import pytest

from headgate.engine.entry import Entry, EntryId
from headgate.engine.state.chunk import Chunk
from headgate.engine.state.extent import Covered, Line, line_of
from headgate.engine.state.extent_index import Extents
from headgate.engine.state.memory import ExtentPlace, Memory


def line(number: int) -> Line:
    first, last = EntryId(number * 10, 0), EntryId(number * 10 + 9, 0)
    return Line(first, last, last, 10, 10, 1, ExtentPlace(number % 3, number * 100, 100))


def index_of(*numbers: int) -> tuple[Extents, Memory]:
    memory = Memory()
    extents = Extents(memory)
    extents.extend(map(line, numbers))
    return extents, memory


def test_lines_may_be_added_while_a_part_is_read_without_a_copy() -> None:
    extents, memory = index_of(*range(4))
    part = extents.part(0, 4)
    extents.append(line(4))
    extents.drop(0, 2)
    assert list(part.lines()) == [line(number) for number in range(4)]
    assert memory.held_bytes == 0


def test_columns_that_contradict_each_other_are_refused() -> None:
    extents, _ = index_of(1, 2)
    columns, dead = extents.dump(0, 2)
    with pytest.raises(ValueError, match="equal length"):
        Extents(Memory()).load([*columns[:-1], columns[-1][:8]], dead)


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
