"""Bodies of requests: what they mean, and the places of their faults."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from headgate.app.wire.problems import GatewayError
from headgate.app.wire.schemas.entries import EntryInput, Trim
from headgate.app.wire.schemas.settings import Policy
from headgate.engine.config import NO_POLICY
from headgate.engine.entry import Draft, EntryId, PartialId
from headgate.engine.requests.entries import References, TrimTo


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


def test_a_trim_that_makes_no_sense_is_refused() -> None:
    for more, why in (
        *(({}, "give either max_length or min_id"), ({"limit": 5}, "give either")),
        ({"max_length": 1, "min_id": "1-1"}, "give either max_length or min_id"),
        ({"max_length": 1, "limit": 5}, "limit is for approximate trims only"),
    ):
        with pytest.raises(ValidationError, match=why):
            Trim.model_validate(more)
    with pytest.raises(GatewayError) as refused:
        Trim(min_id="x", max_length=None).to_request("/body/trim")
    assert (refused.value.code, refused.value.pointer) == ("invalid_id", "/body/trim/min_id")


WHOLE = {
    "claim_idle_ms": 1000,
    "max_deliveries": 3,
    "dead_letter_stream": "dead",
    "backoff_ms": [10, 100],
    "max_pending": 50,
    "on_disconnect": "keep",
    "consumer_ttl_ms": 60_000,
}


@pytest.mark.parametrize("written", [{}, WHOLE, *({name: WHOLE[name]} for name in WHOLE)])
def test_a_policy_is_read_back_as_it_was_written(written: dict[str, Any]) -> None:
    policy = Policy.model_validate(written).to_engine()

    assert Policy.wire(policy) == written


@pytest.mark.parametrize("name", WHOLE)
def test_a_patch_removes_what_is_null_and_leaves_the_rest(name: str) -> None:
    policy = Policy.model_validate(WHOLE).to_engine()

    changed = Policy.model_validate({name: None}).to_patch().applied_to(policy)

    left = {other: value for other, value in WHOLE.items() if other != name}
    assert Policy.wire(changed) == left
    assert Policy().to_patch().applied_to(NO_POLICY) == NO_POLICY


def test_a_bad_name_of_the_dead_letter_stream_is_refused_where_it_stands() -> None:
    with pytest.raises(GatewayError) as refused:
        Policy.model_validate({"dead_letter_stream": "a/b"}).to_engine()
    assert refused.value.pointer == "/body/policy/dead_letter_stream"
