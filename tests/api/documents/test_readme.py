"""Every command of the documentation does what the documentation says.

A block marked `sh` is run, line by line, on a gateway of the page's own; the block right behind it,
if there is one, is what it must print.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.app.settings import Settings
from tests.api.commands.command_line import headgate
from tests.api.conftest import Live
from tests.api.documents.answers import check_output
from tests.api.documents.snippets import Snippet, run, shell_at, snippets_in
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
    'make serve ARGS="--allow-origin http://localhost:8001"': "test_live_page.py does",
    "headgate import redis://localhost:6379 --to data": "test_import.py does",
    "headgate import dump.rdb --to data --only 'orders*'": "test_import.py does",
    "headgate export --from data --to redis://localhost:6379": "test_export.py does",
    "headgate export --from data --output streams.resp": "test_export.py does",
    "redis-cli --pipe < streams.resp": "test_export.py does",
    "redis-cli XADD orders '*' sku 42": "tests/clients does",
    "redis-cli XREADGROUP GROUP billing me BLOCK 5000 STREAMS orders '>'": "tests/clients does",
    "python3 -m http.server 8001 --directory examples": "test_live_page.py does",
    ".venv/bin/python examples/ai/model.py": "test_ai_page.py does",
    "pip install -e '.[spark]'": "the environment of the tests has it",
    "headgate-pipeline archive --streams orders --lake lake": "tests/pipeline does",
    "headgate-pipeline plot --streams orders": "tests/pipeline does",
    "make soak": "ten minutes",
}
MINUTES = "make bench", "python -m tests.bench."  # and what they print is no promise
_NUMBER = re.compile(r" *\d[\d,]*(\.\d+)?")


def examples(text: str) -> Iterator[Snippet]:
    """Yield the commands of a page that are run, and what it says they print."""
    for snippet in snippets_in(text, "sh"):
        lines = [line for line in snippet.code.splitlines() if not is_left_out(line)]
        if lines:
            yield snippet._replace(code="\n".join(lines))


def is_left_out(line: str) -> bool:
    return line in NOT_RUN or line.startswith(MINUTES)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The settings of `make serve`, but for the place of its data."""
    return Settings(data_dir=tmp_path / "data")


@pytest.fixture
def shell(tmp_path: Path, live: Live, settings: Settings) -> dict[str, str]:
    return shell_at(live.url, tmp_path, HEADGATE_DATA_DIR=str(settings.data_dir))


@pytest.mark.parametrize("page", PAGES)
async def test_commands_print_what_is_promised(
    live: Live, shell: dict[str, str], page: str
) -> None:
    ids: dict[str, str] = {}
    for snippet in examples((ROOT / page).read_text()):
        code = re.sub(r"\bcurl (?!-s)", "curl -s ", snippet.at(live.url))
        code = code.replace(".venv/bin/python ", f"{sys.executable} ")
        for shown, actual in ids.items():
            code = code.replace(shown, actual)
        output = await run(
            *("bash", "-ec", code),
            shell=shell,
            place=ROOT,
            is_endless=" -N " in code,
            lines=snippet.answer.count("\n"),
        )
        if "examples/" in code:  # what it counts and measures differs
            assert _NUMBER.sub(" N", output) == _NUMBER.sub(" N", snippet.answer)
        elif snippet.answer:
            check_output(snippet, output, live.url, ids)


async def test_the_table_of_settings_is_that_of_the_code() -> None:
    ended = await headgate("", "check-config", "--markdown")
    assert ended.output == (ROOT / "app/SETTINGS.md").read_text(), "run `make documents`"
