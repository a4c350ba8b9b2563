"""The position of a group: entries read and lag, as observed on running servers."""

from typing import Any

import pytest

from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import Claim
from headgate.engine.requests.entries import Delete, Trim, TrimTo
from headgate.engine.requests.groups import CreateGroup, DescribeGroup, GroupStart
from headgate.engine.requests.streams import DescribeStream
from tests.changes import moved
from tests.unit.driver import Driver, G, S, entry_id


@pytest.fixture
async def engine() -> Driver:
    """A stream of five entries, 1-0 to 5-0, without a group."""
    engine = Driver()
    await engine.put(1, 2, 3, 4, 5)
    return engine


async def place(engine: Driver) -> tuple[int | None, int | None]:
    """Return entries read and lag of the group."""
    info = await engine.perform(DescribeGroup(S, G))
    return info.entries_read, info.lag


@pytest.mark.parametrize(
    ("last_id", "entries_read", "expected"),
    [
        pytest.param(MIN_ID, None, (None, 5), id="at the beginning nothing read, all to come"),
        pytest.param(None, None, (None, 0), id="at the end nothing to come, count unknown"),
        pytest.param(entry_id(3), None, (None, None), id="in the middle unknown"),
        pytest.param(entry_id(1), None, (None, 4), id="at the first entry its place is known"),
        pytest.param(entry_id(9), None, (None, None), id="in the future unknown"),
        pytest.param(entry_id(3), 3, (3, 2), id="in the middle with a count given"),
        pytest.param(entry_id(3), 99, (5, 0), id="a count too large is cut to entries added"),
        pytest.param(MAX_ID, None, (None, None), id="at the greatest id unknown"),
    ],
)
async def test_a_new_group_stands(
    engine: Driver,
    last_id: EntryId | None,
    entries_read: int | None,
    expected: tuple[int | None, int | None],
) -> None:
    await engine.perform(CreateGroup(S, G, GroupStart(last_id, entries_read)))
    assert await place(engine) == expected


BEGINNING = GroupStart(MIN_ID)


@pytest.mark.parametrize(
    ("start", "steps"),
    [
        pytest.param(
            GroupStart(entry_id(2)),
            [(1, (None, None)), (9, (5, 0))],
            id="from the middle it is known once the end is read",
        ),
        pytest.param(BEGINNING, [(2, (2, 3)), (2, (4, 1))], id="reading counts up"),
        pytest.param(
            BEGINNING,
            [
                *[(1, (1, 4)), (Delete(S, [entry_id(4)]), (1, None))],
                *[(2, (None, None)), (1, (5, 0))],
            ],
            id="a delete ahead hides the lag until it is passed",
        ),
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
            [(Delete(S, [entry_id(1), entry_id(2)]), (None, 3))],
            id="with group and deletes before the first entry it is the length",
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
            BEGINNING,
            [(1, (1, 4)), (Claim(S, G, b"a", [entry_id(1)], 0, last_id=entry_id(4)), (1, 4))],
            id="a claim that raises the position leaves a stale count",
        ),
        pytest.param(
            GroupStart(MIN_ID, 0),
            [
                *[(2, (2, 3)), (moved(S, G, GroupStart(entry_id(2))), (None, None))],
                (moved(S, G, GroupStart(entry_id(2), 2)), (2, 3)),
            ],
            id="a group that is set forgets its count unless one is given",
        ),
    ],
)
async def test_a_group_knows_its_place(
    engine: Driver,
    start: GroupStart,
    steps: list[tuple[int | Request[Any], tuple[int | None, int | None]]],
) -> None:
    """Each step reads so many entries, or is a request; behind it stands what is known then."""
    await engine.perform(CreateGroup(S, G, start))
    for at, (step, expected) in enumerate(steps):
        await (engine.take(limit=step) if isinstance(step, int) else engine.perform(step))
        assert await place(engine) == expected, at


async def test_a_group_of_an_untouched_empty_stream_has_no_lag() -> None:
    engine = Driver()
    await engine.perform(CreateGroup(S, G, GroupStart(None), create_stream=True))
    assert await place(engine) == (None, 0)


async def test_a_trim_moves_the_first_id_and_a_delete_the_greatest_deleted_one_too(
    engine: Driver,
) -> None:
    await engine.perform(Trim(S, TrimTo(max_length=4)))
    info = await engine.perform(DescribeStream(S))
    assert (info.first_id, info.max_deleted_id, info.entries_added) == (entry_id(2), MIN_ID, 5)
    await engine.perform(Delete(S, [entry_id(2), entry_id(4)]))
    info = await engine.perform(DescribeStream(S))
    assert (info.first_id, info.max_deleted_id) == (entry_id(3), entry_id(4))
    await engine.perform(Delete(S, [entry_id(3)]))
    assert (await engine.perform(DescribeStream(S))).max_deleted_id == entry_id(4)
