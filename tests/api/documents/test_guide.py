"""The guide: each snippet runs as it stands, and the pages show them."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from headgate.app.routes import guide
from headgate.app.settings import Settings
from tests.api.commands.command_line import HEADGATE
from tests.api.conftest import Live
from tests.api.documents.snippets import run, snippets, snippets_in
from tests.crash.gateway import ROOT


@pytest.fixture
def settings() -> Settings:
    return Settings(push_allow=["127.0.0.0/8"])


@pytest.fixture
def shell(live: Live, tmp_path: Path) -> dict[str, str]:
    """Variables of a shell in which `headgate` is this checkout's, and knows the gateway."""
    script = tmp_path / "headgate"
    script.write_text(f'#!/bin/sh\nexec {" ".join(HEADGATE)} "$@"\n')
    script.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    return {**os.environ, "HEADGATE_URL": live.url, "PATH": path, "PYTHONUNBUFFERED": "1"}


@pytest.mark.parametrize("task", guide.TASKS)
async def test_each_snippet_runs(
    live: Live, shell: dict[str, str], tmp_path: Path, task: str
) -> None:
    for snippet in await asyncio.to_thread(snippets, task, "sh", "python"):
        await live.http.post("/v1/streams/orders/entries", json={"fields": {"sku": "42"}})
        code = snippet.at(live.url)
        if snippet.language == "sh":
            command = ["bash", "-ec", code.replace("curl ", "curl -sS ")]
        else:
            command = [sys.executable, "-c", code]
        output = await run(*command, shell=shell, place=tmp_path, is_endless=snippet.is_endless)
        assert output or "-o " in code, code


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
    assert titles == re.findall(r"^## (.+)$", guide.source(task or "append"), re.MULTILINE)
    assert len(titles) <= 4  # the page's style shows so many
    assert answer.text.count(" checked>") == 1
    assert "<!--" not in answer.text
    assert "script-src 'none'" in answer.headers["content-security-policy"]


async def test_what_is_no_task_is_not_found(live: Live) -> None:
    assert (await live.http.get("/guide/nothing")).json()["code"] == "not_found"
