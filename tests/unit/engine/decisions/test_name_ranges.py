"""A filter of names: it shows the same as a look at each name would show."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.engine.commands import StreamCreated, StreamDeleted
from headgate.engine.config import StreamConfig
from headgate.engine.decisions.name_ranges import parts_of, shown_by, shows
from headgate.engine.decisions.table import decide
from headgate.engine.errors import Invalid
from headgate.engine.limits import NAME_RANGES_AT_ONCE_MAX
from headgate.engine.requests.keyspace import CountStreams, ListNames, NameFilter, ScanNames
from headgate.engine.requests.streams import CreateStream, ListStreams
from headgate.engine.state.keyspace import Keyspace
from tests.unit.driver import Driver

# Few bytes, so that names are prefixes of each other; nothing follows b"\xff" in byte order.
NAMES = st.binary(max_size=4).map(lambda raw: bytes(b"\x00ab\xff"[byte % 4] for byte in raw))
FILTERS = st.builds(NameFilter, st.frozensets(NAMES), st.lists(NAMES, max_size=4).map(tuple))
SETS = st.frozensets(NAMES, max_size=30)


def keyspace_of(names: frozenset[bytes]) -> Keyspace:
    keyspace = Keyspace()
    for name in names:
        keyspace.apply(StreamCreated(name, keyspace.next_epoch(1), StreamConfig()))
    return keyspace


def shown(names: frozenset[bytes], only: NameFilter | None) -> list[bytes]:
    """Return the names that pass a filter, by a look at each name."""
    return sorted(
        name
        for name in names
        if only is None or name in only.names or name.startswith(only.prefixes)
    )


@given(SETS, FILTERS | st.none())
@example(frozenset({b"\xff\xff", b"\xfe"}), NameFilter(prefixes=(b"\xff",)))
@example(frozenset({b"a"}), NameFilter(frozenset({b"a"}), (b"a", b"a")))
@example(frozenset({b"a"}), NameFilter())
def test_shown_names_are_listed_and_counted(
    names: frozenset[bytes], only: NameFilter | None
) -> None:
    keyspace = keyspace_of(names)

    ranges = shown_by(only)
    assert [name for name in sorted(names) if shows(ranges, name)] == shown(names, only)
    assert decide(keyspace, ListNames(only), 1).reply == shown(names, only)
    assert decide(keyspace, CountStreams(only=only), 1).reply == len(shown(names, only))


@given(SETS, NAMES, NAMES | st.none(), st.integers(0, 9), FILTERS | st.none())
def test_a_page_of_streams_is_full_as_long_as_there_are_streams_to_show(
    names: frozenset[bytes], prefix: bytes, after: bytes | None, limit: int, only: NameFilter | None
) -> None:
    infos = decide(keyspace_of(names), ListStreams(prefix, after, limit, only), 1).reply

    expected = [
        name
        for name in shown(names, only)
        if name.startswith(prefix) and (after is None or name > after)
    ]
    assert [info.name for info in infos] == expected[:limit]


@given(SETS, FILTERS | st.none(), st.integers(1, 5), st.data())
def test_a_scan_is_not_disturbed_by_streams_that_are_not_shown(
    names: frozenset[bytes], only: NameFilter | None, count: int, data: st.DataObject
) -> None:
    keyspace, visited, cursor = keyspace_of(names), list[bytes](), 0
    for _ in range(len(names) + 1):
        page = decide(keyspace, ScanNames(cursor, count, only), 1).reply
        visited += page.names
        cursor = page.next_cursor
        if cursor == 0:
            break
        name = data.draw(NAMES)
        if not shown(frozenset({name}), only):
            if keyspace.find(name) is None:
                keyspace.apply(StreamCreated(name, keyspace.next_epoch(1), StreamConfig()))
            else:
                keyspace.apply(StreamDeleted(name))

    assert cursor == 0
    assert visited == shown(names, only)


@pytest.mark.parametrize("cursor", [3, 4, 2**64 - 1])
def test_a_cursor_behind_the_last_name_ends_the_scan(cursor: int) -> None:
    keyspace = keyspace_of(frozenset({b"a", b"b", b"c"}))
    for only in (None, NameFilter(prefixes=(b"",)), NameFilter(frozenset({b"a", b"c"}))):
        assert decide(keyspace, ScanNames(cursor, 2, only), 1).reply == ([], 0)


def large_filter() -> NameFilter:
    """Return a filter for several turns: names and prefixes, some of them twice."""
    texts = [b"%05d" % number for number in range(3 * NAME_RANGES_AT_ONCE_MAX)]
    return NameFilter(frozenset(texts[::3]), (*texts[1::3], *texts[::9]))


def test_the_parts_of_a_filter_show_the_same() -> None:
    only = large_filter()

    parts = parts_of(only)

    assert len(parts) == 2
    assert [names for part in parts for names in shown_by(part)] == shown_by(only)


async def test_a_large_filter_that_is_used_in_parts_shows_the_same() -> None:
    only, engine = large_filter(), Driver()
    names = frozenset(b"%05d" % number for number in range(0, 3 * NAME_RANGES_AT_ONCE_MAX, 7))
    for name in names:
        await engine.perform(CreateStream(name))
    expected = shown(names, only)
    last = len(expected) - 1

    assert await engine.perform(ListNames(only)) == expected
    assert await engine.perform(CountStreams(only=only)) == len(expected)
    assert await engine.perform(ScanNames(2, last - 2, only)) == (expected[2:last], last)
    assert await engine.perform(ScanNames(last, 9, only)) == (expected[last:], 0)
    for limit in (5, last, last + 1, last + 2):
        infos = await engine.perform(ListStreams(after=expected[0], limit=limit, only=only))
        assert [info.name for info in infos] == expected[1 : limit + 1]


async def test_a_large_filter_is_refused_in_a_transaction() -> None:
    [error] = await Driver().perform_all([ListNames(large_filter())])

    assert isinstance(error, Invalid)
