"""Entries: the forms of an append, and the places of its faults."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from headgate.app.wire.problems import GatewayError
from headgate.app.wire.schemas.entries import EntryInput
from headgate.engine.entry import Draft, EntryId, PartialId


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ({"fields": {"a": "1"}}, Draft(None, (b"a", b"1"))),
        ({"fields": {"a": "1"}, "id": "5-*"}, Draft(PartialId(5), (b"a", b"1"))),
        ({"fields": {"a": "1"}, "id": "5-6"}, Draft(EntryId(5, 6), (b"a", b"1"))),
        ({"pairs": [["a", "1"], ["a", "2"]]}, Draft(None, (b"a", b"1", b"a", b"2"))),
        ({"fields": {"a": "/w=="}, "base64": ["a"]}, Draft(None, (b"a", b"\xff"))),
        ({"fields": {"/w==": "1"}, "names_base64": True}, Draft(None, (b"\xff", b"1"))),
    ],
)
def test_an_entry_is_what_was_written(written: dict[str, Any], wanted: Draft) -> None:
    assert EntryInput.model_validate(written).to_draft() == wanted


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ({}, "give either fields or pairs"),
        ({"fields": {"a": "1"}, "pairs": [["a", "1"]]}, "give either fields or pairs"),
        ({"fields": {}}, "at least one field"),
        ({"pairs": [["a", "1", "2"]]}, "at most 2 items"),
        ({"fields": {"a": "1"}, "base64": ["b"]}, "base64 names 'b', and there is no such field"),
        ({"fields": {"a": "1"}, "ident": "1-1"}, "Extra inputs are not permitted"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused(written: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        EntryInput.model_validate(written)


@pytest.mark.parametrize(
    ("entry", "pointer"),
    [
        ({"fields": {"a": "?"}, "base64": ["a"]}, "/body/fields/a"),
        ({"fields": {"a": "YQ"}, "base64": ["a"]}, "/body/fields/a"),
        ({"fields": {"a": "YQ==\n"}, "base64": ["a"]}, "/body/fields/a"),
        ({"fields": {"a": "ä"}, "base64": ["a"]}, "/body/fields/a"),
        ({"fields": {"~/": "?"}, "base64": ["~/"]}, "/body/fields/~0~1"),
        ({"fields": {"?": "a"}, "names_base64": True}, "/body/fields/?"),
        ({"pairs": [["a", "YQ=="], ["a", "?"]], "base64": ["a"]}, "/body/pairs/1"),
    ],
)
def test_what_is_no_base64_is_refused_where_it_stands(entry: dict[str, Any], pointer: str) -> None:
    with pytest.raises(GatewayError) as refused:
        EntryInput.model_validate_json(json.dumps(entry)).to_draft()

    assert (refused.value.code, refused.value.pointer) == ("invalid_request", pointer)
