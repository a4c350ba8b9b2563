"""The position of a group: entries read and lag, as observed on running servers."""

import pytest

from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
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


async def test_a_group_from_the_middle_knows_its_place_once_it_has_read_to_the_end(
    engine: Driver,
) -> None:
    await engine.perform(CreateGroup(S, G, GroupStart(entry_id(2))))
    await engine.take(limit=1)
    assert await place(engine) == (None, None)
    await engine.take()
    assert await place(engine) == (5, 0)


async def test_reading_counts_up_from_the_beginning(engine: Driver) -> None:
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
    await engine.take(limit=2)
    assert await place(engine) == (2, 3)
    await engine.take(limit=2, no_ack=True)
    assert await place(engine) == (4, 1)


async def test_a_delete_ahead_hides_the_lag_until_the_group_has_passed_it(engine: Driver) -> None:
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
    await engine.take(limit=1)
    await engine.perform(Delete(S, [entry_id(4)]))
    assert await place(engine) == (1, None)
    await engine.take(limit=2)
    assert (await place(engine))[1] is None
    await engine.take(limit=1)
    assert await place(engine) == (5, 0)


async def test_a_delete_behind_changes_nothing(engine: Driver) -> None:
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
    await engine.take(limit=3)
    await engine.perform(Delete(S, [entry_id(2)]))
    assert await place(engine) == (3, 2)


async def test_a_delete_exactly_at_the_group_counts_as_ahead(engine: Driver) -> None:
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
    await engine.take(limit=3)
    await engine.perform(Delete(S, [entry_id(3)]))
    assert await place(engine) == (3, None)


async def test_with_group_and_deletes_before_the_first_entry_the_lag_is_the_length(
    engine: Driver,
) -> None:
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
    await engine.perform(Delete(S, [entry_id(1), entry_id(2)]))
    assert await place(engine) == (None, 3)


async def test_a_trim_never_hides_the_lag(engine: Driver) -> None:
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
    await engine.take(limit=1)
    await engine.perform(Trim(S, TrimTo(max_length=2)))
    assert await place(engine) == (1, 2)
    await engine.take(limit=1)
    assert await place(engine) == (4, 1)


async def test_an_emptied_stream_has_no_lag_even_for_a_group_that_is_unknown_where(
    engine: Driver,
) -> None:
    await engine.perform(CreateGroup(S, G, GroupStart(entry_id(3))))
    await engine.perform(Delete(S, [entry_id(number) for number in range(1, 6)]))
    assert await place(engine) == (None, 0)


async def test_raising_the_position_by_a_claim_leaves_a_stale_count_and_so_a_wrong_lag(
    engine: Driver,
) -> None:
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
    await engine.take(limit=1)
    await engine.perform(Claim(S, G, b"a", [entry_id(1)], 0, last_id=entry_id(4)))
    assert await place(engine) == (1, 4)


async def test_setting_a_group_forgets_its_count_unless_one_is_given(engine: Driver) -> None:
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID, 0)))
    await engine.take(limit=2)
    await engine.perform(moved(S, G, GroupStart(entry_id(2))))
    assert await place(engine) == (None, None)
    await engine.perform(moved(S, G, GroupStart(entry_id(2), 2)))
    assert await place(engine) == (2, 3)


async def test_entries_read_may_be_known_while_the_lag_is_not_and_the_other_way_round(
    engine: Driver,
) -> None:
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
    assert await place(engine) == (None, 5)
    await engine.take(limit=1)
    await engine.perform(Delete(S, [entry_id(3)]))
    assert await place(engine) == (1, None)


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
