"""Filters: what is none is refused, and the place is named."""

import json
from typing import Any

import pytest

from headgate.app.wire.filters import COLUMNS_MAX, Selection, parse_filter
from headgate.app.wire.problems import GatewayError
from headgate.engine.limits import FILTER_BYTES_MAX, FILTER_NODES_MAX

BAD: list[tuple[Any, str]] = [
    (1, ""),
    ({}, ""),
    ({"exact": {"a": "1"}, "prefix": {"a": "1"}}, ""),
    ({"equals": {"a": "1"}}, "/equals"),
    ({"exact": {}}, "/exact"),
    ({"exact": {"a": 1}}, "/exact/a"),
    ({"exact": ["a"]}, "/exact"),
    ({"prefix": {"a/b": None}}, "/prefix/a~1b"),
    ({"present": []}, "/present"),
    ({"present": [1]}, "/present"),
    ({"range": {"a": 1}}, "/range/a"),
    ({"range": {"a": {"above": 1}}}, "/range/a"),
    ({"range": {"a": {"gt": 1, "ge": 1}}}, "/range/a"),
    ({"range": {"a": {"gt": "1"}}}, "/range/a/gt"),
    ({"range": {"a": {"gt": True}}}, "/range/a/gt"),
    ({"all": []}, "/all"),
    ({"any": {"exact": {"a": "1"}}}, "/any"),
    ({"any": [{"exact": {"a": "1"}}, 5]}, "/any/1"),
    ({"not": [{"not": {"not": 7}}]}, "/not/0/not/not"),
]


@pytest.mark.parametrize(("value", "place"), BAD)
def test_what_is_no_filter_is_refused_where_it_stands(value: Any, place: str) -> None:
    with pytest.raises(GatewayError) as refused:
        parse_filter(json.dumps(value), pointer="/query/filter")

    assert refused.value.code == "invalid_request"
    assert refused.value.pointer == f"/query/filter{place}"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "NaN",
        json.dumps({"exact": {"a": "x" * FILTER_BYTES_MAX}}),
        json.dumps([{"present": "a"}] * FILTER_NODES_MAX),
        json.dumps({"exact": {str(n): "" for n in range(FILTER_NODES_MAX + 1)}}),
        "[" * 1000 + "]" * 1000,
    ],
    ids=["cut", "no JSON", "long", "many", "many members", "deep"],
)
def test_a_filter_has_bounds(text: str) -> None:
    with pytest.raises(GatewayError, match=r"JSON|at most|recursion"):
        parse_filter(text, pointer="/query/filter")


@pytest.mark.parametrize("columns", ["[1]", '["a"', ",".join("a" * (COLUMNS_MAX + 1))])
def test_columns_are_names(columns: str) -> None:
    with pytest.raises(GatewayError) as refused:
        Selection.parse(None, columns)

    assert refused.value.pointer == "/query/columns"
