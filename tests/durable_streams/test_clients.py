"""Clients of the protocol, unmodified: that of its authors, and a transport of an AI frontend."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.clients.programs import run
from tests.processes.gateway import GatewayProcess
from tests.sdk.workshop import node_modules

NPM = Path(__file__).parent / "npm"


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    gateway = GatewayProcess.started(":memory:")
    yield gateway
    gateway.terminate()


def answers_of(script: str, gateway: GatewayProcess) -> dict[str, Any]:
    """Run a session with the gateway; returns what each of its steps was answered."""
    node_modules(NPM)
    outcome = run("node", str(NPM / script), gateway.url)
    assert outcome.code == 0, outcome.errors
    answers: dict[str, Any] = json.loads(outcome.output)
    return answers


def entries_of(stream: str, gateway: GatewayProcess) -> list[dict[str, str]]:
    """Return the fields of the entries of a stream."""
    answer = httpx.get(f"{gateway.url}/v1/streams/{stream}/entries", params={"start": "-"})
    return [entry["fields"] for entry in answer.json()["entries"]]


def test_the_client_of_the_authors_works_unmodified(gateway: GatewayProcess) -> None:
    assert answers_of("client.mjs", gateway) == {
        "type": "application/json",
        "all": [*range(1, 101)],
        "resumed": [*range(51, 101)],
        "sse": {"came": [*range(51, 82)], "ended": True},
        "long-poll": {"came": [*range(51, 82)], "ended": False},
        "closed": True,
        "refused": 409,
        "fenced": ["StaleEpochError", 1],
        "text": "Grüße\n and\r\nmore",
        "text_live": "Grüße\n and\r\nmore",
        "deleted": True,
    }
    assert entries_of("client:sse", gateway) == [{"n": str(n)} for n in range(1, 82)]


def test_a_chat_over_the_transport_for_tanstack_goes_on_without_loss(
    gateway: GatewayProcess,
) -> None:
    question, answer = ["user", "Is it there?"], "No word is lost, and none comes twice."
    assert answers_of("tanstack.mjs", gateway) == {
        "empty": [],
        "reloaded": [question, ["assistant", "No word is "]],
        "ended": True,
        "first": answer,
        "behind": "lost, and none comes twice.",
        "later": [question, ["assistant", answer]],
    }
    texts = [json.loads(fields["json"]) for fields in entries_of("chats:42", gateway)[:2]]
    assert [text["type"] for text in texts] == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]
