"""The position of a group: entries read and lag, as observed on running servers."""

from typing import Any

import pytest

from headgate.engine.entry import MAX_ID, MIN_ID
from headgate.engine.requests import Request
from headgate.engine.requests.entries import Delete, Trim, TrimTo
from headgate.engine.requests.groups import CreateGroup, DescribeGroup, GroupStart
from tests.changes import moved
from tests.unit.driver import Driver, G, S, entry_id

BEGINNING = GroupStart(MIN_ID)


@pytest.mark.parametrize(
    ("start", "steps"),
    [
        pytest.param(GroupStart(MAX_ID), [(0, (None, None))], id="at the greatest id unknown"),
        pytest.param(
            BEGINNING,
            [(3, (3, 2)), (Delete(S, [entry_id(2)]), (3, 2))],
            id="a delete behind changes nothing",
        ),
        pytest.param(
            BEGINNING,
            [(3, (3, 2)), (Delete(S, [entry_id(3)]), (3, None))],
            id="a delete exactly at the group counts as ahead",
        ),
        pytest.param(
            BEGINNING,
            [(1, (1, 4)), (Trim(S, TrimTo(max_length=2)), (1, 2)), (1, (4, 1))],
            id="a trim never hides the lag",
        ),
        pytest.param(
            GroupStart(entry_id(3)),
            [(Delete(S, [entry_id(number) for number in range(1, 6)]), (None, 0))],
            id="an emptied stream has no lag though the group is unknown where",
        ),
        pytest.param(
            GroupStart(MIN_ID, 0),
            [(2, (2, 3)), (moved(S, G, GroupStart(entry_id(2), 2)), (2, 3))],
            id="a group that is set has the count that is given",
        ),
    ],
)
async def test_a_group_knows_its_place(
    start: GroupStart, steps: list[tuple[int | Request[Any], tuple[int | None, int | None]]]
) -> None:
    """Of five entries each step reads so many, or is a request; then so many are read, and left."""
    engine = Driver()
    await engine.put(1, 2, 3, 4, 5)
    await engine.perform(CreateGroup(S, G, start))
    for at, (step, expected) in enumerate(steps):
        await (engine.take(limit=step) if isinstance(step, int) else engine.perform(step))
        info = await engine.perform(DescribeGroup(S, G))
        assert (info.entries_read, info.lag) == expected, at
