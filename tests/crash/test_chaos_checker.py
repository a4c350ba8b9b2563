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
from tests.crash.ledger import DeadLetter, Ledger, Left, Moment, Takeover

GOOD, BAD = (1, 0), (2, 0)


def sound() -> tuple[Ledger, Left]:
    """One entry that went from `a` to `b` and was acknowledged there, and one that failed twice."""
    ledger = Ledger(appended={GOOD: "v", BAD: f"{FAILING} 1"})
    for number, consumer in enumerate("ab", 1):
        channel = ledger.open(consumer)
        for entry_id in (GOOD, BAD):
            ledger.deliver(entry_id, number, channel, channel.opened_at)
        channel.is_read = True
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


@pytest.mark.parametrize(("first", "last", "rules"), [(5, 99, set()), (1, 5, {"6"})])
def test_a_connection_may_end_before_its_consumer_notices_while_servers_fail(
    first: int, last: int, rules: set[str]
) -> None:
    ledger, left = sound()
    settled_by_an_earlier_owner(ledger)
    ledger.end(ledger.channels[1])
    ledger.failures.append((first, last))
    assert rules_broken(ledger, left) == rules


def test_an_earlier_owner_may_own_an_entry_again_and_not_have_read_that() -> None:
    ledger, left = sound()
    settled_by_an_earlier_owner(ledger)
    [own, _] = ledger.channels
    own.is_read = False
    assert rules_broken(ledger, left) == set()
    ledger.append({LATE: "v"}, ledger.tick())
    ledger.deliver(LATE, 1, own, own.opened_at)
    settle(ledger, "a", "ack", LATE, "acked")
    assert rules_broken(ledger, left) == {"6"}


def test_an_earlier_owner_may_settle_what_a_later_one_has_nacked() -> None:
    ledger, left = sound()
    ledger.settlings[-2:] = []
    later = ledger.open("c")
    ledger.deliver(GOOD, 3, later, later.opened_at)
    later.is_read = True
    settle(ledger, "c", "nack", GOOD, "released")
    settle(ledger, "a", "ack", GOOD, "acked")
    assert rules_broken(ledger, left) == set()


def test_a_nack_of_an_earlier_owner_releases_nothing() -> None:
    ledger, left = sound()
    ledger.settlings[-2:] = []
    settle(ledger, "a", "nack", GOOD, "released")
    settle(ledger, "a", "ack", GOOD, "acked")
    assert rules_broken(ledger, left) == {"6"}


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


LATE = (3, 0)


def taken_over() -> tuple[Ledger, Left]:
    """One entry that was appended, delivered and acknowledged just before a replica took over."""
    ledger, left = sound()
    safe = ledger.moment()
    ledger.append({LATE: "v"}, ledger.tick())
    channel = ledger.open("c")
    ledger.deliver(LATE, 1, channel, channel.opened_at)
    settle(ledger, "c", "ack", LATE, "acked")
    ledger.takeovers.append(Takeover(safe, ledger.moment()))
    return ledger, left


def without(left: Left, *entry_ids: Id) -> Left:
    return left._replace(kept={each: left.kept[each] for each in left.kept.keys() - {*entry_ids}})


def again(ledger: Ledger, entry_id: Id) -> None:
    channel = ledger.open("d")
    ledger.deliver(entry_id, 1, channel, channel.opened_at)
    channel.is_read = True
    settle(ledger, "d", "ack", entry_id, "acked")


def test_what_came_last_may_be_undone_by_a_takeover() -> None:
    ledger, left = taken_over()
    assert rules_broken(ledger, left) == set()
    assert rules_broken(ledger, without(left, LATE)) == set()
    again(ledger, LATE)
    assert rules_broken(ledger, left) == set()


def test_what_was_not_answered_may_be_undone_by_a_takeover() -> None:
    ledger, left = taken_over()
    del ledger.appended[LATE]
    assert rules_broken(ledger, left) == set()


def test_what_is_undone_is_not_there_again() -> None:
    ledger, left = taken_over()
    again(ledger, LATE)
    assert rules_broken(ledger, without(left, LATE)) == {"7"}


def test_a_takeover_undoes_nothing_that_its_replica_surely_had() -> None:
    ledger, left = taken_over()
    assert rules_broken(ledger, without(left, GOOD)) == {"7"}
    again(ledger, GOOD)
    assert rules_broken(ledger, left) == {"1", "4", "5", "6"}


def test_a_takeover_undoes_nothing_that_came_later() -> None:
    ledger, left = taken_over()
    ledger.append({(4, 0): "v"}, ledger.tick())
    again(ledger, (4, 0))
    assert rules_broken(ledger, without(left, (4, 0))) == {"7"}
    again(ledger, (4, 0))
    assert rules_broken(ledger, left) == {"1", "4", "5"}


def test_a_takeover_undoes_the_last_appends() -> None:
    ledger, left = taken_over()
    takeover = ledger.takeovers.pop()
    ledger.append({(4, 0): "v"}, ledger.tick())
    again(ledger, (4, 0))
    ledger.takeovers.append(takeover._replace(dead=ledger.moment()))
    assert rules_broken(ledger, without(left, LATE, (4, 0))) == set()
    assert rules_broken(ledger, without(left, (4, 0))) == set()
    assert rules_broken(ledger, without(left, LATE)) == {"7"}


def test_one_takeover_undoes_one_acknowledgement() -> None:
    ledger, left = taken_over()
    again(ledger, LATE)
    again(ledger, LATE)
    assert rules_broken(ledger, left) == {"1", "4", "5"}


def test_an_entry_may_be_given_up_again_after_a_takeover() -> None:
    ledger, left = sound()
    [dead_letter] = left.dead_letters
    twice = left._replace(dead_letters=[dead_letter._replace(written_ms=5), dead_letter])
    ledger.takeovers.append(Takeover(Moment(1, 4), Moment(2, 6)))
    assert rules_broken(ledger, twice) == set()
    ledger.takeovers[:] = [Takeover(Moment(1, 6), Moment(2, 7))]
    assert rules_broken(ledger, twice) == {"1"}


def test_a_consumer_may_be_back_after_a_takeover() -> None:
    ledger, left = taken_over()
    ledger.open("temporary-2")
    assert rules_broken(ledger, left._replace(temporary_consumers=["temporary-1"])) == set()
    assert rules_broken(ledger, left._replace(temporary_consumers=["temporary-2"])) == {"3"}


def test_nothing_is_undone_without_a_takeover() -> None:
    ledger, left = taken_over()
    ledger.takeovers.clear()
    assert rules_broken(ledger, without(left, LATE)) == {"7"}
    again(ledger, LATE)
    assert rules_broken(ledger, left) == {"1", "4", "5"}


def test_nothing_else_is_in_the_stream() -> None:
    ledger, left = sound()
    assert rules_broken(ledger, left._replace(kept={**left.kept, LATE: "v"})) == {"7"}
    assert rules_broken(ledger, left._replace(kept={**left.kept, GOOD: "other"})) == {"7"}
