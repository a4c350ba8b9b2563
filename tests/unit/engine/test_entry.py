"""Ids: parsing, order, neighbours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.entry import EntryId
from headgate.engine.errors import InvalidId
from headgate.engine.limits import U64_MAX

numbers = st.one_of(st.integers(0, 3), st.integers(0, U64_MAX), st.just(U64_MAX))
ids = st.builds(EntryId, numbers, numbers)


@pytest.mark.parametrize(
    "text",
    [
        *("", "-", "+", "2-", "-1", "1--1", "1-1-1", "(1-1", "*", "$", ">", "1.5", "abc"),
        *("1 -1", "1- ", "1_0", "٣", "²", "18446744073709551616", "0-18446744073709551616"),
        "0" * 127 + "7",
    ],
)
def test_a_text_that_is_no_id_is_refused_with_the_text_and_the_argument(text: str) -> None:
    with pytest.raises(InvalidId, match="is not an entry id") as refusal:
        EntryId.parse(text)
    assert refusal.value.text == text


@given(ids)
def test_an_id_reads_back_from_its_own_text(entry_id: EntryId) -> None:
    assert EntryId.parse(str(entry_id)) == entry_id


@given(ids)
def test_next_and_previous_are_the_nearest_neighbours(entry_id: EntryId) -> None:
    place = entry_id.ms * 2**64 + entry_id.seq
    following, before = entry_id.next(), entry_id.previous()
    assert following.ms * 2**64 + following.seq == min(place + 1, 2**128 - 1)
    assert before.ms * 2**64 + before.seq == max(place - 1, 0)
