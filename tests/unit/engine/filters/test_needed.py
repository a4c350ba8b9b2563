"""Needed bytes: packed entries with a match have some of them."""

from __future__ import annotations

import pytest

from headgate.engine.filters.matching import matcher_of
from headgate.engine.filters.needed import needed_bytes
from headgate.engine.filters.reading import read_filter
from headgate.engine.packing import encode_entries

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
