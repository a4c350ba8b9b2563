"""The guide: each snippet runs as it stands, and the pages show them."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from headgate.app.routes import guide
from tests.api.commands.command_line import HEADGATE
from tests.api.conftest import Live

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ENDLESS = ("curl -N ", "headgate tail", "follow(after=", "work(charge")
"""What waits for entries until it is stopped: it is, once it has printed something."""


def snippets(task: str, *languages: str) -> list[str]:
    return [code for language, code in _BLOCK.findall(guide.source(task)) if language in languages]


@pytest.fixture
def shell(live: Live, tmp_path: Path) -> dict[str, str]:
    """Variables of a shell in which `headgate` is this checkout's, and knows the gateway."""
    script = tmp_path / "headgate"
    script.write_text(f'#!/bin/sh\nexec {" ".join(HEADGATE)} "$@"\n')
    script.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    return {**os.environ, "HEADGATE_URL": live.url, "PATH": path, "PYTHONUNBUFFERED": "1"}


async def run(*command: str, shell: dict[str, str], place: Path, is_endless: bool) -> str:
    """Run a snippet, and return its first line if it is endless, or all it prints."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=place,
        env=shell,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # a shell does not pass signals on
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            if is_endless:
                return (await process.stdout.readline()).decode()
            output, mistakes = await process.communicate()
            assert process.returncode == 0, mistakes.decode()
            assert b'"code":' not in output, output
            return output.decode()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGTERM)
            await process.communicate()


@pytest.mark.parametrize("task", guide.TASKS)
async def test_each_snippet_runs(
    live: Live, shell: dict[str, str], tmp_path: Path, task: str
) -> None:
    text = await asyncio.to_thread(guide.source, task)
    for language, code in _BLOCK.findall(text):
        await live.http.post("/v1/streams/orders/entries", json={"fields": {"sku": "42"}})
        is_endless = any(words in code for words in _ENDLESS)
        here = code.replace("localhost:8080", live.url.removeprefix("http://"))
        if language == "sh":
            command = ["bash", "-ec", here.replace("curl ", "curl -sS ")]
        elif language == "python":
            command = [sys.executable, "-c", here]
        else:
            continue  # tests/sdk runs what is TypeScript
        assert await run(*command, shell=shell, place=tmp_path, is_endless=is_endless) or (
            "-o " in code
        ), code


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
