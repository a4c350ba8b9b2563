"""Bodies of requests: a trim, and what a patch of a policy leaves."""

from typing import Any

import pytest

from headgate.app.wire.schemas.entries import Trim
from headgate.app.wire.schemas.settings import Policy
from headgate.engine.config import NO_POLICY
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


WHOLE = {
    "claim_idle_ms": 1000,
    "max_deliveries": 3,
    "dead_letter_stream": "dead",
    "backoff_ms": [10, 100],
    "max_pending": 50,
    "on_disconnect": "keep",
    "consumer_ttl_ms": 60_000,
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_patch_removes_what_is_null_and_leaves_the_rest(name: str) -> None:
    policy = Policy.model_validate(WHOLE).to_engine()

    changed = Policy.model_validate({name: None}).to_patch().applied_to(policy)

    left = {other: value for other, value in WHOLE.items() if other != name}
    assert Policy.wire(changed) == left
    assert Policy().to_patch().applied_to(NO_POLICY) == NO_POLICY
