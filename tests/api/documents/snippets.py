"""The snippets of the guide, and how they are run."""

import asyncio
import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from deploy.local_cluster.server import free_ports
from headgate.app.routes import guide
from tests.api.commands.command_line import HEADGATE, environment

RUN_S_MAX = 90
"""A page's longest program starts a gateway twice, beside the other tests."""

_BLOCK = re.compile(
    r"^```(\w+)\n(.*?)^```$(?:\n```(json|text)\n(.*?)^```$)?", re.DOTALL | re.MULTILINE
)
_ENDLESS = (
    "curl -N ",
    "headgate tail",
    "follow(after=",
    "follow({ after",
    "hg.follow(",
    "work(",
    "serve_forever(",
)
"""Commands that wait for entries until stopped: each is, once it has printed something."""


class Snippet(NamedTuple):
    """A program of a page."""

    language: str
    code: str
    kind: str = ""  # of the answer
    answer: str = ""  # the block right behind, if there is one

    @property
    def is_endless(self) -> bool:
        return any(words in self.code for words in _ENDLESS)

    @property
    def is_check(self) -> bool:
        """Return whether it is a function of a receiver, as tests/sdk/test_signatures.py runs."""
        return '"webhook-signature"' in self.code

    def at(self, url: str) -> str:
        """Return the program for the gateway of a test; one it starts itself has a free port."""
        [port] = free_ports(1)
        code = self.code.replace("localhost:8080", url.removeprefix("http://"))
        return code.replace("8090", str(port))


def snippets(task: str, *languages: str) -> list[Snippet]:
    """Return the programs of a page of the guide that are in one of these languages."""
    return snippets_in(guide.source(task), *languages)


def snippets_of_tab(task: str, tab: str | None, *languages: str) -> list[Snippet]:
    """Return the programs that a reader runs who opens one tab of a page; None: it has none."""
    parts = guide.parts_of(task)
    text = [parts.introduction, *([] if tab is None else [parts.tabs[tab]]), parts.rest]
    return snippets_in("\n".join(text), *languages)


def snippets_in(text: str, *languages: str) -> list[Snippet]:
    """Return the programs of a text that are in one of these languages."""
    blocks = [Snippet(*block) for block in _BLOCK.findall(text)]
    return [snippet for snippet in blocks if snippet.language in languages]


async def run(
    *command: str, shell: dict[str, str], place: Path, is_endless: bool, lines: int = 1
) -> str:
    """Run a snippet, and return its first lines if it is endless, or all it prints."""
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
        async with asyncio.timeout(RUN_S_MAX):
            if is_endless:
                return b"".join([await process.stdout.readline() for _ in range(lines)]).decode()
            output, mistakes = await process.communicate()
            assert process.returncode == 0, mistakes.decode()
            return output.decode()
    finally:
        with suppress(ProcessLookupError):  # it has left nothing in the background
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


def shell_at(url: str, folder: Path, **variables: str) -> dict[str, str]:
    """Return the variables of a shell whose `headgate` is this checkout's and knows a gateway."""
    script = folder / "headgate"
    script.write_text(f'#!/bin/sh\nexec {" ".join(HEADGATE)} "$@"\n')
    script.chmod(0o755)
    known = environment(url, **variables)
    return {**known, "PATH": f"{folder}:{known['PATH']}"}
