"""Policies: between the wire and the engine."""

from typing import Any

import pytest

from headgate.app.wire.problems import GatewayError
from headgate.app.wire.schemas.settings import Policy
from headgate.engine.config import NO_POLICY

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
