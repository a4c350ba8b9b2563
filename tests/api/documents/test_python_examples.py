"""The examples in Python, run as their first lines say."""

import asyncio
import sys

import pytest

from tests.api.commands.command_line import Ended, environment
from tests.api.conftest import Live
from tests.processes.gateway import ROOT


async def example(name: str, *words: str, url: str) -> Ended:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(ROOT / "examples" / name), *words),
        env=environment(url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        output, error = await process.communicate()
    return Ended(process.returncode or 0, output.decode(), error.decode())


@pytest.mark.parametrize(
    ("words", "is_flag"),
    [
        (["follow.py", "orders"], False),
        (["follow.py", "orders", "--socket"], True),
        (["temperatures.py"], True),
        (["ai/model.py"], False),
    ],
)
async def test_an_example_says_that_there_is_no_gateway(words: list[str], is_flag: bool) -> None:
    nowhere = "127.0.0.1:1"

    flag = ["--url", nowhere] if is_flag else []
    ended = await example(*words, *flag, url="nowhere.invalid" if is_flag else nowhere)

    assert (ended.code, ended.output) == (1, "")
    [line] = ended.error.splitlines()
    assert line.startswith(f"Error: no gateway at http://{nowhere}: ")
    assert line.endswith(". Start one with `headgate serve`.")


async def test_the_variable_says_where_the_gateway_is(live: Live) -> None:
    ended = await example("follow.py", "nope", "--socket", url=live.url.removeprefix("http://"))

    assert ended == (1, "", "Error: There is no stream 'nope'.\n")
