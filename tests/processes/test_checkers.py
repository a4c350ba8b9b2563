"""The checkers find what they are there for: a ledger is spoilt in one way at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headgate.engine import commands as c
from headgate.engine.entry import Entry, EntryId
from tests.processes.checker import FAILING, violations
from tests.processes.key_checker import violations_of_order
from tests.processes.ledger import DeadLetter, Id, Ledger, Left
from tests.processes.rotation_checker import violations_of_rotation

GOOD, BAD, NEW = (1, 0), (2, 0), (3, 0)


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
    kept = dict(ledger.appended)
    return ledger, Left(0, 0, 0, 0, [], [DeadLetter(BAD, f"{FAILING} 1", 2)], kept)


def settle(ledger: Ledger, consumer: str, kind: str, entry_id: Id, outcome: str) -> None:
    ledger.answer(ledger.settle(consumer, kind, [entry_id]), {entry_id: outcome})


def settled_by_an_earlier_owner(ledger: Ledger) -> None:
    ledger.settlings[-2:] = []
    settle(ledger, "a", "ack", GOOD, "acked")


def twice_through_one_connection(ledger: Ledger) -> None:
    ledger.deliver(GOOD, 2, ledger.channels[1], 1)
    ledger.end(ledger.channels[1])


def never_delivered(ledger: Ledger) -> None:
    ledger.appended[NEW] = "v"


SPOILT: list[tuple[Callable[[Ledger], object], dict[str, Any], set[str]]] = [
    (lambda _: None, {}, set()),
    (lambda ledger: settle(ledger, "b", "ack", GOOD, "acked"), {}, {"1"}),
    (lambda ledger: settle(ledger, "b", "ack", BAD, "acked"), {}, {"1"}),
    (never_delivered, {"kept": {GOOD: "v", BAD: f"{FAILING} 1", NEW: "v"}}, {"1"}),
    (lambda _: None, {"dead_letters": []}, {"1", "2"}),
    (lambda _: None, {"dead_letters": [DeadLetter(BAD, f"{FAILING} 1", 1)]}, {"2"}),
    (lambda _: None, {"pending_count": 1}, {"3"}),
    (lambda _: None, {"temporary_consumers": ["temporary-1"]}, {"3"}),
    (lambda ledger: ledger.deliver(GOOD, 3, ledger.open("c"), 99), {}, {"4"}),
    (lambda ledger: ledger.deliver(GOOD, 2, ledger.channels[0], 1), {}, {"5"}),
    (twice_through_one_connection, {}, {"5"}),
    (settled_by_an_earlier_owner, {}, {"6"}),
    (never_delivered, {}, {"7"}),
    (lambda _: None, {"kept": {GOOD: "other", BAD: f"{FAILING} 1"}}, {"7"}),
]


@pytest.mark.parametrize(("spoil", "change", "rules"), SPOILT)
def test_a_broken_promise_is_found(
    spoil: Callable[[Ledger], object], change: dict[str, Any], rules: set[str]
) -> None:
    ledger, left = sound()
    spoil(ledger)
    wrong = violations(ledger, left._replace(**change), max_deliveries=2)
    assert {text.partition(":")[0] for text in wrong} == rules


@pytest.mark.parametrize(
    ("steps", "pending_max", "rules"),
    [
        ("d1 a1 d2 a2 d3 a3", 1, ""),
        ("d1 d2", 1, "1"),
        ("d1 d2 d3", 2, "1"),
        ("d1 d2 a2 d3", 2, ""),
        ("d1 a1 d2 a2 d1", 1, "2"),
        ("d1 d2 a2 a1", 1, "13"),
    ],
)
def test_disorder_in_a_key_is_found(steps: str, pending_max: int, rules: str) -> None:
    ledger = Ledger()
    ledger.append(dict.fromkeys((GOOD, BAD, NEW), "key"), ledger.tick())
    for step in steps.split():
        entry_id = (int(step[1]), 0)
        if step[0] == "d":
            channel = ledger.open("c")
            ledger.deliver(entry_id, 1, channel, channel.opened_at)
        else:
            settle(ledger, "c", "ack", entry_id, "acked")
    wrong = violations_of_order(ledger, lambda value: value, pending_max, set(), ledger.appended)
    assert "".join(text[0] for text in wrong) == rules


@pytest.mark.parametrize(
    ("steps", "late"),
    [
        ("d1 d4 a1 d2 d5", []),
        ("d1 a1 d2 d4", [4]),
        ("d4 d1 a1 d2 a2 d3", []),  # the second key has one pending: it may have no other
        ("d4 d1 a1 a4 d2 a2 d3 d5", [5]),
    ],
)
def test_a_key_that_is_passed_over_is_found(steps: str, late: list[int]) -> None:
    entries = [Entry(EntryId(n, 0), (b"key", b"aaabb"[n - 1 : n])) for n in range(1, 6)]
    commands: list[c.Command] = [c.EntriesAdded(b"s", entries)]
    for step in steps.split():
        ids = [EntryId(int(step[1]), 0)]
        if step[0] == "d":
            commands.append(c.EntriesDelivered(b"s", b"g", b"ana", 0, [], ids, ids[0], None))
        else:
            commands.append(c.EntriesAcked(b"s", b"g", ids))
    wrong = violations_of_rotation(commands, lambda fields: fields[1], 1)
    assert [int(text.partition("-")[0]) for text in wrong] == late
