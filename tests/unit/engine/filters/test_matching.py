"""Matching: a filter lets through what an obvious implementation does, and needs bytes of it."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.filters import Matcher, Matchers, matcher_of, needed_bytes, read_filter
from headgate.engine.limits import CONDITIONS_KEPT_MAX
from headgate.engine.packing import encode_entries
from tests.filter_cases import fields, filters, holds


@given(st.lists(fields, min_size=1, max_size=8), filters)
def test_what_matches_is_let_through(entries: list[tuple[bytes, ...]], condition: Any) -> None:
    matcher = matcher_of(json.dumps(condition))

    assert [matcher.matches(entry) for entry in entries] == [
        holds(condition, dict(zip(entry[::2], entry[1::2], strict=True))) for entry in entries
    ]


def test_many_orders_of_names_are_told_apart() -> None:
    matcher = matcher_of('{"exact":{"x":"1"}}')
    for count in (*range(200), 1_000):
        before = tuple(part for n in range(count) for part in (b"%d" % n, b"0"))
        assert matcher.matches((*before, b"x", b"1"))
        assert not matcher.matches((*before, b"x", b"1", b"x", b"2"))
        assert not matcher.matches((*before, b"y", b"1"))


def test_a_value_of_very_many_digits_is_no_number() -> None:
    matcher = matcher_of('{"range":{"n":{"ge":0}}}')

    assert matcher.matches((b"n", b"9" * 1_000))
    assert not matcher.matches((b"n", b"9" * 1_001))


def test_long_names_are_told_apart_and_not_kept() -> None:
    matcher = matcher_of('{"exact":{"x":"long names"}}')
    tracemalloc.start()
    try:
        for number in range(64):
            name = b"%03d" % number * 100_000
            assert matcher.matches((name, b"", b"x", b"long names"))
            assert not matcher.matches((name, b"", b"y", b"long names"))
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 2_000_000


def test_filters_that_are_kept_ready_have_a_bounded_number_of_conditions() -> None:
    matchers, conditions = Matchers(), [{"exact": {f"n{at}": ""}} for at in range(62)]
    texts = [json.dumps({"any": [*conditions, {"present": [f"{n}"]}]}) for n in range(1_000)]
    for text in texts:
        assert matchers.of(text).matches((b"n7", b""))
        assert matchers.condition_count <= CONDITIONS_KEPT_MAX

    assert matchers.of(texts[-1]) is matchers.of(texts[-1])


def test_the_orders_of_names_are_kept_once_for_all_filters() -> None:
    matchers = [Matcher(read_filter(f'{{"exact":{{"{n}":"1"}}}}')) for n in range(200)]
    entries = [tuple(b"%d %d" % (at, n) for n in range(500)) for at in range(64)]
    tracemalloc.start()
    try:
        for entry in entries:
            assert not any(matcher.matches(entry) for matcher in matchers)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 4_000_000


FIELDS = (b"kind", b"order", b"site", b"berlin")


@pytest.mark.parametrize(
    "text",
    [
        '{"exact":{"kind":"order"}}',
        '{"prefix":{"site":"ber"}}',
        '{"present":["site"]}',
        '{"any":[{"exact":{"kind":"bill"}},{"exact":{"site":"berlin"}}]}',
        '{"all":[{"exact":{"kind":"order"}},{"suffix":{"site":"lin"}}]}',
        '{"not":{"exact":{"kind":"bill"}}}',
    ],
)
def test_an_entry_that_matches_has_them(text: str) -> None:
    assert matcher_of(text).matches(FIELDS)
    needed, packed = needed_bytes(read_filter(text)), encode_entries([FIELDS])

    assert not needed or any(part in packed for part in needed)


def test_a_name_is_not_enough_for_a_value() -> None:
    packed = encode_entries([FIELDS])

    assert not any(part in packed for part in needed_bytes(read_filter('{"exact":{"kind":"x"}}')))
