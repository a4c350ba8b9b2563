"""The guide: each snippet runs as it stands, and the pages show them."""

import asyncio
import os
import re
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from headgate.app.routes import guide
from headgate.app.settings import Settings
from tests.api.commands.command_line import HEADGATE
from tests.api.conftest import Live
from tests.api.documents.answers import check_answer, check_output
from tests.api.documents.snippets import Snippet, run, snippets, snippets_in
from tests.processes.gateway import ROOT
from tests.servers.chosen import URL

UNANSWERED = {
    "-o readings.arrow": "it writes a file",
}
"""Parts of commands that print nothing, and why."""


_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(push_allow=["127.0.0.0/8"], data_dir=tmp_path / "data")


@pytest.fixture
def shell(live: Live, tmp_path: Path) -> dict[str, str]:
    """Variables of a shell in which `headgate` is this checkout's, and knows the gateway."""
    script = tmp_path / "headgate"
    script.write_text(f'#!/bin/sh\nexec {" ".join(HEADGATE)} "$@"\n')
    script.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    terminal = {"TERM": "xterm-256color", "COLUMNS": "100"}
    variables = {"HEADGATE_URL": live.url, "PATH": path, "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **variables, **terminal}


def command_of(snippet: Snippet, code: str) -> list[str]:
    """Return the command that runs a program; those of `headgate` are run on a terminal."""
    if snippet.language == "python":
        return [sys.executable, "-c", code]
    shell = ["bash", "-ec", code.replace("curl ", "curl -sS ")]
    return shell if "curl " in code else [sys.executable, "-c", _TERMINAL, *shell]


@pytest.mark.parametrize("task", guide.TASKS)
async def test_each_snippet_runs(
    live: Live, shell: dict[str, str], tmp_path: Path, task: str
) -> None:
    ids: dict[str, str] = {}
    for at, snippet in enumerate(await asyncio.to_thread(snippets, task, "sh", "python")):
        if at == 0 or snippet.language == "python":
            await live.http.post("/v1/streams/orders/entries", json={"fields": {"sku": "42"}})
        code = snippet.at(live.url)
        for shown, actual in ids.items():
            code = code.replace(shown, actual)
        is_compared = bool(snippet.answer) and URL is None  # servers differ in details
        output = await run(
            *command_of(snippet, code),
            shell=shell,
            place=tmp_path,
            is_endless=snippet.is_endless,
            lines=snippet.answer.count("\n") if is_compared else 1,
        )
        assert output or "-o " in code, code
        if is_compared:
            check_output(snippet, output, live.url, ids)


@pytest.mark.parametrize("task", guide.TASKS)
def test_each_program_has_its_answer(task: str) -> None:
    codes = [each.code for each in snippets(task, "sh", "python", "ts") if not each.answer]
    assert [code for code in codes if not any(part in code for part in UNANSWERED)] == []


@pytest.mark.parametrize(
    ("shown", "is_current"),
    [
        ('{ "id": "1700000000000-7", … "lag": 1 }', True),
        ('{ "id": "1700000000000-7", "lag": 1 }', False),  # a key is missing
        ('{ "id": "1700000000000-7", … "lag": 2 }', False),
        ('{ "id": "1700000000001-7", … "lag": 1 }', False),  # an id of another entry
    ],
)
def test_an_answer_that_is_out_of_date_is_noticed(shown: str, is_current: bool) -> None:
    ids = {"1700000000000-7": "1800000000000-0", "1700000000001-7": "1800000000001-0"}
    printed = '{"id":"1800000000000-0","name":"a","lag":1}'
    with nullcontext() if is_current else pytest.raises(AssertionError):
        check_answer(shown, printed, ids, is_json=True)


async def test_the_program_of_the_first_page_runs(
    live: Live, shell: dict[str, str], tmp_path: Path
) -> None:
    text = await asyncio.to_thread((ROOT / "README.md").read_text)
    [snippet] = snippets_in(text, "python")
    command = sys.executable, "-c", snippet.at(live.url)
    assert "42" in await run(*command, shell=shell, place=tmp_path, is_endless=True)


@pytest.mark.parametrize("task", ["", *guide.TASKS])
async def test_a_page_has_a_tab_for_each_client(live: Live, task: str) -> None:
    answer = await live.http.get(f"/guide/{task}".rstrip("/"), headers={"Accept": "text/html"})
    titles = re.findall(r"<label[^>]*>([^<]+)</label>", answer.text)
    parts = re.findall(r"^## (.+)$", guide.source(task or "concepts"), re.MULTILINE)
    assert titles == [part for part in parts if part in guide.CLIENTS]
    assert re.findall(r"<h2>([^<]+)</h2>\n", answer.text) == [
        part for part in parts if part not in guide.CLIENTS
    ]
    assert len(titles) <= 4  # the page's style shows so many
    assert answer.text.count(" checked>") == bool(titles)
    assert "<!--" not in answer.text
    assert "script-src 'sha256-" in answer.headers["content-security-policy"]


async def test_every_link_of_the_guide_leads_somewhere(live: Live) -> None:
    html = {"Accept": "text/html"}
    links = set[str]()
    for task in guide.TASKS:
        page = await live.http.get(f"/guide/{task}", headers=html)
        links |= set(re.findall(r"""(?:href|src)="(/[^"#]*)\"""", page.text))
    searched = (await live.http.get("/guide/pages.json")).json()
    links |= {page["path"] for page in searched}
    assert {"/guide/life.svg", "/problems/draining", "/docs"} <= links
    answers = {link: (await live.http.get(link, headers=html)).status_code for link in links}
    assert {link for link, status in answers.items() if status != 200} - {"/console"} == set()


async def test_the_search_has_each_page_and_each_problem_in_words(live: Live) -> None:
    pages = {page["path"]: page for page in (await live.http.get("/guide/pages.json")).json()}
    assert pages["/guide/work"]["title"] == "Work entries off"
    assert "claim_idle_ms" in pages["/guide/concepts"]["text"]
    assert not {"`", "#", "|"} & set(pages["/guide/concepts"]["text"])
    assert "HEADGATE_FULL" in pages["/problems/memory_full"]["text"]


@pytest.mark.parametrize("name", guide.PICTURES)
async def test_a_picture_is_one_and_runs_nothing(live: Live, name: str) -> None:
    picture = await live.http.get(f"/guide/{name}.svg")
    assert picture.headers["content-type"] == "image/svg+xml"
    assert "script-src 'none'" in picture.headers["content-security-policy"]
    assert (await live.http.get("/guide/none.svg")).json()["code"] == "not_found"


async def test_what_is_no_task_is_not_found(live: Live) -> None:
    assert (await live.http.get("/guide/nothing")).json()["code"] == "not_found"
