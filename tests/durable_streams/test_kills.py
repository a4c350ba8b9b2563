"""Frontends of others, unmodified, over a gateway that is killed and started again meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.processes.gateway import Gateway, no_gateway_left
from tests.sdk.program import Program, running_program
from tests.sdk.workshop import node_modules, tool

__all__ = ["no_gateway_left"]

NPM = Path(__file__).parent / "npm"


async def answers_of(script: str, data_dir: Path, *words: str) -> dict[str, Any]:
    """Run a session that says when the gateway is to be killed and started; returns its answers."""
    node_modules(NPM)
    gateway = await Gateway.start(data_dir)
    program = running_program(tool("node"), NPM / script, gateway.url, *words, folder=NPM)
    async with program as session:
        while True:
            match await next_line(session):
                case {"act": "kill"}:
                    await gateway.kill()
                case {"act": "start"}:
                    gateway = await Gateway.start(data_dir, {"port": gateway.port})
                case {"answers": dict() as answers}:
                    await gateway.stop()
                    return answers
            await session.write_line("done")


async def next_line(session: Program) -> dict[str, Any]:
    said = len(session.lines)
    await session.until(lambda: len(session.lines) > said)
    return session.lines[-1]


@pytest.mark.long
async def test_a_chat_of_the_ai_sdk_resumes_and_stops(tmp_path: Path) -> None:
    question = ["user", "Is it there?"]
    stopped = [question, ["assistant", "No word is "]]
    whole = [question, ["assistant", "No word is lost, and none comes twice."]]
    assert await answers_of("aisdk.mjs", tmp_path) == {
        "reload": [whole, whole],
        "kill": [whole, whole],
        "stopped": [["ready", "No word is "], ["ready", "No word is lost, and "]],
        "stop": [whole, whole],
        "stop_all": [stopped, stopped, stopped],
    }


@pytest.mark.parametrize(
    ("seed", "edits", "kills"), [(1, 300, 1), pytest.param(2, 10_000, 5, marks=pytest.mark.long)]
)
async def test_documents_of_yjs_are_equal_after_random_edits(
    tmp_path: Path, seed: int, edits: int, kills: int
) -> None:
    words = map(str, (seed, edits, kills))
    assert await answers_of("yjs.mjs", tmp_path, *words) == {"isEqual": True}
