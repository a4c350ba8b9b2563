"""The checker of order by key finds what it is to find, and nothing else."""

import pytest

from tests.crash.history import Id
from tests.crash.key_checker import violations_of_order
from tests.crash.ledger import Channel, Ledger, Takeover

FIRST, SECOND, THIRD = (1, 0), (2, 0), (3, 0)


@pytest.fixture
def ledger() -> Ledger:
    """Return a ledger of three entries of one key."""
    ledger = Ledger()
    ledger.append({FIRST: "1 a", SECOND: "2 a", THIRD: "3 a"}, ledger.tick())
    return ledger


def come(ledger: Ledger, entry_id: Id, channel: Channel | None = None) -> None:
    channel = channel or ledger.open("c")
    ledger.deliver(entry_id, 1, channel, channel.opened_at)


def ack(ledger: Ledger, entry_id: Id, outcome: str = "acked") -> None:
    ledger.answer(ledger.settle("c", "ack", [entry_id]), {entry_id: outcome})


def wrong(
    ledger: Ledger,
    pending_max: int = 1,
    given_up: set[Id] | None = None,
    lost: set[Id] | None = None,
) -> list[str]:
    kept = ledger.appended.keys() - (lost or set())
    broken = violations_of_order(
        ledger, lambda value: value[-1], pending_max, given_up or set(), kept
    )
    return [text[0] for text in broken]


def test_one_after_the_other_is_fine(ledger: Ledger) -> None:
    for entry_id in (FIRST, SECOND, THIRD):
        come(ledger, entry_id)
        come(ledger, entry_id)
        ack(ledger, entry_id)

    assert wrong(ledger) == []


def test_an_entry_comes_before_an_earlier_one_is_settled(ledger: Ledger) -> None:
    come(ledger, FIRST)
    come(ledger, SECOND)

    assert wrong(ledger) == ["1"]
    assert wrong(ledger, given_up={FIRST}) == []


def test_more_come_at_once_than_may(ledger: Ledger) -> None:
    for entry_id in (FIRST, SECOND, THIRD):
        come(ledger, entry_id)

    assert wrong(ledger, pending_max=2) == ["1"]
    assert wrong(ledger, pending_max=3) == []


def test_another_key_is_in_nobodys_way(ledger: Ledger) -> None:
    ledger.append({(4, 0): "4 b"}, ledger.tick())
    come(ledger, FIRST)
    come(ledger, (4, 0))

    assert wrong(ledger) == []


def test_an_entry_comes_again_behind_a_later_one(ledger: Ledger) -> None:
    slow = ledger.open("slow")
    come(ledger, FIRST)
    ack(ledger, FIRST)
    come(ledger, SECOND)
    come(ledger, FIRST, slow)

    assert wrong(ledger) == []  # it was sent before
    come(ledger, FIRST)
    assert wrong(ledger) == ["2"]


def test_entries_are_settled_in_another_order(ledger: Ledger) -> None:
    come(ledger, FIRST)
    ack(ledger, FIRST, "not_pending")
    come(ledger, SECOND)
    ack(ledger, SECOND)
    ack(ledger, FIRST)

    assert wrong(ledger) == ["3"]


def test_a_takeover_takes_a_key_back(ledger: Ledger) -> None:
    safe = ledger.moment()
    come(ledger, FIRST)
    ack(ledger, FIRST)
    come(ledger, SECOND)
    ack(ledger, SECOND)
    dead = ledger.moment()
    come(ledger, FIRST)
    assert wrong(ledger) == ["2"]
    ledger.takeovers.append(Takeover(safe, dead))
    assert wrong(ledger) == []
    ack(ledger, FIRST)
    assert wrong(ledger) == []
    come(ledger, SECOND)
    come(ledger, FIRST)
    assert wrong(ledger) == ["2"]


def test_what_is_lost_is_in_nobodys_way(ledger: Ledger) -> None:
    come(ledger, SECOND)
    assert wrong(ledger) == ["1"]
    assert wrong(ledger, lost={FIRST}) == []
