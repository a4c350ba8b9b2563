"""Servers under load, each in a process of its own on the second core."""

import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

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
        port = free_port()
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


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def _wait_listening(port: int) -> None:
    for _ in range(2_000):  # a large data directory takes its time
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"nothing listens on port {port}")
