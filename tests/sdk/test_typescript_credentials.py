"""Pages with credentials that are good for minutes: tickets, which their server asks for."""

import json
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headgate.app.auth.grants import Grant, Verb
from tests.api.auth.secured import Secured, secured
from tests.sdk.program import Program, running_program
from tests.sdk.typescript import program_folder
from tests.sdk.workshop import output_of, tool

TALK = Grant(streams=["talk"], do=[Verb.READ, Verb.APPEND, Verb.MANAGE])
QUIET = {"NODE_NO_WARNINGS": "1"}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Secured]:
    async with secured(tmp_path) as gateway:
        await gateway.admin.put("/v1/streams/talk", json={})
        yield gateway


@pytest.fixture
def javascript(tmp_path: Path) -> Path:
    return program_folder(tmp_path / "javascript")


async def until_more_than(program: Program, what: str, count: int) -> None:
    await program.until(lambda: len(program.all(what)) > count)


@pytest.mark.parametrize("transport", ["socket", "events"])
async def test_a_page_goes_on_from_one_ticket_to_the_next(
    gateway: Secured, javascript: Path, transport: str
) -> None:
    words = ("tickets.mjs", gateway.live.url, transport, "tickets", await gateway.key(TALK))
    async with running_program(tool("node"), *words, folder=javascript) as program:
        for done in range(3):
            await until_more_than(program, "token", 2 * done)
            await program.write_line("an entry")
            await until_more_than(program, "appended", done)
        ids = program.all("appended")
        for name in ("one", "other"):
            await until_more_than(program, name, len(ids) - 1)
        states = program.all("connection")
        await program.end()

    assert program.all("one") == program.all("other") == ids
    assert states == ["live", "live"] if transport == "socket" else "lost" not in states
    assert program.all("error") == []


@pytest.mark.parametrize("transport", ["socket", "events"])
async def test_a_page_whose_credentials_are_refused_is_told_once_and_gives_up(
    gateway: Secured, javascript: Path, transport: str
) -> None:
    words = ("tickets.mjs", gateway.live.url, transport, "refused", "none")
    async with running_program(tool("node"), *words, folder=javascript) as program:
        await program.until(lambda: program.all("connection").count("refused") == 2)
        await program.end()

    assert program.all("error") == ["unauthenticated"] * (1 if transport == "socket" else 2)
    assert len(program.all("token")) <= 3


async def asked(javascript: Path, how: str, away_s: int) -> dict[str, Any]:
    words = ("credentials.mjs", how, str(away_s))
    answer: dict[str, Any] = json.loads(
        await output_of(tool("node"), *words, folder=javascript, variables=QUIET)
    )
    return answer


async def test_requests_share_one_call_for_a_token(javascript: Path) -> None:
    answer = await asked(javascript, "throws", 0)
    assert len(answer["calls"]) == 1
    assert (answer["sent"], answer["outcomes"]) == (["Bearer token"], ["done"])


async def test_a_function_that_fails_is_called_again_after_growing_pauses(javascript: Path) -> None:
    """It is told once. Nothing is sent meanwhile, so every request may wait for it."""
    answer = await asked(javascript, "throws", 20)
    assert answer["told"] == [["token", "there is no token: Error: no session"]]
    assert (answer["sent"], answer["outcomes"]) == (["Bearer token"], ["done"])
    pauses = [after - before for before, after in pairwise(answer["calls"])]
    assert len(pauses) < 12
    assert max(pauses) > 4 * min(pauses)


@pytest.mark.parametrize("how", ["throws", "silent"])
async def test_a_function_that_returns_nothing_fails_what_waits_for_it(
    javascript: Path, how: str
) -> None:
    answer = await asked(javascript, how, 3600)
    reason = {"throws": "no session", "silent": "the token function does not answer"}[how]
    assert answer["outcomes"] == [f"there is no token: Error: {reason}"]
    assert answer["sent"] == []
    assert len(answer["calls"]) < 12
