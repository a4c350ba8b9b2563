"""The guide: each snippet runs as it stands, and the pages show them."""

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest

from headgate.app.routes import guide
from headgate.app.settings import Settings
from tests.api.conftest import Live
from tests.api.documents.answers import check_output
from tests.api.documents.snippets import Snippet, run, shell_at, snippets_in, snippets_of_tab
from tests.processes.gateway import ROOT
from tests.servers.chosen import URL

QUICK = {
    *(
        "agents",
        "append",
        "cloudevents",
        "close",
        "concepts",
        "follow",
        "install",
        "latest",
        "limits",
        "machines",
        "once",
    ),
    *("patterns", "redis", "schemas", "work"),
}
"""Pages that the gate runs. The programs of the others take longer: `make long` runs them, too."""

TABS = ("curl", "Python", "Terminal")
"""Of the others, the programs are run by tests/sdk/test_guide.py and tests/e2e."""

PAGES = [
    pytest.param(task, tab, marks=() if task in QUICK else pytest.mark.long)
    for task in guide.TASKS
    for tab in (*filter(TABS.__contains__, guide.parts_of(task).tabs),) or (None,)
]


_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"


@pytest.fixture
def settings(tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    """Return those of `make serve`, or of the command with which the page starts a gateway."""
    task = request.node.callspec.params.get("task") if hasattr(request.node, "callspec") else None
    is_allowed = task is not None and "serve --push-allow 127.0.0.0/8" in guide.source(task)
    push_allow = ["127.0.0.0/8"] if is_allowed else []
    return Settings(push_allow=push_allow, data_dir=tmp_path / "data")


@pytest.fixture
def shell(live: Live, tmp_path: Path) -> dict[str, str]:
    terminal = {"TERM": "xterm-256color", "COLUMNS": "100", "PYTHONUNBUFFERED": "1"}
    return shell_at(live.url, tmp_path, **terminal)


def command_of(snippet: Snippet, code: str) -> list[str]:
    """Return the command that runs a program; those of `headgate` are run on a terminal."""
    if snippet.language == "python":
        return [sys.executable, "-c", code]
    shell = ["bash", "-ec", code.replace("curl ", "curl -sS ")]
    return shell if "curl " in code else [sys.executable, "-c", _TERMINAL, *shell]


@pytest.mark.parametrize(("task", "tab"), PAGES)
async def test_a_page_runs_from_its_beginning(
    live: Live, shell: dict[str, str], tmp_path: Path, task: str, tab: str | None
) -> None:
    ids: dict[str, str] = {}
    for snippet in await asyncio.to_thread(snippets_of_tab, task, tab, "sh", "python"):
        if snippet.is_check:
            continue
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
        assert '"type":"/problems/' not in output, output
        if '"is_first":true' in output:  # then the page says to put it there
            shell["HEADGATE_TOKEN"] = str(json.loads(output)["key"])
        if is_compared:
            check_output(snippet, output, live.url, ids)


async def test_the_program_of_readme_runs(
    live: Live, shell: dict[str, str], tmp_path: Path
) -> None:
    [snippet] = snippets_in(await asyncio.to_thread((ROOT / "README.md").read_text), "python")
    command = sys.executable, "-c", snippet.at(live.url)
    assert "42" in await run(*command, shell=shell, place=tmp_path, is_endless=True)


@pytest.mark.asyncio(loop_scope="session")
async def test_a_page_has_a_tab_for_each_client_and_its_links_lead_somewhere(shared: Live) -> None:
    html, links = {"Accept": "text/html"}, set[str]()
    for task in ("", *guide.TASKS):
        answer = await shared.http.get(f"/guide/{task}".rstrip("/"), headers=html)
        titles = re.findall(r"<label[^>]*>([^<]+)</label>", answer.text)
        parts = re.findall(r"^## (.+)$", guide.source(task or "concepts"), re.MULTILINE)
        assert titles == [part for part in parts if part in guide.CLIENTS], task
        others = [part for part in parts if part not in guide.CLIENTS]
        assert re.findall(r"<h2 id=[^>]+>([^<]+)</h2>\n", answer.text) == others
        assert len(titles) <= 4  # the page's style shows so many
        assert answer.text.count(" checked>") == bool(titles)
        assert "<!--" not in answer.text
        assert "script-src 'sha256-" in answer.headers["content-security-policy"]
        links |= set(re.findall(r"""(?:href|src)="(/[^"#]*)\"""", answer.text))
    searched = (await shared.http.get("/guide/pages.json")).json()
    links |= {page["path"] for page in searched}
    assert {"/guide/life.svg", "/problems/draining", "/docs"} <= links
    answers = {link: (await shared.http.get(link, headers=html)).status_code for link in links}
    assert {link for link, status in answers.items() if status != 200} - {"/console"} == set()


@pytest.mark.asyncio(loop_scope="session")
async def test_the_search_has_each_page_and_each_problem_in_words(shared: Live) -> None:
    pages = {page["path"]: page for page in (await shared.http.get("/guide/pages.json")).json()}
    assert pages["/guide/work"]["title"] == "Process entries"
    assert "claim_idle_ms" in pages["/guide/concepts"]["text"]
    assert not {"`", "#", "|"} & set(pages["/guide/concepts"]["text"])
    assert "HEADGATE_FULL" in pages["/problems/memory_full"]["text"]


@pytest.mark.asyncio(loop_scope="session")
async def test_a_picture_runs_nothing_and_what_is_no_page_is_not_found(shared: Live) -> None:
    for name in guide.PICTURES:
        picture = await shared.http.get(f"/guide/{name}.svg")
        assert picture.headers["content-type"] == "image/svg+xml"
        assert "script-src 'none'" in picture.headers["content-security-policy"]
    for path in ("/guide/none.svg", "/guide/nothing"):
        assert (await shared.http.get(path)).json()["code"] == "not_found"
