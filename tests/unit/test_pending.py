"""The pending entries list: three views of the same deliveries."""

import pytest

from engine.entry import EntryId
from engine.pending import Consumer, Pel


def entry_id(number: int) -> EntryId:
    return EntryId(number, 0)


def ids(pel: Pel, now_ms: int = 0) -> list[int]:
    return [pending.id.ms for pending in pel.longest_idle_first(now_ms)]


@pytest.fixture
def alice() -> Consumer:
    return Consumer(b"alice", 0)


@pytest.fixture
def bob() -> Consumer:
    return Consumer(b"bob", 0)


def test_a_delivery_is_seen_by_the_group_and_by_its_owner(alice: Consumer) -> None:
    pel = Pel()
    pel.assign(entry_id(1), alice, 100, 1)
    assert pel.by_id[entry_id(1)] is alice.pending[entry_id(1)]
    assert (len(pel), pel.by_id[entry_id(1)].delivery_count) == (1, 1)


def test_an_entry_that_changes_hands_leaves_its_former_owner(
    alice: Consumer, bob: Consumer
) -> None:
    pel = Pel()
    pel.assign(entry_id(1), alice, 100, 1)
    pel.assign(entry_id(1), bob, 200, 2)
    assert (len(alice.pending), len(bob.pending), len(pel)) == (0, 1, 1)
    assert bob.pending[entry_id(1)].idle_ms(250) == 50


def test_the_longest_idle_comes_first_and_equal_times_in_order_of_arrival(alice: Consumer) -> None:
    pel = Pel()
    for number, at_ms in [(1, 300), (2, 100), (3, 200), (4, 100)]:
        pel.assign(entry_id(number), alice, at_ms, 1)
    assert ids(pel) == [2, 4, 3, 1]
    pel.assign(entry_id(2), alice, 100, 2)
    assert ids(pel) == [4, 2, 3, 1]


def test_released_entries_come_before_all_others_first_released_first(alice: Consumer) -> None:
    pel = Pel()
    for number in (1, 2, 3, 4):
        pel.assign(entry_id(number), alice, 0, 1)
    for number in (3, 2, 3):
        pel.release(entry_id(number), 1)
    assert ids(pel) == [2, 3, 1, 4]
    assert [one.id.ms for one in alice.pending.walk()] == [1, 4]


def test_a_released_entry_is_nobodys_and_claimable_at_once(alice: Consumer) -> None:
    pel = Pel()
    pel.assign(entry_id(1), alice, 100, 5)
    assert not pel.by_id[entry_id(1)].is_claimable(150, 51)
    assert pel.by_id[entry_id(1)].is_claimable(150, 50)
    pel.release(entry_id(1), 4)
    assert pel.by_id[entry_id(1)].is_claimable(0, 10**9)
    assert (pel.by_id[entry_id(1)].owner, pel.by_id[entry_id(1)].delivery_count) == (None, 4)


def test_idle_time_is_never_negative_when_the_clock_stepped_back(alice: Consumer) -> None:
    pel = Pel()
    pel.assign(entry_id(1), alice, 100, 1)
    assert pel.by_id[entry_id(1)].idle_ms(40) == 0


def test_removing_forgets_an_entry_everywhere_and_only_once(alice: Consumer) -> None:
    pel = Pel()
    pel.assign(entry_id(1), alice, 100, 1)
    assert [pel.remove(entry_id(1)), pel.remove(entry_id(1))] == [True, False]
    assert (len(pel), len(alice.pending), ids(pel)) == (0, 0, [])


def test_a_hidden_entry_stays_pending_and_shows_again_once_assigned(alice: Consumer) -> None:
    pel = Pel()
    pel.assign(entry_id(1), alice, 100, 1)
    pel.hide(pel.by_id[entry_id(1)])
    assert (len(pel), ids(pel)) == (1, [])
    pel.assign(entry_id(1), alice, 200, 2)
    assert ids(pel) == [1]


def test_who_rests_is_left_out_until_it_is_over_and_then_comes_first(alice: Consumer) -> None:
    pel = Pel()
    for number in (1, 2, 3, 4):
        pel.assign(entry_id(number), alice, 0, 1)
    pel.release(entry_id(4), 1)
    pel.release(entry_id(2), 1, 300)
    pel.release(entry_id(3), 1, 200)
    assert [ids(pel, at_ms) for at_ms in (199, 200, 300)] == [[4, 1], [3, 4, 1], [3, 2, 4, 1]]
    first = pel.first_resting()
    assert first is not None
    assert (first.id.ms, first.claimable_at_ms(10**9)) == (3, 200)
    assert not first.is_claimable(199, 0)
    assert first.is_claimable(200, 10**9)


def test_equal_rests_end_in_order_of_release(alice: Consumer) -> None:
    pel = Pel()
    for number in (2, 1, 3):
        pel.release(entry_id(number), 1, 200)
    assert ids(pel, 200) == [2, 1, 3]


def test_who_is_assigned_released_or_removed_rests_no_more(alice: Consumer) -> None:
    pel = Pel()
    for number in (1, 2, 3):
        pel.release(entry_id(number), 1, 200)
    pel.assign(entry_id(1), alice, 50, 2)
    pel.release(entry_id(2), 1)
    pel.remove(entry_id(3))
    assert pel.first_resting() is None
    assert ids(pel) == [2, 1]


def test_a_resting_entry_can_be_hidden_and_shown_again() -> None:
    pel = Pel()
    pel.release(entry_id(1), 1, 200)
    pel.hide(pel.by_id[entry_id(1)])
    assert (pel.is_hidden(pel.by_id[entry_id(1)]), ids(pel, 200)) == (True, [])
    pel.show_all()
    assert (pel.is_hidden(pel.by_id[entry_id(1)]), ids(pel, 200)) == (False, [1])
    assert ids(pel, 199) == []
