"""Ids as clients write them: many are read as each by itself is."""

import pytest

from headgate.app.wire.ids import parse_id, parse_ids
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import EntryId
from headgate.engine.limits import U64_MAX

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
