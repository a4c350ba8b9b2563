"""The ordered map against the obvious one: a dict that is sorted whenever it is looked at."""

from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ordered import OrderedMap

Key = tuple[int, int]
keys = st.tuples(st.integers(0, 12), st.integers(0, 1))
steps = st.lists(
    st.tuples(st.sampled_from(["insert", "insert", "remove", "first", "last", "sweep"]), keys),
    max_size=60,
)


def fill(size: int) -> OrderedMap[Key, int]:
    ordered: OrderedMap[Key, int] = OrderedMap()
    for number in range(size):
        ordered.insert((number, 0), number)
    return ordered


def agree(ordered: OrderedMap[Key, int], naive: dict[Key, int], probe: Key) -> bool:
    expected = sorted(naive.items())
    from_probe = [value for key, value in expected if key >= probe]
    assert ordered._key_count == sum(map(len, ordered._blocks))
    assert all(ordered._blocks)
    return (
        dict(ordered) == naive
        and list(ordered.walk()) == [value for _, value in expected]
        and list(ordered.walk(probe)) == from_probe
        and ordered.count_through(probe, 100) == sum(key <= probe for key in naive)
    )


def step(ordered: OrderedMap[Key, int], naive: dict[Key, int], name: str, key: Key) -> None:
    if name == "insert":
        ordered.insert(key, len(naive) + 1)
        naive[key] = len(naive) + 1
    elif name == "remove":
        assert ordered.remove(key) == naive.pop(key, None)
    elif name == "sweep":  # enough shadows on both sides of the key to be swept
        for number in range(100, 300):
            ordered.insert((number - 200, 5), number)
        for number in range(100, 300):
            ordered.remove((number - 200, 5))
    else:
        edge = {"first": min, "last": max}[name]
        assert getattr(ordered, name)() == (naive[edge(naive)] if naive else None)


@settings(max_examples=300)
@given(steps, st.sampled_from([1, 2, 4, 512]))
def test_any_history_leaves_the_same_as_in_a_sorted_dict(
    history: list[tuple[str, Key]], block_max: int
) -> None:
    ordered: OrderedMap[Key, int] = OrderedMap(block_max)
    naive: dict[Key, int] = {}
    for name, key in history:
        size = len(naive)
        step(ordered, naive, name, key)
        assert agree(ordered, naive, key), (name, key, size)


def test_a_key_added_after_the_last_one_was_asked_for_is_found() -> None:
    ordered = fill(3)
    for number in range(3):
        ordered.remove((number, 0))
    assert ordered.last() is None
    ordered.insert((9, 0), 9)
    assert list(ordered.walk()) == [9]
    assert ordered.first() == 9


def test_counting_stops_at_the_limit() -> None:
    assert fill(50).count_through((49, 0), 7) == 7


def test_shadows_do_not_pile_up_whatever_the_order_of_removal() -> None:
    front, scattered = fill(10_000), fill(10_000)
    for number in range(9_990):
        front.remove((number, 0))
        scattered.remove((number * 7919 % 10_000, 0))
    assert len(front) == len(scattered) == 10
    assert sum(map(len, front._blocks)) <= 512
    assert sum(map(len, scattered._blocks)) <= 2 * 512


def test_a_walk_sweeps_the_shadows_it_has_passed() -> None:
    ordered = fill(10_000)
    for number in range(1000, 9_000):
        ordered.remove((number, 0))
    assert list(islice(ordered.walk((999, 0)), 2)) == [999, 9000]
    assert sum(map(len, ordered._blocks)) <= 2000 + 2 * 512


def test_a_removed_key_can_come_back_in_its_place() -> None:
    ordered = fill(5)
    ordered.remove((0, 0))
    ordered.remove((2, 0))
    ordered.insert((2, 0), 22)
    ordered.insert((0, 0), 11)
    assert list(ordered.walk()) == [11, 1, 22, 3, 4]
