"""The checker finds each broken promise, and nothing where all were kept."""

from collections.abc import Callable

import pytest

from tests.crash.checker import violations
from tests.crash.history import Appending, History, Id, Pending, Settling, State, Taking

A, B, C, D = (1, 0), (2, 0), (3, 0), (4, 0)


def state_of(
    entries: dict[Id, str], pending: dict[Id, Pending] | None = None, position: Id = (0, 0)
) -> State:
    return State(dict(entries), dict(pending or {}), position)


BEFORE = state_of({A: "a"}, {A: Pending("c0", 1)}, A)
AFTER = state_of({A: "a", B: "b", C: "c", D: "d"}, {A: Pending("c0", 1), B: Pending("c1", 1)}, C)


def history() -> History:
    """Return the history between BEFORE and AFTER."""
    return History(
        appends=[
            Appending("w0", ["a"], [A], 1),
            Appending("w0", ["b"], [B], 1),
            Appending("w1", ["c", "d"], [C, D], 1),
            Appending("w0", ["never"], None),
        ],
        takings=[
            Taking("c1", 10, answered_at=11, deliveries={B: 1}),
            Taking("c2", 12, answered_at=13, deliveries={C: 1}),
        ],
        settlings=[Settling("c2", "ack", [C], 14, 15, {C: "acked"})],
        acked={C: 15},
        answered={"w0": [A, B], "w1": [C, D]},
        now=20,
    )


def rules(changed: History, before: State = BEFORE, after: State = AFTER) -> set[str]:
    return {text.partition(":")[0] for text in violations(changed, before, after)}


def test_what_was_promised_is_there() -> None:
    assert violations(history(), BEFORE, AFTER) == []


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda after: after.entries.pop(B), "1"),
        (lambda after: after.entries.update({B: "x"}), "1"),
        (lambda after: after.entries.pop(D), "2"),
        (lambda after: after.entries.update({(5, 0): "b"}), "3"),
        (lambda after: after.entries.update({(5, 0): "made up"}), "4"),
        (lambda after: after.entries.pop(A), "5"),
        (lambda after: after.entries.update({(0, 1): "never"}), "6"),
        (lambda after: after.pending.update({C: Pending("c2", 1)}), "7"),
        (lambda after: after.pending.update({B: Pending("c0", 1)}), "8, 9"),
        (lambda after: after.pending.update({B: Pending(None, 1)}), "8, 9"),
        (lambda after: after.pending.update({A: Pending("c2", 1)}), "8, 9"),
        (lambda after: after.pending.pop(B), "10"),
        (lambda after: after.pending.pop(A), "10"),
        (lambda after: after.pending.update({D: Pending("c0", 1)}), "10"),
        (lambda after: after.pending.update({B: Pending("c1", 0)}), "11"),
    ],
)
def test_a_promise_that_was_broken_is_named(change: Callable[[State], object], rule: str) -> None:
    after = state_of(*AFTER)
    change(after)
    assert rule in rules(history(), after=after)


def test_an_acknowledged_entry_is_delivered_no_more() -> None:
    late = history()
    late.takings.append(Taking("c0", 16, answered_at=17, deliveries={C: 2}))
    assert "7" in rules(late)


def test_ids_that_were_answered_out_of_order_are_named() -> None:
    changed = history()
    changed.answered["w0"] = [B, A]
    assert rules(changed) == {"6"}


def test_a_request_without_an_answer_may_have_had_its_effect_or_not() -> None:
    for pending in ({**AFTER.pending, B: Pending("c2", 2)}, AFTER.pending):
        claimed = history()
        claimed.takings.append(Taking("c2", 16, [B]))
        assert violations(claimed, BEFORE, state_of(AFTER.entries, pending, C)) == []
    for held in (Pending("c1", 1), None, Pending(None, 1)):
        settled = history()
        settled.settlings.append(Settling("c1", "nack", [B], 16))
        settled.settlings.append(Settling("c1", "ack", [B], 17))
        pending = {A: AFTER.pending[A]} | ({} if held is None else {B: held})
        assert violations(settled, BEFORE, state_of(AFTER.entries, pending, C)) == []
    read = history()
    read.takings.append(Taking("c2", 16))
    pending = {**AFTER.pending, D: Pending("c2", 1)}
    assert violations(read, BEFORE, state_of(AFTER.entries, pending, D)) == []


def test_of_two_answered_requests_at_once_either_may_have_been_the_last() -> None:
    overlapping = history()
    overlapping.takings.append(Taking("c2", 10, [B], answered_at=12, deliveries={B: 2}))
    for owner in ("c1", "c2"):
        pending = {**AFTER.pending, B: Pending(owner, 2)}
        assert violations(overlapping, BEFORE, state_of(AFTER.entries, pending, C)) == []
    assert "8, 9" in rules(
        overlapping, after=state_of(AFTER.entries, {**AFTER.pending, B: Pending("c0", 2)}, C)
    )
