"""The index in columns: its changes, and its parts, which stay as they were."""

from collections import Counter

import pytest

from headgate.engine.entry import EntryId
from headgate.engine.state.extents.index import Extents
from headgate.engine.state.extents.line import Line
from headgate.engine.state.memory import LINE_BYTES, ExtentPlace, Memory


def line(number: int) -> Line:
    first, last = EntryId(number * 10, 0), EntryId(number * 10 + 9, 0)
    return Line(first, last, last, 10, 10, 1, ExtentPlace(number % 3, number * 100, 100))


def index_of(*numbers: int) -> tuple[Extents, Memory]:
    memory = Memory()
    extents = Extents(memory)
    extents.extend(map(line, numbers))
    return extents, memory


def test_a_part_stays_as_it_was_whatever_changes() -> None:
    extents, memory = index_of(*range(10))
    part = extents.part(2, 8)
    expected = [line(number) for number in range(2, 8)]

    extents.drop(4, 6)
    extents.append(line(10))
    extents.replace(0, 2, line(1))
    extents.drop(0, 3)

    assert list(part.lines()) == expected
    assert [each.first_id.ms // 10 for each in extents.lines()] == [6, 7, 8, 9, 10]
    assert memory.held_bytes == LINE_BYTES * 10
    part.close(memory)
    assert memory.held_bytes == 0
    assert memory.files == Counter(each.place.file for each in extents.lines())


def test_lines_may_be_added_while_a_part_is_read_without_a_copy() -> None:
    extents, memory = index_of(*range(4))
    part = extents.part(0, 4)
    extents.append(line(4))
    extents.drop(0, 2)
    assert list(part.lines()) == [line(number) for number in range(4)]
    assert memory.held_bytes == 0


def test_what_has_gone_is_counted_no_more() -> None:
    extents, memory = index_of(*range(7))
    for low, high in ((0, 1), (2, 4), (0, 2), (0, 2)):
        extents.drop(low, high)
        assert memory.index_bytes == LINE_BYTES * len(extents)
        assert memory.cold_bytes == extents.size_bytes == 100 * len(extents)
        assert extents.chunk_count == len(extents)
    assert not extents
    assert not memory.files


def test_dumped_lines_are_loaded_behind_others() -> None:
    extents, _ = index_of(*range(5))
    copy, memory = index_of(0, 1)
    copy.load(*extents.dump(2, 5))
    assert list(copy.lines()) == list(extents.lines())
    assert memory.cold_bytes == 500


def test_columns_that_contradict_each_other_are_refused() -> None:
    extents, _ = index_of(1, 2)
    columns, dead = extents.dump(0, 2)
    with pytest.raises(ValueError, match="equal length"):
        Extents(Memory()).load([*columns[:-1], columns[-1][:8]], dead)
