import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.pipeline.offsets import (
    BEGINNING,
    SEQ_MAX,
    Id,
    OffsetError,
    Position,
    Range,
    before_ms,
    earlier,
    is_before,
    just_before,
    later,
    literal_prefix,
    offset_of,
    packed,
    parse_bounds,
    parse_id,
    parse_time,
    parts_of,
    positions_of,
    resolve,
)

numbers = st.integers(0, SEQ_MAX)
ids = st.builds(Id, numbers, numbers)
names = st.text(min_size=1, max_size=8)


@given(ids)
def test_an_id_is_read_as_it_is_written(entry_id: Id) -> None:
    assert parse_id(str(entry_id)) == entry_id


@given(ids, ids)
def test_ids_are_ordered_by_number_and_not_as_text(first: Id, second: Id) -> None:
    assert is_before(str(first), str(second)) == (first < second)
    assert {earlier(str(first), str(second)), later(str(first), str(second))} == {
        str(first),
        str(second),
    }
    assert not is_before(later(str(first), str(second)), earlier(str(first), str(second)))


@given(ids)
def test_nothing_is_between_an_id_and_the_one_before_it(entry_id: Id) -> None:
    before = just_before(entry_id)
    if entry_id == Id(0, 0):
        assert before == entry_id
    else:
        after = Id(before.ms, before.seq + 1) if before.seq < SEQ_MAX else Id(before.ms + 1, 0)
        assert after == entry_id


@pytest.mark.parametrize(
    "text", ["", "-", "1-", "-1", "1-2-3", "x", "1_0", " 1-0", "٣-0", f"{2**64}-0"]
)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(OffsetError, match="is no entry id"):
        parse_id(text)


@given(st.integers(0, 2**53))
def test_behind_a_time_come_its_entries_and_none_before_it(ms: int) -> None:
    after = before_ms(ms)
    assert is_before(after, f"{ms}-0") or ms == 0
    assert ms == 0 or not is_before(after, f"{ms - 1}-{SEQ_MAX}")


def test_a_time_is_milliseconds_or_iso_8601_in_utc() -> None:
    assert parse_time("1700000000000", "startingTimestamp") == 1_700_000_000_000
    assert parse_time("2023-11-14T22:13:20Z", "startingTimestamp") == 1_700_000_000_000
    assert parse_time("2023-11-14 22:13:20", "startingTimestamp") == 1_700_000_000_000
    assert parse_time("2023-11-15T00:13:20+02:00", "startingTimestamp") == 1_700_000_000_000
    with pytest.raises(OffsetError, match="startingTimestamp: 'soon'"):
        parse_time("soon", "startingTimestamp")
    with pytest.raises(OffsetError, match="before 1970"):
        parse_time("1969-01-01", "startingTimestamp")


def test_bounds_are_a_word_or_an_id_for_each_stream() -> None:
    assert parse_bounds(" Earliest ", "startingOffsets") == "earliest"
    assert parse_bounds("latest", "startingOffsets") == "latest"
    bounds = parse_bounds('{"a": "5", "b": "latest", "c": {"id": "7-1"}}', "startingOffsets")
    assert bounds == {"a": "5-0", "b": "latest", "c": "7-1"}


@pytest.mark.parametrize("text", ["newest", "[1]", "{", '{"a": 5}', '{"a": "x"}', '{"a": null}'])
def test_bounds_that_are_none_name_their_option(text: str) -> None:
    with pytest.raises(OffsetError, match="startingOffsets: "):
        parse_bounds(text, "startingOffsets")


def test_a_bound_means_an_id_of_each_stream() -> None:
    assert resolve("earliest", "a", last_id="9-0") == BEGINNING
    assert resolve("latest", "a", last_id="9-0") == "9-0"
    assert resolve({"a": "5-0"}, "a", last_id="9-0") == "5-0"
    assert resolve({"a": "5-0"}, "b", last_id="9-0", otherwise="latest") == "9-0"


@given(st.dictionaries(names, st.builds(Position, ids.map(str), st.none() | st.text(max_size=4))))
def test_an_offset_says_the_positions_it_was_made_of(positions: dict[str, Position]) -> None:
    assert positions_of(offset_of(positions)) == positions
    assert list(offset_of(positions)) == sorted(positions)


@pytest.mark.parametrize("offset", [{"a": 5}, {"a": {"offset": "1-0"}}, {"a": {"id": 5}}])
def test_a_checkpoint_of_something_else_is_refused(offset: dict[str, object]) -> None:
    with pytest.raises(OffsetError, match="no offset of this data source"):
        positions_of(offset)


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        ("orders-.*", "orders-"),
        ("orders-eu", "orders-eu"),
        ("orders?", "order"),
        ("a|b", ""),
        (".*", ""),
        ("a{2}", ""),
        (r"a\.b", "a"),
    ],
)
def test_what_names_of_a_pattern_begin_with(pattern: str, prefix: str) -> None:
    assert literal_prefix(pattern) == prefix


@given(st.lists(st.integers(0, 10**6), max_size=20), st.integers(1, 10**5), st.integers(1, 50))
def test_ranges_are_cut_into_enough_parts(
    counts: list[int], entries_max: int, parts_min: int
) -> None:
    parts, share = parts_of(counts, entries_max=entries_max, parts_min=parts_min)
    assert 1 <= share <= entries_max
    for count, number in zip(counts, parts, strict=True):
        assert number * share >= count
        assert (number == 0) == (count == 0)
    assert sum(parts) >= min(parts_min, sum(counts)) or share > 1


@given(st.lists(st.integers(0, 100), max_size=30), st.integers(1, 100))
def test_small_ranges_share_a_task_in_their_order(counts: list[int], share: int) -> None:
    ranges = [Range("s", f"{at}-0", f"{at + 1}-0", None, n) for at, n in enumerate(counts)]
    tasks = packed(ranges, share)
    assert [span for task in tasks for span in task] == ranges
    for task in tasks:
        assert len(task) == 1 or sum(max(span.entries, 1) for span in task) <= share
