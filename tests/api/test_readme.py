"""Every curl line of the README does what the README says."""

import asyncio
import re
from pathlib import Path

import pytest

from app.settings import Settings
from tests.api.conftest import Live

README = Path(__file__).parents[2] / "README.md"
_EXAMPLE = re.compile(r"```\n(curl .+?)\n```\n```(?:json)?\n(.+?)\n```", re.DOTALL)
_ID = re.compile(r"\d{13}-\d+")
_RETRY = re.compile(r"retry: \d+")


@pytest.fixture
def settings() -> Settings:
    """What `make serve` runs with."""
    return Settings()


async def run(command: str) -> str:
    """Run a command as a user would, but for a stream of events only a second long."""
    limit = "--max-time 1 " if "/events" in command else ""
    process = await asyncio.create_subprocess_shell(
        command.replace("curl ", f"curl --silent {limit}", 1), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return output.decode()


def comparable(text: str) -> str:
    """Leave out what differs from run to run: ids and the jitter of reconnecting."""
    return _RETRY.sub("retry: N", _ID.sub("ID", text)).strip()


async def test_each_curl_line_answers_what_the_readme_promises(live: Live) -> None:
    examples = _EXAMPLE.findall(README.read_text())
    assert len(examples) == 7
    entry_id = ""
    for command, promised in examples:
        answer = await run(
            _ID.sub(entry_id, command).replace("localhost:8080", live.url.removeprefix("http://"))
        )
        assert comparable(answer) == comparable(promised), command
        entry_id = entry_id or _ID.findall(answer)[0]
