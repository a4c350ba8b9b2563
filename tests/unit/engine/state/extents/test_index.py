"""The index in columns: its changes, and its parts, which stay as they were."""

import pytest

from headgate.engine.entry import EntryId
from headgate.engine.state.extents.index import Extents
from headgate.engine.state.extents.line import Line
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
