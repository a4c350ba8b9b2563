"""The pending entries list: three views of the same deliveries."""

from collections.abc import Callable
from itertools import count
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.engine.entry import EntryId
from headgate.engine.state.pending import Consumer, Pel


def entry_id(number: int) -> EntryId:
    return EntryId(number, 0)


def ids(pel: Pel, now_ms: int = 0) -> list[int]:
    return [pending.id.ms for pending in pel.longest_idle_first(now_ms)]


def test_idle_time_is_never_negative_when_the_clock_stepped_back() -> None:
    pel = Pel()
    pel.assign(entry_id(1), Consumer(b"alice", 0), 100, 1)
    assert pel.by_id[entry_id(1)].idle_ms(40) == 0


class Known(NamedTuple):
    """The known facts of a pending entry."""

    owner: int  # -1 for nobody
    at_ms: int
    delayed_until_ms: int
    serial: int
    is_hidden: bool


class Plain:
    """A PEL of the obvious kind, changed along with a real one."""

    def __init__(self) -> None:
        self.pel = Pel()
        self.consumers = [Consumer(b"alice", 0), Consumer(b"bob", 0)]
        self.known: dict[int, Known] = {}
        self._serials = count(1)

    def assign(self, number: int, owner: int, at_ms: int) -> None:
        self.pel.assign(entry_id(number), self.consumers[owner], at_ms, 1)
        self.known[number] = Known(owner, at_ms, 0, next(self._serials), is_hidden=False)

    def deliver(self, number: int, owner: int, at_ms: int) -> None:
        """Deliver several entries together, which nearly always are new."""
        numbers = [item for item in range(number, number + 900, 300) if item not in self.known]
        new = [entry_id(item) for item in numbers]
        self.pel.assign_new(new, self.consumers[owner], at_ms)
        for item in numbers:
            self.known[item] = Known(owner, at_ms, 0, next(self._serials), is_hidden=False)

    def settle(self, number: int, _owner: int, _ms: int) -> None:
        """Forget everything from a number on together, and one that is not there."""
        gone = [item for item in self.known if item >= number]
        self.pel.remove_all([entry_id(item) for item in [number + 1, *gone]])
        for item in gone:
            del self.known[item]

    def release(self, number: int, owner: int, delayed_until_ms: int) -> None:
        self.pel.release(entry_id(number), owner, delayed_until_ms)
        self.known[number] = Known(-1, 0, delayed_until_ms, next(self._serials), is_hidden=False)

    def remove(self, number: int, _owner: int, _ms: int) -> None:
        assert self.pel.remove(entry_id(number)) == (self.known.pop(number, None) is not None)

    def hide(self, number: int, _owner: int, _ms: int) -> None:
        if number in self.known:
            self.pel.hide(self.pel.by_id[entry_id(number)])
            self.known[number] = self.known[number]._replace(is_hidden=True)

    def show_all(self, _number: int, _owner: int, _ms: int) -> None:
        self.pel.show_all()
        self.known = {
            number: entry._replace(is_hidden=False) for number, entry in self.known.items()
        }

    def crowd(self, number: int, owner: int, at_ms: int) -> None:
        """Let so many come and go that what they leave behind is swept."""
        passing = range(number + 1, number + 400)
        for item in passing:
            self.assign(item, owner, at_ms)
        for item in passing:
            self.remove(item, owner, at_ms)

    def check(self, now_ms: int) -> None:
        known = sorted(self.known.items())
        assert [entry.id.ms for entry in self.pel.walk()] == [number for number, _ in known]
        assert [entry.id.ms for entry in self.pel.in_time_order()] == _by(
            known, lambda pending: (pending.at_ms, pending.serial)
        )
        for owner, consumer in enumerate(self.consumers):
            held = [number for number, entry in known if entry.owner == owner]
            assert [entry.id.ms for entry in consumer.pending.walk()] == held
            assert len(consumer.pending) == len(held)
        assert self.pel.released_count == sum(entry.owner < 0 for _, entry in known)
        shown = [(number, entry) for number, entry in known if not entry.is_hidden]
        nobodys = [(number, pending) for number, pending in shown if pending.owner < 0]
        rested = [pair for pair in nobodys if 0 < pair[1].delayed_until_ms <= now_ms]
        assert ids(self.pel, now_ms) == [
            *_by(rested, lambda pending: (pending.delayed_until_ms, pending.serial)),
            *_by(
                [pair for pair in nobodys if not pair[1].delayed_until_ms],
                lambda pending: (0, pending.serial),
            ),
            *_by(
                [pair for pair in shown if pair[1].owner >= 0],
                lambda pending: (pending.at_ms, pending.serial),
            ),
        ]


def _by(known: list[tuple[int, Known]], key: Callable[[Known], tuple[int, int]]) -> list[int]:
    return [number for number, _ in sorted(known, key=lambda pair: key(pair[1]))]


steps = st.lists(
    st.tuples(
        st.sampled_from(["assign"] * 5 + ["release", "remove", "remove", "hide", "show_all"])
        | st.sampled_from(["deliver", "deliver", "settle"])
        | st.sampled_from(["assign", "release", "remove", "crowd"]),
        st.integers(0, 8).map(lambda number: number * 500),  # crowds come between them
        st.integers(0, 1),
        st.sampled_from([0, 0, 5, 9]),
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(steps)
def test_any_history_is_as_in_a_plain_dict(history: list[tuple[str, int, int, int]]) -> None:
    plain = Plain()
    for name, number, owner, ms in history:
        getattr(plain, name)(number, owner, ms)
        plain.check(now_ms=5)
