"""Commits with `@headgate/client` in Node: steps of each kind, and jobs with their results."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.sdk.cut_way import Proxy
from tests.sdk.program import running_program
from tests.sdk.typescript import README, program_folder, snippets
from tests.sdk.workshop import output_of, tool


@pytest.fixture
async def live() -> AsyncIterator[Live]:
    async with running(Settings()) as gateway:
        yield gateway


@pytest.fixture
def javascript(tmp_path: Path) -> Path:
    return program_folder(tmp_path / "javascript")


async def test_steps_are_carried_out_together_and_a_job_with_its_results(
    live: Live, javascript: Path
) -> None:
    output = await output_of(tool("node"), "commits.mjs", live.url, folder=javascript)
    done, lost = [True, True, False], [True, "rival", False, True]
    worked = {
        "came": [done, done, lost, done, done, done],
        "done": ["0", "1", "3", "4", "5"],
        "pending": ["rival"],
    }
    assert json.loads(output) == {
        "made": [2, 1, 1, 0, 0, 0],
        "out": [[{"n": "1"}, None], [{"blob": "/w=="}, ["blob"]]],
        "delayed": True,
        "row": {"sku": "42", "itemCount": "3"},
        "due": 2**45,
        "pending": [[True, "busy"]],
        "repeated": True,
        "refused": [True, True, 1],
        "logged": 1,
        "socket": worked,
        "events": worked,
    }


async def test_the_commit_of_the_readme_runs_as_it_stands(live: Live, javascript: Path) -> None:
    [order] = await live.append("orders", "1")
    await live.create_group("orders", "billing")
    *_, commit = snippets(README, "ts")
    (javascript / "commit.mjs").write_text(commit.replace("http://localhost:8080", live.url))
    await output_of(tool("node"), "commit.mjs", folder=javascript)
    [bill] = (await live.ask("GET /v1/streams/bills/entries"))["entries"]
    assert bill["fields"] == {"v": "1", "order": order}
    assert (await live.group("orders", "billing"))["pending"] == 0


async def test_a_job_that_came_again_while_it_was_in_hand_is_committed_once(
    live: Live, javascript: Path
) -> None:
    [wanted] = await live.append("talk", "1")
    await live.create_group("talk", "readers")
    async with Proxy().open() as proxy:
        url = urlsplit(live.url)
        assert url.hostname is not None
        assert url.port is not None
        proxy.target = url.hostname, url.port
        script = ("commit-late.mjs", f"http://127.0.0.1:{proxy.port}")
        async with running_program(tool("node"), *script, folder=javascript) as program:
            await program.until(lambda: program.all("begun") == [wanted])
            proxy.cut()  # the delivery has failed, and the entry comes again
            await program.until(lambda: program.all("group").count("caught_up") == 2)
            await program.write_line("commit")
            await program.until(lambda: bool(program.all("result")))
            await program.end()
    results = (await live.ask("GET /v1/streams/results/entries"))["entries"]
    assert program.all("begun") == [wanted]
    assert [entry["fields"] for entry in results] == [{"of": wanted}]
    assert (await live.group("talk", "readers"))["pending"] == 0


async def test_steps_that_were_done_are_not_done_again(live: Live, javascript: Path) -> None:
    output = await output_of(tool("node"), "steps.mjs", live.url, folder=javascript)
    assert json.loads(output) == {
        "charged": 1,
        "runs": 5,
        "errors": ["it breaks"],
        "late": "TimeoutError",
        "bills": [{"n": "7", "receipt": "1", "by": "ana"}],
        "left": ["signal/approved%3A7"],
        "pending": 0,
    }


async def test_an_entry_that_is_here_again_before_the_answer_is_worked_off(
    live: Live, javascript: Path
) -> None:
    output = await output_of(tool("node"), "here-again.mjs", live.url, folder=javascript)
    assert json.loads(output) == {"begun": [True, True], "pending": 0}
