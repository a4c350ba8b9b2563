"""Plain commits are read as the models read them, or left to these."""

import json
from typing import Any

import pytest

from headgate.app.wire.plain_commits import plain_commit
from headgate.app.wire.problems import GatewayError
from headgate.app.wire.schemas.commits import CommitInput

APPEND = {"append": {"stream": "out", "entries": [{"fields": {"n": "ü"}}]}}
OWN = {"stream": "in", "group": "g", "ids": ["1-0", "2-1"]}

PLAIN: list[list[Any]] = [
    [APPEND],
    [APPEND, {"ack": OWN}, {"ack": {**OWN, "deliveries": [1, 2]}}],
    [{"append": {"stream": "out", "entries": [{"fields": {"n": "1"}, "delay_ms": 5}] * 3}}],
]

OTHERS: list[list[Any]] = [
    [],
    [{}],
    [{**APPEND, "ack": OWN}],
    [{"append": None}],
    [{"append": {"stream": "", "entries": [{"fields": {"n": "1"}}]}}],
    [{"append": {"stream": "out", "entries": []}}],
    [{"append": {"stream": "out", "entries": [{"fields": {}}]}}],
    [{"append": {"stream": "out", "entries": [{"fields": {"n": "1"}, "id": "5-0"}]}}],
    [{"ack": {**OWN, "ids": []}}],
    [{"ack": {**OWN, "ids": ["x"]}}],
    [{"ack": {**OWN, "group": "a/b"}}],
    [{"ack": {**OWN, "deliveries": [1]}}],
    [{"ack": {**OWN, "deliveries": [1, -1]}}],
    [{"cancel": {"name": "t"}}],
]


def body_of(steps: list[Any], **more: Any) -> bytes:
    return json.dumps({"consumer": "w", "steps": steps, **more}).encode()


@pytest.mark.parametrize("steps", PLAIN)
def test_a_plain_commit_is_what_the_model_makes_of_it(steps: list[Any]) -> None:
    body = body_of(steps)
    plain, model = plain_commit(body), CommitInput.model_validate_json(body)
    assert plain is not None
    assert plain.to_request(b"w", b"p", b"k") == model.to_request(b"w", b"p", b"k")
    for number, _ in enumerate(steps):
        location = ("steps", number, "drafts", 0)
        assert plain.place(location) == model.place(location)
    with pytest.raises(GatewayError, match="names another consumer"):
        plain.to_request(b"another")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", *map(body_of, OTHERS), body_of([APPEND], x=1)])
def test_any_other_is_left_to_the_model(body: bytes) -> None:
    assert plain_commit(body) is None
