"""Removals: what a trim may say."""

from typing import Any

import pytest
from pydantic import ValidationError

from headgate.app.wire.problems import GatewayError
from headgate.app.wire.schemas.removals import Trim
from headgate.engine.entry import EntryId
from headgate.engine.requests.entries import References, TrimTo


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ({"max_length": 5}, TrimTo(5, None, False, None, References.KEEP)),
        (
            {"min_id": "7", "approximate": True, "limit": 0, "references": "acked"},
            TrimTo(None, EntryId(7, 0), True, 0, References.ACKED),
        ),
    ],
)
def test_a_trim_is_what_was_written(written: dict[str, Any], wanted: TrimTo) -> None:
    assert Trim.model_validate(written).to_request("/body") == wanted


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ({}, "give either max_length or min_id"),
        ({"max_length": 1, "min_id": "1-1"}, "give either max_length or min_id"),
        ({"max_length": 1, "limit": 5}, "limit is for approximate trims only"),
    ],
)
def test_a_trim_that_makes_no_sense_is_refused(written: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Trim.model_validate(written)


def test_a_bad_id_is_refused_where_it_stands() -> None:
    with pytest.raises(GatewayError) as refused:
        Trim(min_id="x", max_length=None).to_request("/body/trim")
    assert (refused.value.code, refused.value.pointer) == ("invalid_id", "/body/trim/min_id")
