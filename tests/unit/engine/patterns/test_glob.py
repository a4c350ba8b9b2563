"""Globs end, have bounds, and tell their literal prefix. A real redis-server says what they fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.errors import Invalid
from headgate.engine.patterns import PATTERN_BYTES_MAX, literal_prefix, matcher

ALPHABET = b"ab*?[]^-\\"

patterns = st.lists(st.sampled_from(ALPHABET), max_size=12).map(bytes)
names = st.lists(st.sampled_from(b"ab]^-\\*"), max_size=8).map(bytes)


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(b"*a" * 40, id="stars"),
        pytest.param(b"*[a-z]" * 100 + b"b", id="classes"),
        pytest.param(b"*?" * 100 + b"b", id="any"),
        pytest.param(b"*" + b"a" * 500 + b"b", id="long"),
        pytest.param(b"a*" * 300 + b"b", id="no end"),
    ],
)
def test_a_glob_of_many_stars_ends(pattern: bytes) -> None:
    matches = matcher(pattern)
    assert not matches(b"a" * 1000 + b"c")


def test_a_glob_has_a_greatest_length() -> None:
    assert matcher(b"a" * PATTERN_BYTES_MAX)(b"a" * PATTERN_BYTES_MAX)
    with pytest.raises(Invalid, match="1024 bytes"):
        matcher(b"a" * (PATTERN_BYTES_MAX + 1))


@given(patterns, names)
def test_names_that_match_begin_with_the_literal_prefix(pattern: bytes, name: bytes) -> None:
    assert not matcher(pattern)(name) or name.startswith(literal_prefix(pattern))


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        (b"orders.*", b"orders."),
        (b"orders", b"orders"),
        (b"*", b""),
        (b"a?c", b"a"),
        (b"a[bc]", b"a"),
        (b"a\\*b*", b"a*b"),
        (b"a\\", b"a\\"),
    ],
)
def test_a_literal_prefix_ends_at_the_first_special_byte(pattern: bytes, prefix: bytes) -> None:
    assert literal_prefix(pattern) == prefix
