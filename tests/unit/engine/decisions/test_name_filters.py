"""Filters of names: what two of them both show."""

from itertools import product

import pytest

from headgate.engine.requests.keyspace import NameFilter

NAMES = [b"a", b"a.1", b"a.12", b"b", b"b.1", b"c"]
FILTERS = [
    NameFilter(),
    NameFilter(prefixes=(b"",)),
    NameFilter(prefixes=(b"a", b"b.1")),
    NameFilter(prefixes=(b"a.1", b"c")),
    NameFilter(frozenset({b"a.1", b"b"})),
    NameFilter(frozenset({b"a", b"c"}), (b"b",)),
]


@pytest.mark.parametrize(("one", "other"), [*product(FILTERS, FILTERS)])
def test_a_filter_within_another_shows_what_both_show(one: NameFilter, other: NameFilter) -> None:
    both = one.within(other)
    assert [name for name in NAMES if both.shows(name)] == [
        name for name in NAMES if one.shows(name) and other.shows(name)
    ]
    assert one.within(None) == one


@pytest.mark.parametrize(("one", "other"), [*product(FILTERS, FILTERS)])
def test_a_filter_covers_one_within_it(one: NameFilter, other: NameFilter) -> None:
    assert one.covers(one.within(other))
    assert not one.covers(other) or one.within(other).covers(other)
    if one.covers(other):
        assert [name for name in NAMES if other.shows(name) and not one.shows(name)] == []


def test_a_filter_covers_no_more_than_it_shows() -> None:
    everything, some = NameFilter(prefixes=(b"",)), NameFilter(prefixes=(b"a.",))
    assert (everything.covers(some), some.covers(everything)) == (True, False)
    assert some.covers(NameFilter(frozenset({b"a.1"}))) is True
    assert some.covers(NameFilter(frozenset({b"b"}))) is False
    assert everything.covers(NameFilter(frozenset({b"__push"}))) is False
