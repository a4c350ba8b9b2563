"""The checkers find what they are there for: a history is spoilt in one way at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.ledger.bank import BALANCE, KEY_FIELD, NAMES, Event, Looked, Told, Tried
from tests.ledger.checker import Books, violations
from tests.ledger.client import Entry
from tests.ledger.stages import entries, violations_of_order


def row(entry_id: str, account: str, balance: int, attempt: str) -> Entry:
    return Entry(entry_id, {KEY_FIELD: account, "balance": str(balance), "attempt": attempt})


def transfer(entry_id: str, source: str, target: str, amount: int) -> Entry:
    return Entry(entry_id, {"from": source, "to": target, "amount": str(amount)})


def done(entry_id: str, of: str, attempt: str) -> Entry:
    return Entry(entry_id, {"transfer": of, "attempt": attempt})


class History(NamedTuple):
    """Lists that a test may spoil."""

    accounts: list[Entry]
    transfers: list[Entry]
    done: list[Entry]
    log: list[Event]
    ordered: dict[str, dict[str, str]]
    rows: dict[str, str]
    left: list[int]

    def violated(self) -> set[str]:
        """Return the numbers of the rules that are violated."""
        books = Books(self.accounts, self.transfers, self.done, self.rows, sum(self.left))
        return {wrong[:1] for wrong in violations(self.log, self.ordered, books)}


def sound() -> History:
    """Two transfers, a0 to a1 and a1 to a2, of which the second was tried in vain before."""
    accounts = [row(f"1-{at}", name, BALANCE, "") for at, name in enumerate(NAMES)]
    rows = {name: f"1-{at}" for at, name in enumerate(NAMES)}
    accounts += [row("2-0", "a0", BALANCE - 30, "x.0"), row("2-1", "a1", BALANCE + 30, "x.0")]
    accounts += [row("4-0", "a1", BALANCE + 20, "y.1"), row("4-1", "a2", BALANCE + 10, "y.1")]
    transfers = [transfer("1-0", "a0", "a1", 30), transfer("1-1", "a1", "a2", 10)]
    log: list[Event] = [
        Looked("a1", "1-1", BALANCE, 1, 2),
        Tried("x.0", "1-0"),
        Tried("y.0", "1-1"),
        Told("x.0", ["2-0", "2-1", "2-0"], None, 3),
        Told("y.0", [], "row_changed", 4),
        Looked("a1", "2-1", BALANCE + 30, 5, 6),
        Tried("y.1", "1-1"),
        Told("y.1", ["4-0", "4-1", "4-0"], None, 7),
    ]
    return History(
        accounts,
        transfers,
        [done("2-0", "1-0", "x.0"), done("4-0", "1-1", "y.1")],
        log,
        {each.id: each.fields for each in transfers},
        rows | {"a0": "2-0", "a1": "4-0", "a2": "4-1"},
        [0],
    )


def lost_update(history: History) -> None:
    history.accounts[-2] = row("4-0", "a1", BALANCE - 10, "y.1")


def half_a_commit(history: History) -> None:
    del history.accounts[-1]
    history.rows["a2"] = "1-2"


def between_the_rows(history: History) -> None:
    history.accounts[-3:-1] = history.accounts[-2], history.accounts[-3]


def done_again(history: History) -> None:
    """Carry out the second transfer once more, in a commit that is as sound as the first."""
    history.log.append(Tried("y.2", "1-1"))
    history.log.append(Told("y.2", ["5-0", "5-1", "5-0"], None, 8))
    history.accounts.append(row("5-0", "a1", BALANCE + 10, "y.2"))
    history.accounts.append(row("5-1", "a2", BALANCE + 20, "y.2"))
    history.done.append(done("5-0", "1-1", "y.2"))
    history.rows.update(a1="5-0", a2="5-1")


def of_refused(history: History) -> None:
    history.log[4] = Told("y.1", [], "row_changed", 4)


SPOILT: list[tuple[Callable[[History], object], set[str]]] = [
    (lambda history: None, set()),
    (lambda history: history.accounts.insert(0, history.accounts.pop(1)), {"1"}),
    (lambda history: history.done.reverse(), {"1"}),
    (between_the_rows, {"1", "2", "3", "5", "8"}),
    (half_a_commit, {"1", "2", "8"}),
    (lost_update, {"2", "3"}),
    (done_again, {"4"}),
    (lambda history: history.transfers.append(transfer("1-2", "a3", "a4", 1)), {"4"}),
    (lambda history: history.rows.update(a1="2-1"), {"5"}),
    (lambda history: history.rows.pop("a9"), {"5"}),
    (lambda history: history.left.append(1), {"6"}),
    (lambda history: history.ordered.update({"1-2": {}}), {"7"}),
    (lambda history: history.log.pop(1), {"8"}),
    (of_refused, {"8"}),
    (lambda history: history.log.append(Told("y.3", [], "stream_closed", 9)), {"8"}),
    (lambda history: history.log.append(Looked("a1", "3-0", BALANCE, 8, 9)), {"9"}),
    (lambda history: history.log.append(Looked("a1", "2-1", BALANCE + 30, 8, 9)), {"9"}),
]


@pytest.mark.parametrize(("spoil", "rules"), SPOILT)
def test_a_spoilt_history_is_found(spoil: Callable[[History], object], rules: set[str]) -> None:
    history = sound()
    spoil(history)
    assert history.violated() == rules


@pytest.mark.parametrize(
    "spoil",
    [
        lambda results: results.pop(),
        lambda results: results.append(results[0]),
        lambda results: results.insert(0, results.pop(2)),
    ],
)
def test_results_that_are_lost_twice_or_in_disorder_are_found(
    spoil: Callable[[list[dict[str, str]]], object],
) -> None:
    sent = entries(0, 6, key_count=2)
    results = sorted(sent, key=lambda fields: fields["key"])
    assert [*violations_of_order(sent, results)] == []
    spoil(results)
    assert len([*violations_of_order(sent, results)]) == 1
