"""Every command of the documentation does what the documentation says.

A block marked `sh` is run, line by line, on a gateway of the page's own; the block right behind it,
if there is one, is what it must print.
"""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from headgate.app.settings import Settings
from tests.api.commands.command_line import HEADGATE, environment
from tests.api.conftest import Live
from tests.processes.gateway import ROOT

PAGES = [
    "README.md",
    "app/README.md",
    "app/COMING_FROM.md",
    "app/SETTINGS.md",
    "engine/README.md",
    "tests/bench/README.md",
]
NOT_RUN = {
    "make serve": "the gateway of the test stands for it, set up by the same recipe",
    "make install": "it has made the environment this test runs in",
    ". .venv/bin/activate": "the path of the test's shell has the commands",
    "headgate serve --allow-origin http://localhost:8001": "test_live_page.py does",
    "headgate import redis://localhost:6379 --to data": "test_import.py does",
    "headgate import dump.rdb --to data --only 'orders*'": "test_import.py does",
    "headgate export --from data --to redis://localhost:6379": "test_export.py does",
    "headgate export --from data --output streams.resp": "test_export.py does",
    "redis-cli --pipe < streams.resp": "test_export.py does",
    "redis-cli XADD orders '*' sku 42": "tests/clients does",
    "redis-cli XREADGROUP GROUP billing me BLOCK 5000 STREAMS orders '>'": "tests/clients does",
    "python3 -m http.server 8001 --directory examples": "test_live_page.py does",
    "python examples/ai/model.py": "test_ai_page.py does",
    "pip install '.[spark]'": "the environment of the tests has it",
    "headgate-pipeline archive --streams orders --lake lake": "tests/pipeline does",
    "headgate-pipeline plot --streams orders": "tests/pipeline does",
    "make bench": "minutes, and what it prints is no promise",
    "make bench ARGS=engine": "the same",
    "make bench ARGS=cluster": "the same",
    "make bench ARGS=workers": "the same",
    "make bench ARGS=resp": "the same",
    "make bench ARGS=connector": "the same",
    "make bench ARGS=flames": "the same",
    "make bench ARGS=storage": "the same",
    "make bench ARGS=bucket": "the same",
    "make bench ARGS='storage --sizes 3GB'": "the same",
    "make bench ARGS='storage --sizes 1GB 5GB 10GB 20GB --kind large'": "the same",
    "python -m tests.bench.volume --entries 100M --kind short --seconds 1800": "the same",
    "python -m tests.bench.volume --bytes 20GB --kind large --seconds 3600": "the same",
    "make bench ARGS=stalls": "the same",
    "make soak": "ten minutes",
}
_BLOCK = re.compile(
    r"^```(\w*)\n(.*?)^```$(\n```(?:json|text)\n(.*?)^```$)?", re.DOTALL | re.MULTILINE
)
_ID = re.compile(r"\d{13}-\d+")
_NUMBER = re.compile(r" *\d[\d,]*(\.\d+)?")
_JITTER = re.compile(
    r'(retry: |"epoch":|"request_id":|"secret":)(?:\d+|"[0-9a-f-]{36}"|"whsec_\S+")'
)


class Example(NamedTuple):
    """Commands, and what the page says they print; None if it does not say."""

    commands: str
    promised: str | None


def examples(text: str) -> Iterator[Example]:
    for kind, body, behind, promised in _BLOCK.findall(text):
        if kind == "sh":
            run = "\n".join(line for line in body.splitlines() if line not in NOT_RUN)
            if run:
                yield Example(run, promised if behind else None)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The settings of `make serve`, but for the place of its data."""
    return Settings(data_dir=tmp_path / "data")


@pytest.fixture
def shell(tmp_path: Path, live: Live, settings: Settings) -> dict[str, str]:
    """Variables of a shell in which `headgate` is this checkout's, and knows the gateway."""
    script = tmp_path / "headgate"
    script.write_text(f'#!/bin/sh\nexec {" ".join(HEADGATE)} "$@"\n')
    script.chmod(0o755)
    variables = environment(live.url, HEADGATE_DATA_DIR=str(settings.data_dir))
    return {**variables, "PATH": f"{tmp_path}:{variables['PATH']}"}


async def run(commands: str, url: str, shell: dict[str, str], *, lines: int) -> str:
    """Run commands as a user would; what has no end is ended after so many lines."""
    commands = commands.replace("localhost:8080", url.removeprefix("http://"))
    commands = commands.replace(".venv/bin/python ", f"{sys.executable} ")
    commands = re.sub(r"\bcurl (?!-s)", "curl -s ", commands)
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-ec",
        commands,
        cwd=ROOT,
        env=shell,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            if " -N " in commands:
                lines_read = [await process.stdout.readline() for _ in range(lines)]
                return b"".join(lines_read).decode()
            output = (await process.stdout.read()).decode()
            assert await process.wait() == 0, f"{commands}\n{output}"
            return output
    finally:  # also when its time is up: whatever it started ends with it
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


def read_anew(promised: str, output: str, ids: dict[str, str]) -> str:
    """Return the promised text with the ids of this run; those first seen here are learned."""
    for shown, actual in zip(_ID.findall(promised), _ID.findall(output), strict=False):
        ids.setdefault(shown, actual)
    return _ID.sub(lambda match: ids.get(match[0], match[0]), promised)


def comparable(text: str) -> str:
    """Leave out what differs from run to run: when to come back, the stream's epoch."""
    return _JITTER.sub(r"\1N", text).strip()


@pytest.mark.parametrize("page", PAGES)
async def test_each_command_prints_what_the_page_promises(
    live: Live, shell: dict[str, str], page: str
) -> None:
    ids: dict[str, str] = {}
    for commands, promised in examples((ROOT / page).read_text()):
        actual = _ID.sub(lambda match: ids.get(match[0], match[0]), commands)
        lines = (promised or "").count("\n")
        output = await run(actual, live.url, shell, lines=lines)
        if promised is None:
            continue
        expected = read_anew(promised, output, ids)
        if "examples/" in commands:  # what it counts and measures differs
            expected, output = _NUMBER.sub(" N", expected), _NUMBER.sub(" N", output)
        assert comparable(output) == comparable(expected), commands


def test_the_pages_that_teach_by_commands_have_them() -> None:
    examples_of = {page: list(examples((ROOT / page).read_text())) for page in PAGES}
    assert len(examples_of["README.md"]) >= 10
    assert len(examples_of["app/COMING_FROM.md"]) >= 10


@pytest.mark.parametrize("page", PAGES)
def test_no_block_leaves_it_open_whether_it_is_run(page: str) -> None:
    fences = [line for line in (ROOT / page).read_text().splitlines() if line.startswith("```")]
    kinds = {line.removeprefix("```") for line in fences[::2]}
    assert kinds <= {"sh", "json", "text", "js", "python"}  # test_guide.py runs what is Python
    assert set(fences[1::2]) <= {"```"}


def test_what_is_not_run_is_said_somewhere() -> None:
    text = "\n".join((ROOT / page).read_text() for page in PAGES)
    for command in NOT_RUN:
        assert re.search(rf"^{re.escape(command)}$", text, re.MULTILINE), command


async def test_the_table_of_settings_is_that_of_the_code(shell: dict[str, str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *HEADGATE, "check-config", "--markdown", env=shell, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output.decode() == (ROOT / "app/SETTINGS.md").read_text(), "run `make documents`"
