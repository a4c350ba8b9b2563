"""Globs against a plain reading of Redis's own matcher."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.errors import Invalid
from headgate.engine.patterns.glob import PATTERN_BYTES_MAX, literal_prefix, matcher

ALPHABET = b"ab*?[]^-\\"

patterns = st.lists(st.sampled_from(ALPHABET), max_size=12).map(bytes)
names = st.lists(st.sampled_from(b"ab]^-\\*"), max_size=8).map(bytes)


def fits(pattern: bytes, name: bytes) -> bool:
    """Return the result of `stringmatchlen` of Redis, written as it is there."""
    while pattern and name:
        head, remaining = pattern[:1], pattern[1:]
        if head == b"*":
            remaining = remaining.lstrip(b"*")
            return not remaining or any(fits(remaining, name[at:]) for at in range(len(name)))
        if head == b"[":
            is_member, remaining = in_class(remaining, name[0])
            if not is_member:
                return False
        elif head != b"?":
            if head == b"\\" and remaining:
                head, remaining = remaining[:1], remaining[1:]
            if head != name[:1]:
                return False
        pattern, name = remaining, name[1:]
        if not name:
            pattern = pattern.lstrip(b"*")
    return not pattern and not name


def in_class(pattern: bytes, byte: int) -> tuple[bool, bytes]:
    is_negated, is_member = pattern[:1] == b"^", False
    pattern = pattern[is_negated:]
    while pattern and pattern[:1] != b"]":
        if pattern[:1] == b"\\" and len(pattern) >= 2:
            is_member |= pattern[1] == byte
            pattern = pattern[2:]
        elif len(pattern) >= 3 and pattern[1:2] == b"-":
            low, high = sorted((pattern[0], pattern[2]))
            is_member |= low <= byte <= high
            pattern = pattern[3:]
        else:
            is_member |= pattern[0] == byte
            pattern = pattern[1:]
    return is_member is not is_negated, pattern[1:]


@given(patterns, names)
def test_a_glob_fits_what_it_fits_in_redis(pattern: bytes, name: bytes) -> None:
    assert matcher(pattern)(name) is (pattern == b"*" or fits(pattern, name))


@given(st.binary(max_size=12), st.binary(max_size=6))
def test_a_glob_of_any_bytes_is_read(pattern: bytes, name: bytes) -> None:
    assert matcher(pattern)(name) is (pattern == b"*" or fits(pattern, name))


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
