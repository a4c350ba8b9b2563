"""The checker of chaos finds what it is there for: a ledger is spoilt in one way at a time."""

from collections.abc import Callable

import pytest

from tests.crash.chaos_checker import (
    FAILING,
    violations,
    violations_on_receipt,
    violations_on_reconnect,
)
from tests.crash.history import Id
from tests.crash.ledger import DeadLetter, Ledger, Left

GOOD, BAD = (1, 0), (2, 0)


def sound() -> tuple[Ledger, Left]:
    """One entry that went from `a` to `b` and was acknowledged there, and one that failed twice."""
    ledger = Ledger(appended={GOOD: "v", BAD: f"{FAILING} 1"})
    for number, consumer in enumerate("ab", 1):
        channel = ledger.open(consumer)
        for entry_id in (GOOD, BAD):
            ledger.deliver(entry_id, number, channel, channel.opened_at)
        settle(ledger, consumer, "nack", BAD, "released")
    settle(ledger, "b", "ack", GOOD, "acked")
    settle(ledger, "a", "ack", GOOD, "not_pending")
    return ledger, Left(0, 0, 0, 0, [], [DeadLetter(BAD, f"{FAILING} 1", 2)], ledger.appended)


def settle(ledger: Ledger, consumer: str, kind: str, entry_id: Id, outcome: str) -> None:
    ledger.answer(ledger.settle(consumer, kind, [entry_id]), {entry_id: outcome})


def rules_broken(ledger: Ledger, left: Left) -> set[str]:
    return {violation.partition(":")[0] for violation in violations(ledger, left, max_deliveries=2)}


def test_a_sound_ledger_has_no_violations() -> None:
    assert rules_broken(*sound()) == set()


def acknowledged_twice(ledger: Ledger) -> None:
    settle(ledger, "b", "ack", GOOD, "acked")


def acknowledged_and_dead(ledger: Ledger) -> None:
    settle(ledger, "b", "ack", BAD, "acked")


def never_settled(ledger: Ledger) -> None:
    ledger.appended[3, 0] = "v"


def delivered_after_its_ack(ledger: Ledger) -> None:
    channel = ledger.open("c")
    ledger.deliver(GOOD, 3, channel, channel.opened_at)


def not_counted(ledger: Ledger) -> None:
    ledger.deliver(GOOD, 2, ledger.channels[0], 1)


def twice_through_one_connection(ledger: Ledger) -> None:
    ledger.deliver(GOOD, 2, ledger.channels[1], 1)
    ledger.end(ledger.channels[1])


def settled_by_an_earlier_owner(ledger: Ledger) -> None:
    ledger.settlings[-2:] = []
    settle(ledger, "a", "ack", GOOD, "acked")


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (acknowledged_twice, "1"),
        (acknowledged_and_dead, "1"),
        (never_settled, "1"),
        (delivered_after_its_ack, "4"),
        (not_counted, "5"),
        (twice_through_one_connection, "5"),
        (settled_by_an_earlier_owner, "6"),
    ],
)
def test_a_broken_promise_is_found(spoil: Callable[[Ledger], None], rule: str) -> None:
    ledger, left = sound()
    spoil(ledger)
    assert rules_broken(ledger, left) == {rule}


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        ({"dead_letters": []}, {"1", "2"}),
        ({"dead_letters": [DeadLetter(BAD, f"{FAILING} 1", 2)] * 2}, {"1"}),
        ({"dead_letters": [DeadLetter(BAD, f"{FAILING} 1", 1)]}, {"2"}),
        ({"dead_letters": [DeadLetter(BAD, "other", 2)]}, {"2"}),
        ({"pending_count": 1}, {"3"}),
        ({"lag": 1}, {"3"}),
        ({"waiter_count": 1}, {"3"}),
        ({"connection_count": 1}, {"3"}),
        ({"temporary_consumers": ["temporary-1"]}, {"3"}),
    ],
)
def test_what_is_left_behind_is_found(change: dict[str, object], rules: set[str]) -> None:
    ledger, left = sound()
    assert rules_broken(ledger, left._replace(**change)) == rules  # type: ignore[arg-type]


def test_what_a_lost_answer_may_have_done_is_allowed() -> None:
    ledger, left = sound()
    ledger.appended[3, 0] = "v"
    ledger.settle("a", "ack", [(3, 0)])
    assert rules_broken(ledger, left) == set()


def test_a_count_comes_again_after_a_connection_has_ended() -> None:
    ledger, left = sound()
    ledger.end(ledger.channels[0])
    ledger.deliver(GOOD, 1, ledger.open("c"), 1)
    assert rules_broken(ledger, left) == set()


def receipts() -> Ledger:
    """One entry that was followed by something, and one that was not: its connection broke."""
    ledger = Ledger(appended={GOOD: "v", BAD: "v"})
    channel = ledger.open("r")
    ledger.deliver(GOOD, 1, channel, channel.opened_at)
    settle(ledger, "r", "ack", GOOD, "acked")
    ledger.deliver(BAD, 1, channel, channel.opened_at)
    ledger.end(channel)
    return ledger


def test_what_is_done_with_as_it_is_sent_may_come_again_if_its_connection_broke() -> None:
    ledger = receipts()
    channel = ledger.open("r")
    ledger.deliver(BAD, 1, channel, channel.opened_at)
    assert violations_on_receipt(ledger, ledger.appended) == []


def test_what_was_followed_by_something_must_not_come_again() -> None:
    ledger = receipts()
    channel = ledger.open("r")
    ledger.deliver(GOOD, 2, channel, channel.opened_at)
    assert [
        violation.partition(":")[0] for violation in violations_on_receipt(ledger, ledger.appended)
    ] == ["4"]
    settle(ledger, "r", "ack", GOOD, "acked")
    assert "1" in [
        violation.partition(":")[0] for violation in violations_on_receipt(ledger, ledger.appended)
    ]


def test_what_nobody_has_seen_must_not_be_done_with() -> None:
    ledger = receipts()
    assert violations_on_reconnect(ledger, ledger.appended) == []
    ledger.appended[3, 0] = "v"
    assert violations_on_reconnect(ledger, ledger.appended) == ["1: nobody has seen (3, 0)"]
