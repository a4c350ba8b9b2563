"""The `headgate` command in a process of its own, in a pipe or on a terminal."""

import asyncio
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from click.testing import CliRunner

from headgate.app.cli.command_line import main
from tests.conditions import until

END_S_MAX = 30.0
HEADGATE = [sys.executable, "-m", "headgate.app.cli"]
_ERASED = re.compile(r"[^\n]*\r\x1b\[2K")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Ended(NamedTuple):
    """The outcome of a command."""

    code: int
    output: str
    error: str

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()


def environment(url: str, **variables: str) -> dict[str, str]:
    own = ("HEADGATE_", "COLUMNS", "LINES")  # a terminal says its own size
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**kept, "HEADGATE_URL": url, **variables}


async def start(url: str, *words: str, **variables: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *HEADGATE, *words, env=environment(url, **variables), stdin=pipe, stdout=pipe, stderr=pipe
    )


async def headgate(url: str, *words: str, stdin: str = "", **variables: str) -> Ended:
    """Run a command in a pipe, to its end, in a thread of this process: it need not start."""
    runner = CliRunner(env={"HEADGATE_URL": url, **variables})
    run = asyncio.to_thread(runner.invoke, main, words, input=stdin, prog_name="headgate")
    async with asyncio.timeout(END_S_MAX):
        result = await run
    return Ended(result.exit_code, result.stdout, result.stderr)


async def separately(url: str, *words: str, stdin: str = "", **variables: str) -> Ended:
    """Run a command in a process of its own: it handles signals, or imports what warns."""
    process = await start(url, *words, **variables)
    async with asyncio.timeout(END_S_MAX):
        output, error = await process.communicate(stdin.encode())
    return Ended(process.returncode or 0, output.decode(), error.decode())


async def interrupted(process: asyncio.subprocess.Process) -> Ended:
    """Press Ctrl-C, and return what was said since."""
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(END_S_MAX):
        output, error = await process.communicate()
    return Ended(process.returncode or 0, output.decode(), error.decode())


async def next_line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(END_S_MAX):
        return (await process.stdout.readline()).decode().rstrip("\n")


async def next_error_line(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    async with asyncio.timeout(END_S_MAX):
        return (await process.stderr.readline()).decode().rstrip("\n")


class Terminal:
    """A command on a terminal."""

    def __init__(self, keyboard: int, process: asyncio.subprocess.Process) -> None:
        self.shown = ""  # everything that was written, escape sequences included
        self._keyboard = keyboard
        self._process = process

    @property
    def text(self) -> str:
        """Return the readable text, without lines that were shown and taken away."""
        return _ESCAPE.sub("", _ERASED.sub("", self.shown)).replace("\r", "")

    def press(self, keys: str) -> None:
        os.write(self._keyboard, keys.encode())

    async def until_shown(self, text: str) -> None:
        await until(lambda: text in self.text, END_S_MAX)

    async def until_end(self) -> int:
        async with asyncio.timeout(END_S_MAX):
            code = await self._process.wait()
        self.read()
        return code

    def read(self) -> None:
        with suppress(BlockingIOError, OSError):  # nothing there; or nobody at the other end
            while chunk := os.read(self._keyboard, 65_536):
                self.shown += chunk.decode(errors="replace")


@asynccontextmanager
async def terminal(url: str, *words: str, columns: int = 100) -> AsyncIterator[Terminal]:
    """Run a command on a terminal so wide."""
    keyboard, tty = pty.openpty()
    fcntl.ioctl(tty, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    os.set_blocking(keyboard, False)
    process = await asyncio.create_subprocess_exec(
        *HEADGATE,
        *words,
        env=environment(url, TERM="xterm-256color"),
        stdin=tty,
        stdout=tty,
        stderr=tty,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(tty)
    screen = Terminal(keyboard, process)
    loop = asyncio.get_running_loop()
    loop.add_reader(keyboard, screen.read)
    try:
        yield screen
    finally:
        loop.remove_reader(keyboard)
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(keyboard)
