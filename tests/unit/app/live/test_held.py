"""Held: what was sent and is not settled, whatever others do meanwhile."""

import pytest

from headgate.app.live.held import Held
from headgate.engine.entry import EntryId
from headgate.engine.replies import Delivery, Outcome

ONE, TWO, THREE = (EntryId(ms, 0) for ms in (1, 2, 3))


def delivery(entry_id: EntryId, count: int = 1) -> Delivery:
    return Delivery(entry_id, (b"k", b"v"), 0, count - 1, None)


def holding(*ids: EntryId) -> Held:
    held = Held()
    held.add([delivery(one) for one in ids])
    return held


@pytest.mark.parametrize(
    "outcome", [Outcome.ACKED, Outcome.RELEASED, Outcome.CLAIMED, Outcome.NOT_PENDING]
)
def test_what_is_settled_or_lost_is_held_no_more(outcome: Outcome) -> None:
    held = holding(ONE, TWO, THREE)

    assert held.settle([TWO, ONE], [outcome, outcome]) == 2

    assert list(held.counts) == [THREE]


def test_what_is_extended_is_still_held() -> None:
    held = holding(ONE, TWO)

    assert held.settle([ONE, TWO], [Outcome.EXTENDED, Outcome.CLAIMED]) == 1

    assert list(held.counts) == [ONE]


def test_what_is_settled_twice_or_was_not_held_counts_once() -> None:
    held = holding(ONE)

    assert held.settle([THREE, ONE, ONE], [Outcome.ACKED] * 3) == 1
    assert held.settle([ONE], [Outcome.NOT_PENDING]) == 0


def test_what_another_consumer_took_over_is_held_no_more() -> None:
    held = holding(ONE, TWO, THREE)

    assert held.take_away({THREE: 1, ONE: 1, EntryId(9, 0): 1}) == [THREE, ONE]

    assert held.take_away({ONE: 1}) == []
    assert list(held.counts) == [TWO]


def test_what_another_took_and_gave_back_meanwhile_is_still_held() -> None:
    held = holding(ONE)
    held.add([delivery(ONE, 2)])  # it is told late that another took it: it is ours again

    assert held.take_away({ONE: 1}) == []

    assert held.counts == {ONE: 2}


def test_what_is_up_to_an_id_is_in_the_order_of_sending() -> None:
    held = holding(TWO, THREE)
    held.add([delivery(ONE)])

    assert held.up_to(TWO) == [TWO, ONE]


def test_what_was_settled_elsewhere_is_held_no_more() -> None:
    held = holding(ONE, TWO, THREE)

    held.keep([THREE, EntryId(9, 0)])

    assert list(held.counts) == [THREE]
