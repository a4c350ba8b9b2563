"""The ordered view against the obvious one: a dict that is sorted whenever it is looked at."""

from collections.abc import Iterator
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.engine.limits import U64_MAX
from headgate.engine.state.ordered import Key, KeyedRun, OrderedView


class Guest:
    """A guest of the view that knows whether it is still there."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_there = True


def living(block: KeyedRun[Guest], start: int) -> Iterator[int]:
    return (at for at in range(start, len(block)) if block.values[at].is_there)


class Guests:
    """A view, and beside it the dict it stands for."""

    def __init__(self, block_max: int = 512) -> None:
        self.view: OrderedView[Guest] = OrderedView(living, block_max)
        self.naive: dict[Key, Guest] = {}
        self._count = 0

    def insert(self, key: Key) -> None:
        """Let somebody come, unless there is somebody at that key."""
        if key not in self.naive:
            self._count += 1
            self.naive[key] = Guest(self._count)
            self.view.insert(key, self.naive[key])

    def remove(self, key: Key) -> None:
        if (guest := self.naive.pop(key, None)) is not None:
            guest.is_there = False
            self.view.note_left()

    def arrive(self, count: int) -> None:
        """Let several come together, behind all others."""
        major = max(self.view.top[0], 20) + 1
        if major <= U64_MAX:
            keys = [(major, number) for number in range(count)]
            guests = [Guest(self._count + number) for number in range(1, count + 1)]
            self._count += count
            self.naive |= zip(keys, guests, strict=True)
            self.view.extend(keys, guests)

    def leave(self, key: Key) -> None:
        """Let all from a key on leave together."""
        leaving = [known for known in self.naive if known >= key]
        for known in leaving:
            self.naive.pop(known).is_there = False
        if leaving:
            self.view.note_left(len(leaving))

    def come_back(self, key: Key) -> None:
        """Let one who is there leave and enter again, as the same value."""
        if (guest := self.naive.get(key)) is not None:
            self.remove(key)
            guest.is_there = True
            self.naive[key] = guest
            self.view.insert(key, guest)

    def numbers(self, start: Key = (0, 0)) -> list[int]:
        return [guest.number for guest in self.view.walk(start)]

    def check(self, probe: Key) -> None:
        expected = sorted(self.naive.items())
        assert len(self.view) == len(expected)
        assert self.numbers() == [guest.number for _, guest in expected]
        assert self.numbers(probe) == [guest.number for key, guest in expected if key >= probe]
        assert self.kept() == self.view._key_count
        firsts = [(block.majors[0], block.minors[0]) for block in self.view._blocks]
        assert list(zip(self.view._firsts.majors, self.view._firsts.minors, strict=True)) == firsts

    def edge(self, name: str) -> None:
        value = {"first": self.view.first, "last": self.view.last}[name]()
        edge = {"first": min, "last": max}[name]
        assert value is (self.naive[edge(self.naive)] if self.naive else None)

    def kept(self) -> int:
        """Return how many keys the view keeps, tombstones included."""
        for block in self.view._blocks:
            assert len(block.majors) == len(block.minors) == len(block.values) > 0
        return sum(map(len, self.view._blocks))


numbers = st.sampled_from([0, 1, 2, 3, 5, 8, 13, 2**63, U64_MAX])
keys = st.tuples(numbers, st.sampled_from([0, 1, 7, U64_MAX]))
steps = st.lists(
    st.tuples(
        st.sampled_from(["insert"] * 3 + ["remove"] * 2 + ["back", "first", "last", "crowd"])
        | st.sampled_from(["arrive", "leave"]),
        keys,
    ),
    max_size=60,
)


def step(guests: Guests, name: str, key: Key) -> None:
    if name == "insert":
        guests.insert(key)
    elif name == "remove":
        guests.remove(key)
    elif name == "back":
        guests.come_back(key)
    elif name == "arrive":
        guests.arrive(key[0] % 9 + 1)
    elif name == "leave":
        guests.leave(key)
    elif name == "crowd":  # enough tombstones on both sides of the key to be swept
        crowd = [(number % 14, 100 + number) for number in range(200)]
        for key_of_crowd in crowd:
            guests.insert(key_of_crowd)
        for key_of_crowd in crowd:
            guests.remove(key_of_crowd)
    else:
        guests.edge(name)


@settings(max_examples=300)
@given(steps, st.sampled_from([1, 2, 4, 512]))
def test_any_history_is_as_in_a_sorted_dict(history: list[tuple[str, Key]], block_max: int) -> None:
    guests = Guests(block_max)
    for name, key in history:
        step(guests, name, key)
        guests.check(key)


def full(size: int) -> Guests:
    guests = Guests()
    for number in range(size):
        guests.insert((number, 0))
    return guests


def test_shadows_do_not_pile_up_whatever_the_order_of_removal() -> None:
    scattered = [number * 7919 % 10_000 for number in range(10_000)]
    for order in (range(10_000), range(9_999, -1, -1), scattered):
        guests = full(10_000)
        for at in range(9_990):
            guests.remove((order[at], 0))
            if at % 100 == 0:
                assert guests.kept() <= 1.5 * len(guests.view) + 512
        assert len(guests.view) == 10
        assert guests.kept() <= 10 + 512


def test_a_walk_sweeps_the_shadows_it_has_passed() -> None:
    guests = full(10_000)
    for number in range(2000, 5000):  # too few for those who leave to sweep
        guests.remove((number, 0))
    assert guests.kept() == 10_000
    values = islice(guests.view.walk((1999, 0)), 2)
    assert [guest.number for guest in values] == [2000, 5001]
    assert guests.kept() <= 7000 + 2 * 512


def test_a_walk_from_the_front_does_not_pass_its_shadows_twice() -> None:
    guests = full(3000)
    for number in range(700):  # too few for those who leave to sweep
        guests.remove((number, 0))
    guests.edge("first")
    assert guests.kept() == 3000 - 512
    assert guests.view._head == 700 - 512
    guests.insert((600, 0))  # among them
    guests.check((0, 0))
