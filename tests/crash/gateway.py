"""A gateway in a process of its own, to be killed; and the `headgate` command."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import pytest

from tests.crash.credentials import CREDENTIALS
from tests.servers.chosen import servers_for

ROOT = Path(__file__).parent.parent.parent
START_S_MAX = 60.0
END_S_MAX = 30.0

WORKERS = int(os.environ.get("HEADGATE_TEST_WORKERS", "1"))
"""With more than one, gateways have so many worker processes, and an engine process."""


def headgate(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command line of this checkout, and return what became of it."""
    command = [sys.executable, "-m", "headgate.app.cli", *map(str, words)]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=END_S_MAX,
        check=False,
    )


def failure_of(stderr: str) -> str:
    """Return why a command has failed; `serve` says it in a line of its log."""
    last = stderr.splitlines()[-1]
    event: str = json.loads(last)["event"] if last.startswith("{") else stderr.rstrip("\n")
    return event.removeprefix("Error: ")


class Gateway:
    """One life of `headgate serve` on a directory."""

    running: ClassVar[set[Gateway]] = set()
    worker_count: ClassVar[int] = WORKERS

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.url = ""
        self.log_lines: list[str] = []  # lines of its standard error
        self._process = process
        self._is_killed = False
        self.running.add(self)
        self._listening = asyncio.create_task(self._listen())
        self.loop = asyncio.get_running_loop()
        self._greeting: asyncio.Future[None] = self.loop.create_future()

    @classmethod
    async def begin(
        cls,
        data_dir: Path,
        settings: Mapping[str, object] | None = None,
        *,
        file_size_bytes_max: int = resource.RLIM_INFINITY,
        files_max: int | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Gateway:
        """Start the process, and do not wait for anything.

        Args:
            data_dir: where it keeps its journal.
            settings: by name, given as variables.
            file_size_bytes_max: what the system lets a file of it grow to.
            files_max: how many files the system lets it open.
            variables: further ones, which are no settings.
        """

        def limit() -> None:
            sizes = file_size_bytes_max, file_size_bytes_max
            resource.setrlimit(resource.RLIMIT_FSIZE, sizes)
            if files_max is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))

        chosen = {"port": 0, "workers": cls.worker_count, **servers_for(data_dir)}
        chosen |= {**CREDENTIALS.settings, **(settings or {})}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "headgate.app.cli", "serve", "--data-dir", str(data_dir)),
            cwd=ROOT,
            env={**_environment(), **_variables(chosen), **(variables or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            preexec_fn=limit,
            start_new_session=True,
        )
        return cls(process)

    @classmethod
    async def start(
        cls,
        data_dir: Path,
        settings: Mapping[str, object] | None = None,
        *,
        file_size_bytes_max: int = resource.RLIM_INFINITY,
        files_max: int | None = None,
    ) -> Gateway:
        """Start the process, and return once it accepts connections."""
        gateway = await cls.begin(
            data_dir, settings, file_size_bytes_max=file_size_bytes_max, files_max=files_max
        )
        await gateway.until_greeting()
        return gateway

    @property
    def has_ended(self) -> bool:
        """Tell whether its process has ended."""
        return self._process.returncode is not None

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    @property
    def engine_id(self) -> int:
        """Return the id of the process that keeps the streams."""
        return self.process_ids().get("engine", self.process_id)

    def process_count(self) -> int:
        """Return the number of other processes of the gateway, with ending ones."""
        return len(self._children())

    def _children(self) -> list[str]:
        main = self._process.pid
        return Path(f"/proc/{main}/task/{main}/children").read_text().split()

    def process_ids(self) -> dict[str, int]:
        """Return the ids of the other processes of the gateway: `engine`, `worker 1` and so on."""
        ids = {}
        for child in self._children():
            with suppress(OSError):  # it ends at this very moment
                words = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
                if "headgate.app.workers" in words:
                    ids[words[-3]] = int(child)
        return ids

    def signal(self, number: int) -> None:
        """Send a signal to the process that was started."""
        self._process.send_signal(number)

    def signal_all(self, number: int) -> None:
        """Send a signal to all processes, as a terminal does."""
        os.killpg(self._process.pid, number)

    def kill_engine_now(self) -> None:
        """End the engine process alone as a power switch does; the gateway goes on."""
        os.kill(self.process_ids()["engine"], signal.SIGKILL)

    async def until_greeting(self, within_s: float = START_S_MAX) -> None:
        """Return once it accepts connections; `url` is known then."""
        async with asyncio.timeout(within_s):
            await self._greeting

    def kill_now(self) -> None:
        """End it as a power switch does, if it has not ended, before the next statement."""
        if self._process.returncode is None and not self._is_killed:
            self._is_killed = True  # from now on its id may be that of another process
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(self._process.pid, signal.SIGKILL)

    async def kill(self) -> None:
        """End it as a power switch does, and return once it has ended."""
        self.kill_now()
        await self.until_end()

    async def stop(self) -> None:
        """Ask it to end, and return once it has."""
        self._process.send_signal(signal.SIGTERM)
        assert await self.until_end() == 0

    async def until_end(self) -> int:
        """Return its exit code once it has ended and everything it said is known."""
        async with asyncio.timeout(END_S_MAX):
            code = await self._process.wait()
            await self._listening
        self.running.discard(self)
        return code

    async def _listen(self) -> None:
        """Note the lines of the gateway; its pipe is never full."""
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            self.log_lines.append(line.decode().rstrip("\n"))
            match = re.search(r"Headgate is at (https?://\S+),", self.log_lines[-1])
            if match and not self._greeting.done():
                self.url = match[1]
                self._greeting.set_result(None)
        if not self._greeting.done():
            output: Sequence[str] = self.log_lines or ["nothing"]
            self._greeting.set_exception(ChildProcessError("\n".join(output)))
            self._greeting.exception()  # whoever waits is told; nobody need wait


@pytest.fixture(autouse=True)
async def no_gateway_left() -> AsyncIterator[None]:
    """Kill the gateways of a test that failed; who imports it has it around each test."""
    yield
    for gateway in list(Gateway.running):
        if gateway.loop is asyncio.get_running_loop():
            await gateway.kill()
        else:  # left by a test without this fixture; nobody can wait for it any more
            gateway.kill_now()
            Gateway.running.discard(gateway)
        print("\n".join(line for line in gateway.log_lines if "exc_info" in line))


def _environment() -> dict[str, str]:
    """Return the variables of this process, but for those of the tests: they are no settings."""
    return {
        name: text for name, text in os.environ.items() if not name.startswith("HEADGATE_TEST_")
    }


def _variables(settings: Mapping[str, object]) -> dict[str, str]:
    return {f"HEADGATE_{name.upper()}": str(value) for name, value in settings.items()}
