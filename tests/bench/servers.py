"""Servers under load, each in a process of its own on the second core."""

import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from deploy.local_cluster.server import free_ports

SERVER_CORE, LOAD_CORE = 1, 0

Message = dict[str, Any]


async def bare(scope: Message, receive: Any, send: Any) -> None:
    """Answer every request with the body of an append: the limit of the server we stand on."""
    assert scope["type"] == "http"
    while (await receive())["more_body"]:
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"24")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": b'{"id":"1795225468445-0"}'})


@contextmanager
def serving(name: str, fsync: str = "everysec", **settings: object) -> Iterator[int]:
    """Run a server while the context lasts, on data of its own; yields its port."""
    with serving_process(name, fsync, None, **settings) as (port, _):
        yield port


@contextmanager
def serving_process(
    name: str, fsync: str = "everysec", log: Path | None = None, **settings: object
) -> Iterator[tuple[int, int]]:
    """Run a server while the context lasts, on data of its own; yields its port and process id."""
    variables = {f"HEADGATE_{key.upper()}": str(value) for key, value in settings.items()}
    with tempfile.TemporaryDirectory() as data_dir:
        variables["LEAST_DATA_DIR"] = data_dir
        serve = ["-m", "headgate.app.cli", "serve"]
        commands = {
            "bare uvicorn": ["-m", "uvicorn", "tests.bench.servers:bare", "--lifespan", "off"],
            "the least": ["-m", "uvicorn", "tests.bench.least:app"],
            "plain FastAPI": ["-m", "uvicorn", "tests.bench.plain:app", "--lifespan", "off"],
            "headgate": [*serve, "--data-dir", data_dir, "--fsync", fsync],
        }
        [port] = free_ports(1)
        command = [sys.executable, *commands[name], "--port", str(port), "--log-level", "warning"]
        with running(command, port, variables, log) as process_id:
            yield port, process_id


@contextmanager
def running(
    command: list[str],
    port: int,
    variables: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> Iterator[int]:
    """Run a server that listens on `port` while the context lasts; yields its process id."""
    with Path(log or os.devnull).open("wb") as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, **(variables or {})},
            stdout=subprocess.DEVNULL,
            stderr=output,
        )
    try:
        pin_to_server_core(process.pid)
        _wait_listening(port)
        yield process.pid
    finally:
        process.terminate()
        process.wait(20)


class RestartedServer:
    """A server that is stopped, killed and started again on the same data."""

    def __init__(
        self,
        command: Sequence[str],
        is_ready: Callable[[], bool],
        variables: Mapping[str, str] | None = None,
        log: Path | None = None,
        *,
        is_pinned: bool = True,
    ) -> None:
        """Describe a server; `start` runs it.

        Args:
            command: its program and arguments.
            is_ready: tells whether it serves requests.
            variables: of its environment, besides those of this process.
            log: file of its log; None: nobody reads it.
            is_pinned: it has the second core, and not all of them.
        """
        self._command, self._is_ready, self._is_pinned = command, is_ready, is_pinned
        self._variables = {**os.environ, **(variables or {})}
        self._log = Path(log or os.devnull)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, seconds_max: float = 600) -> float:
        """Return the seconds from the start of its process until it was ready.

        Raises:
            TimeoutError: it was not ready in time.
            ChildProcessError: it has ended.
        """
        began_s = time.perf_counter()
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, env=self._variables, stdout=subprocess.DEVNULL, stderr=output
            )
        cores = set(range(os.cpu_count() or 1))
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(self.process_id, cores)
        if self._is_pinned:
            pin_to_server_core(self.process_id)
        while not self._is_ready():
            if self._process.poll() is not None:
                raise ChildProcessError(f"{self._command[0]} ended: {self._process.returncode}")
            if time.perf_counter() > began_s + seconds_max:
                raise TimeoutError(f"it was not ready in {seconds_max:.0f} s")
            time.sleep(0.005)
        return time.perf_counter() - began_s

    def stop(self, how: signal.Signals = signal.SIGTERM, seconds_max: float = 120) -> float:
        """Return the seconds that its end took, if it runs; it is killed if it takes too long."""
        began_s = time.perf_counter()
        if self._process is not None:
            self._process.send_signal(how)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds_max)
            self._process.kill()
            self._process.wait()
        return time.perf_counter() - began_s


def pin_to_server_core(pid: int) -> None:
    """Keep a process off the core that makes the load, where there are two."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(pid, {SERVER_CORE % (os.cpu_count() or 1)})


def cpu_s(process_id: int) -> float:
    """Return the seconds of CPU a process has used, the system's for it included."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children_cpu_s(process_id: int) -> float:
    """Return the seconds of CPU of all below a process, those that have ended included."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    total = (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
    for member in family(process_id)[1:]:
        with suppress(OSError):  # it has ended
            total += cpu_s(member)
    return total


def resident_bytes(process_id: int) -> int:
    """Return the memory a process has."""
    pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def family(process_id: int) -> list[int]:
    """Return a process and all below it."""
    members = [process_id]
    for member in members:  # which grows meanwhile
        for task in Path(f"/proc/{member}/task").glob("*/children"):
            with suppress(OSError):  # it has ended
                members += map(int, task.read_text().split())
    return members


def family_resident_bytes(process_id: int) -> int:
    """Return the memory of a process and of all below it."""
    program, total = _program(process_id), resident_bytes(process_id)
    for member in family(process_id)[1:]:
        with suppress(OSError):
            # One that has not begun its program yet still shows its parent's memory.
            total += resident_bytes(member) if _program(member) != program else 0
    return total


def _program(process_id: int) -> bytes:
    return Path(f"/proc/{process_id}/cmdline").read_bytes()


def _wait_listening(port: int) -> None:
    for _ in range(2_000):  # a large data directory takes its time
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"nothing listens on port {port}")
