"""Structure: JSON that no request can have is refused, and where it is too large is named."""

import json
from typing import Any

import pytest

from headgate.app.wire import structure
from headgate.app.wire.problems import GatewayError

OBJECT = {str(number): number for number in range(structure.MEMBERS_MAX)}
ARRAY = [0] * structure.ITEMS_MAX


@pytest.mark.parametrize("value", [None, 1, "a", {}, [], OBJECT, ARRAY, [{"a": [OBJECT, ARRAY]}]])
def test_what_a_request_may_have_passes(value: Any) -> None:
    structure.check_members(value)


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (OBJECT | {"more": 1}, "/body"),
        ([*ARRAY, 0], "/body"),
        ([1, {"a/b": [*ARRAY, 0]}], "/body/1/a~1b"),
        ({"a": [[], OBJECT | {"more": 1}]}, "/body/a/1"),
    ],
)
def test_what_is_too_large_is_named(value: Any, pointer: str) -> None:
    with pytest.raises(GatewayError) as refused:
        structure.check_members(value)

    assert (refused.value.code, refused.value.pointer) == ("invalid_request", pointer)


@pytest.mark.parametrize(
    "value",
    [
        ["," * structure.VALUES_MAX * 2],
        ['"' * structure.VALUES_MAX * 3],
        ["\\" * structure.DENSE_BYTES_MIN, *range(structure.VALUES_MAX - 1)],
        ["a"] * structure.VALUES_MAX,
    ],
)
def test_a_long_text_may_have_few_values(value: list[Any]) -> None:
    structure.check_dense(json.dumps(value).encode())


@pytest.mark.parametrize(
    "value", [["ab"] * (structure.VALUES_MAX + 1), [0] * (structure.VALUES_MAX + 2)]
)
def test_a_text_of_too_many_values_is_refused(value: list[Any]) -> None:
    with pytest.raises(GatewayError, match="values at once"):
        structure.check_dense(json.dumps(value).encode())
