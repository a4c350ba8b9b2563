"""Names, ids, filters and JSON of requests: what is none is refused, and its place is named."""

import json
from typing import Any

import pytest

from headgate.app.wire import structure
from headgate.app.wire.filters import COLUMNS_MAX, Selection, parse_filter
from headgate.app.wire.ids import parse_id, parse_ids
from headgate.app.wire.names import text_of
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import EntryId
from headgate.engine.limits import FILTER_BYTES_MAX, FILTER_NODES_MAX, U64_MAX


def test_bytes_that_are_no_text_can_be_shown() -> None:
    assert text_of(b"a\xff") == "a\ufffd"


U64_MAX_TEXT = str(U64_MAX)


@pytest.mark.parametrize(
    "texts",
    [
        *([], ["1-2"], ["1-2", "3-4", "01-002"], ["5", "6-7"]),
        *([f"{U64_MAX_TEXT}-{U64_MAX_TEXT}", "1-1"], ["9999999999999999999-9999999999999999999"]),
    ],
)
def test_many_are_read_as_each_is(texts: list[str]) -> None:
    ids = parse_ids(texts)

    assert ids == [parse_id(text, field="/body/ids/0") for text in texts]
    assert all(isinstance(entry_id, EntryId) for entry_id in ids)


@pytest.mark.parametrize(
    "wrong",
    [
        *("", " ", "1-2 3-4", "1-2 ", "1-", "-1", "1--2", "1-2-3", f"{U64_MAX + 1}-0", "\u0661-1"),
        "1-2\n",
    ],
)
@pytest.mark.parametrize("others", [[], ["1-1"], ["1-1", "2-2"]])
def test_the_one_that_is_wrong_is_named(wrong: str, others: list[str]) -> None:
    with pytest.raises(GatewayError) as refused:
        parse_ids([*others, wrong, "9-9"])

    assert refused.value.pointer == f"/body/ids/{len(others)}"


BAD: list[tuple[Any, str]] = [
    *((1, ""), ({}, ""), ({"exact": {"a": "1"}, "prefix": {"a": "1"}}, "")),
    *(({"equals": {"a": "1"}}, "/equals"), ({"exact": {}}, "/exact")),
    *(({"exact": {"a": 1}}, "/exact/a"), ({"exact": ["a"]}, "/exact")),
    *(({"prefix": {"a/b": None}}, "/prefix/a~1b"), ({"present": []}, "/present")),
    *(({"present": [1]}, "/present"), ({"range": {"a": 1}}, "/range/a")),
    ({"range": {"a": {"above": 1}}}, "/range/a"),
    ({"range": {"a": {"gt": 1, "ge": 1}}}, "/range/a"),
    ({"range": {"a": {"gt": "1"}}}, "/range/a/gt"),
    *(({"range": {"a": {"gt": True}}}, "/range/a/gt"), ({"all": []}, "/all")),
    *(({"any": {"exact": {"a": "1"}}}, "/any"), ({"any": [{"exact": {"a": "1"}}, 5]}, "/any/1")),
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
        *("{", "NaN", json.dumps({"exact": {"a": "x" * FILTER_BYTES_MAX}})),
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


OBJECT = {str(number): number for number in range(structure.MEMBERS_MAX)}
ARRAY = [0] * structure.ITEMS_MAX


@pytest.mark.parametrize("value", [None, 1, "a", {}, [], OBJECT, ARRAY, [{"a": [OBJECT, ARRAY]}]])
def test_what_a_request_may_have_passes(value: Any) -> None:
    structure.check_members(value)


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        *((OBJECT | {"more": 1}, "/body"), ([*ARRAY, 0], "/body")),
        ([1, {"a/b": [*ARRAY, 0]}], "/body/1/a~1b"),
        ({"a": [[], OBJECT | {"more": 1}]}, "/body/a/1"),
    ],
)
def test_what_is_too_large_is_named(value: Any, pointer: str) -> None:
    with pytest.raises(GatewayError) as refused:
        structure.check_members(value)

    assert (refused.value.code, refused.value.pointer) == ("invalid_request", pointer)


def test_a_long_text_may_have_few_values_and_no_more() -> None:
    for few in (
        ["," * structure.VALUES_MAX * 2],
        ['"' * structure.VALUES_MAX * 3],
        ["\\" * structure.DENSE_BYTES_MIN, *range(structure.VALUES_MAX - 1)],
        ["a"] * structure.VALUES_MAX,
    ):
        structure.check_dense(json.dumps(few).encode())
    for many in ["ab"] * (structure.VALUES_MAX + 1), [0] * (structure.VALUES_MAX + 2):
        with pytest.raises(GatewayError, match="values are allowed"):
            structure.check_dense(json.dumps(many).encode())
