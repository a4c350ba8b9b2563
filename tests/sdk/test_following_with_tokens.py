"""Clients of events and sockets at a gateway that asks for tokens, which end while they follow."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import jwt
import pytest
from pydantic import SecretStr

from examples import follow
from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.conditions import WITHIN_S
from tests.sdk.program import running_program
from tests.sdk.typescript import program_folder
from tests.sdk.workshop import ROOT, tool

SECRET = "a secret that the issuer and the gateway share"
GRANTS = [{"streams": ["talk"], "do": ["read", "append"], "create": True}]


def token(*, ttl_s: float = 600, streams: str = "talk") -> str:
    grants = [{**GRANTS[0], "streams": [streams]}]
    claims = {"sub": "me", "exp": time.time() + ttl_s, "headgate": grants}
    return jwt.encode(claims, SECRET, "HS256")


@pytest.fixture
async def live() -> AsyncIterator[Live]:
    async with running(Settings(jwt_secret=SecretStr(SECRET))) as gateway:
        gateway.http.headers["Authorization"] = f"Bearer {token()}"
        yield gateway


@pytest.fixture
def javascript(tmp_path: Path) -> Path:
    return program_folder(tmp_path / "javascript")


def script(live: Live, how: str, ttl_s: int = 600) -> tuple[str, ...]:
    return ("tokens.mjs", live.url, how, str(ttl_s), SECRET)


async def test_a_token_is_renewed_before_it_ends_and_nothing_is_missed(
    live: Live, javascript: Path
) -> None:
    ids = await live.append("talk", "1")
    words = script(live, "renewed", ttl_s=3)
    async with running_program(tool("node"), *words, folder=javascript) as program:
        await program.until(lambda: len(program.all("token")) == 2)
        ids += await live.append("talk", "2")
        await program.until(lambda: len(program.all("token")) == 4)
        ids += await live.append("talk", "3")
        await program.until(lambda: len(program.all("tailed")) == len(ids))
        await program.end()

    assert program.all("tailed") == ids
    states = program.all("state")
    assert states == ["connecting", "open", "closed"], "one connection, through all renewals"
    assert program.all("ended") == ["forbidden"], "of a stream that it may not read"


@pytest.mark.parametrize("how", ["fixed", "refused", "same"])
async def test_a_token_that_cannot_be_renewed_ends_the_client(
    live: Live, javascript: Path, how: str
) -> None:
    await live.append("talk", "1")
    words = script(live, how, ttl_s=2)
    async with running_program(tool("node"), *words, folder=javascript) as program:
        await program.until(lambda: "closed" in program.all("state"))
        await program.until(lambda: len(program.all("ended")) == 2)
        await program.end()

    closed = [line for line in program.lines if line.get("state") == "closed"]
    assert closed[0]["code"] == 4401
    assert "unauthenticated" in program.all("ended")
    assert len(program.all("tailed")) == (1 if how == "fixed" else 0)


async def test_a_token_that_has_ended_is_renewed_for_requests(live: Live, javascript: Path) -> None:
    """Also a ticket stands in the URL of events."""
    [entry_id] = await live.append("talk", "1")
    words = script(live, "late", ttl_s=600)
    async with running_program(tool("node"), *words, folder=javascript) as program:
        await program.write_line("a ticket")
        await program.until(lambda: bool(program.all("ticket")))
        await program.end()
    assert len(program.all("token")) == 2

    params = {"after": "0", "ticket": program.all("ticket")[0]}
    async with (
        httpx.AsyncClient(base_url=live.url) as nobody,
        nobody.stream("GET", "/v1/streams/talk/events", params=params) as answer,
    ):
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if line.startswith("data: ") and entry_id in line:
                break


# The examples in Python


@pytest.mark.parametrize("by_socket", [False, True])
async def test_the_python_example_sends_the_token_of_the_variable(
    live: Live, monkeypatch: pytest.MonkeyPatch, by_socket: bool
) -> None:
    ids = await live.append("talk", "1", "2")
    monkeypatch.setenv("HEADGATE_TOKEN", token())
    seen: list[str] = []
    async with asyncio.timeout(WITHIN_S):
        async for entry in follow.follow(live.url, "talk", by_socket=by_socket):
            seen.append(entry["id"])
            if len(seen) == len(ids):
                break
    assert seen == ids


@pytest.mark.parametrize("by_socket", [False, True])
@pytest.mark.parametrize("given", ["none", "of another stream", "that ends", "that has ended"])
async def test_the_python_example_gives_up_where_it_is_refused(
    live: Live, monkeypatch: pytest.MonkeyPatch, by_socket: bool, given: str
) -> None:
    await live.append("talk", "1")
    tokens = {
        "none": "",
        "of another stream": token(streams="other"),
        "that ends": token(ttl_s=1.5),
        "that has ended": token(ttl_s=-1),
    }
    monkeypatch.setenv("HEADGATE_TOKEN", tokens[given])
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(follow.GaveUp) as caught:
            async for _ in follow.follow(live.url, "talk", by_socket=by_socket):
                pass
    assert "HEADGATE_TOKEN" in str(caught.value)
    assert "eyJ" not in str(caught.value)


async def test_no_example_sends_a_token_in_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_TOKEN", token())
    with pytest.raises(follow.GaveUp, match="plain http"):
        await anext(aiter(follow.follow("http://gateway.example", "talk")))


async def test_the_other_example_works_with_a_key_and_says_so_without(live: Live) -> None:
    async def run(**variables: str) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            tool("python"),
            str(ROOT / "examples" / "temperatures.py"),
            env={"PATH": "", "HEADGATE_URL": live.url, **variables},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        async with asyncio.timeout(WITHIN_S):
            output, _ = await process.communicate()
        return process.returncode or 0, output.decode()

    grants = [{"streams": ["example-*"], "do": ["read", "append", "consume", "manage"]}]
    claims = {"sub": "me", "exp": time.time() + 600, "headgate": grants}
    code, text = await run(HEADGATE_TOKEN=jwt.encode(claims, SECRET, "HS256"))
    assert code == 0, text
    assert "readings in and acknowledged" in text
    code, text = await run()
    assert (code, text.count("\n")) == (1, 1), text
    assert "HEADGATE_TOKEN" in text
    assert json.dumps(SECRET) not in text
