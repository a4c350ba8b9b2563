"""A gateway in a process of its own, to be stopped and killed; and the `headgate` command."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Self

import pytest

from deploy.local_cluster.server import free_ports
from tests.processes.credentials import CREDENTIALS
from tests.servers.chosen import servers_for

ROOT = Path(__file__).parents[2]
HEADGATE = [sys.executable, "-m", "headgate.app.cli"]
HOST = "127.0.0.1"
START_S_MAX = 60.0
END_S_MAX = 30.0

WORKERS = int(os.environ.get("HEADGATE_TEST_WORKERS", "1"))
"""With more than one, gateways have so many worker processes, and an engine process."""


def headgate(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command line of this checkout, and return what became of it."""
    return subprocess.run(
        [*HEADGATE, *map(str, words)],
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


class GatewayProcess:
    """One life of `headgate serve` on a directory. Its methods block."""

    worker_count: ClassVar[int] = WORKERS

    def __init__(
        self,
        data_dir: Path | str,
        settings: Mapping[str, object] | None = None,
        *,
        file_size_bytes_max: int | None = None,
        files_max: int | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Start the process, and do not wait for anything.

        Args:
            data_dir: where it keeps its journal.
            settings: by name, given as variables.
            file_size_bytes_max: what the system lets a file of it grow to (Linux).
            files_max: how many files the system lets it open (likewise).
            variables: further ones, which are no settings.
        """
        self.url = ""
        self.log_lines: list[str] = []  # lines of its standard error
        self._is_killed = False
        [port] = free_ports(1)  # kept, so it can be started again at its address
        chosen = {"port": port, "workers": self.worker_count, **servers_for(Path(data_dir))}
        chosen |= {**CREDENTIALS.settings, **(settings or {})}
        named = {f"HEADGATE_{name.upper()}": str(value) for name, value in chosen.items()}
        self._process = subprocess.Popen(
            [*HEADGATE, "serve", "--data-dir", str(data_dir)],
            cwd=ROOT,
            env={**_environment(), **named, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        if file_size_bytes_max is not None:
            self._limit(resource.RLIMIT_FSIZE, file_size_bytes_max)
        if files_max is not None:
            self._limit(resource.RLIMIT_NOFILE, files_max)
        self._greets = threading.Event()
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    @classmethod
    def started(cls, data_dir: Path | str, settings: Mapping[str, object] | None = None) -> Self:
        """Start the process, and return once it accepts connections."""
        gateway = cls(data_dir, settings)
        gateway.wait_for_greeting()
        return gateway

    @property
    def has_ended(self) -> bool:
        """Tell whether its process has ended."""
        return self._process.poll() is not None

    @property
    def is_running(self) -> bool:
        return not self.has_ended

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def engine_id(self) -> int:
        """Return the id of the process that keeps the streams."""
        return self.process_ids().get("engine", self.process_id)

    @property
    def port(self) -> int:
        """Return its port, with which it can be started again at its address."""
        return int(self.url.rpartition(":")[2])

    @property
    def redis_port(self) -> int:
        """Return the port for Redis clients."""
        [port] = [json.loads(line)["redis_port"] for line in self.log_lines if "redis_port" in line]
        return int(port)

    @property
    def redis_url(self) -> str:
        """Return the URL for Redis clients."""
        return f"redis://{HOST}:{self.redis_port}"

    def process_count(self) -> int:
        """Return the number of other processes of the gateway, with ending ones."""
        return len(self._children())

    def _children(self) -> list[str]:
        main = self.process_id
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

    def memory_bytes(self, name: str = "VmRSS") -> int:
        """Return the memory of its process as the system counts it (Linux)."""
        text = Path(f"/proc/{self.process_id}/status").read_text()
        match = re.search(rf"{name}:\s+(\d+) kB", text)
        assert match is not None, text
        return int(match[1]) * 1024

    def complaints(self) -> list[str]:
        """Return the lines of its log that tell of an error."""
        return [
            line
            for line in self.log_lines
            if any(word in line for word in ("ERROR", "CRITICAL", "Traceback"))
        ]

    def signal(self, number: int) -> None:
        """Send a signal to the process that was started."""
        self._process.send_signal(number)

    def signal_all(self, number: int) -> None:
        """Send a signal to all processes, as a terminal does."""
        os.killpg(self.process_id, number)

    def kill_process(self, name: str) -> None:
        """End one of its other processes as a power switch does; the gateway goes on."""
        os.kill(self.process_ids()[name], signal.SIGKILL)

    def kill_now(self) -> None:
        """End it as a power switch does, if it has not ended, before the next statement."""
        if self._process.poll() is None and not self._is_killed:
            self._is_killed = True
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(self.process_id, signal.SIGKILL)

    def wait_for_greeting(self, within_s: float = START_S_MAX) -> None:
        """Return once it accepts connections; `url` is known then.

        Raises:
            ChildProcessError: it has ended, or says nothing in time; the error has its log.
        """
        self._greets.wait(within_s)
        if not self.url:
            raise ChildProcessError("\n".join(self.log_lines or ["nothing"]))

    def wait(self) -> int:
        """Return its exit code once it has ended and everything it said is known."""
        code = self._process.wait(END_S_MAX)
        self._listening.join(END_S_MAX)
        return code

    def terminate(self) -> int:
        """Ask it to end, and return its exit code once it has; one that hangs is killed."""
        self.signal(signal.SIGTERM)
        try:
            return self.wait()
        finally:
            self.kill_now()

    def _limit(self, which: int, limit: int) -> None:
        resource.prlimit(self.process_id, which, (limit, limit))  # Python has not begun yet

    def _listen(self) -> None:
        """Note the lines of the gateway; its pipe is never full."""
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self.log_lines.append(line.rstrip("\n"))
                match = re.search(r"Headgate is at (https?://[^\s,]+),", line)
                if match and not self.url:
                    self.url = match[1]
                    self._greets.set()
        self._greets.set()


class Gateway(GatewayProcess):
    """The same for coroutines: they go on while a gateway starts and ends."""

    running: ClassVar[set[Gateway]] = set()

    @classmethod
    async def begin(
        cls,
        data_dir: Path,
        settings: Mapping[str, object] | None = None,
        *,
        variables: Mapping[str, str] | None = None,
        file_size_bytes_max: int | None = None,
        files_max: int | None = None,
    ) -> Gateway:
        """Start the process, and do not wait for anything."""
        gateway = cls(
            data_dir,
            settings,
            variables=variables,
            file_size_bytes_max=file_size_bytes_max,
            files_max=files_max,
        )
        cls.running.add(gateway)
        return gateway

    @classmethod
    async def start(
        cls,
        data_dir: Path,
        settings: Mapping[str, object] | None = None,
        *,
        file_size_bytes_max: int | None = None,
        files_max: int | None = None,
    ) -> Gateway:
        """Start the process, and return once it accepts connections."""
        gateway = await cls.begin(
            data_dir, settings, file_size_bytes_max=file_size_bytes_max, files_max=files_max
        )
        await gateway.until_greeting()
        return gateway

    async def until_greeting(self, within_s: float = START_S_MAX) -> None:
        """Return once it accepts connections; `url` is known then."""
        await asyncio.to_thread(self.wait_for_greeting, within_s)

    async def kill(self) -> None:
        """End it as a power switch does, and return once it has ended."""
        self.kill_now()
        await self.until_end()

    async def stop(self) -> None:
        """Ask it to end, and return once it has."""
        self.signal(signal.SIGTERM)
        assert await self.until_end() == 0

    async def until_end(self) -> int:
        """Return its exit code once it has ended and everything it said is known."""
        code = await asyncio.to_thread(self.wait)
        self.running.discard(self)
        return code


@pytest.fixture(autouse=True)
async def no_gateway_left() -> AsyncIterator[None]:
    """Kill the gateways of a test that failed; who imports it has it around each test."""
    yield
    for gateway in list(Gateway.running):
        await gateway.kill()
        lines = [line for line in gateway.log_lines if '"INFO"' not in line]
        sys.stdout.write("\n".join([gateway.url, *lines, ""]))


def _environment() -> dict[str, str]:
    """Return the variables of this process, but for those of the tests: they are no settings."""
    return {
        name: text for name, text in os.environ.items() if not name.startswith("HEADGATE_TEST_")
    }
