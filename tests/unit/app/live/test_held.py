"""Held: what was sent and is not settled, whatever others do meanwhile."""

import pytest

from headgate.app.live.held import Held
from headgate.engine.entry import EntryId
from headgate.engine.replies import Delivery, Outcome

ID_1, ID_2, ID_3 = (EntryId(ms, 0) for ms in (1, 2, 3))


def delivery(entry_id: EntryId, count: int = 1) -> Delivery:
    return Delivery(entry_id, (b"k", b"v"), 0, count - 1, None)


def holding(*ids: EntryId) -> Held:
    held = Held()
    held.add([delivery(entry_id) for entry_id in ids])
    return held


@pytest.mark.parametrize(
    "outcome", [Outcome.ACKED, Outcome.RELEASED, Outcome.CLAIMED, Outcome.NOT_PENDING]
)
def test_what_is_settled_lost_or_settled_elsewhere_is_held_no_more(outcome: Outcome) -> None:
    held = holding(ID_2, ID_3)
    held.add([delivery(ID_1)])

    assert held.up_to(ID_2) == [ID_2, ID_1]  # in the order of sending
    assert held.settle([ID_2, ID_1], [outcome, outcome]) == 2
    assert list(held.counts) == [ID_3]
    held.keep([ID_2])
    assert list(held.counts) == []


def test_what_another_consumer_took_over_is_held_no_more_unless_it_came_back() -> None:
    held = holding(ID_1, ID_2, ID_3)
    held.add([delivery(ID_2, 2)])  # it is told late that another took it: it is ours again

    assert held.take_away({ID_3: 1, ID_1: 1, ID_2: 1, EntryId(9, 0): 1}) == [ID_3, ID_1]

    assert held.take_away({ID_1: 1}) == []
    assert held.counts == {ID_2: 2}
