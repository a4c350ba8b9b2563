"""Servers: a gateway, and the redis-server that its port for Redis clients is compared with."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from deploy.local_cluster.server import free_ports

START_S_MAX = 30.0


@contextmanager
def gateway_port(*options: str) -> Iterator[int]:
    """Run a gateway that keeps nothing while the context lasts; yield its port."""
    [port] = free_ports(1)
    command = [sys.executable, "-m", "headgate.app.cli", "serve", "--data-dir", ":memory:"]
    command += ["--port", "0", "--redis-port", str(port), "--log-level", "error", *options]
    with ended(subprocess.Popen(command, stderr=subprocess.DEVNULL)):
        until_open(port)
        yield port


@contextmanager
def server_port(*options: str, program: str | Path = "redis-server") -> Iterator[int]:
    """Run a server that keeps nothing while the context lasts; yield its port."""
    [port] = free_ports(1)
    command = [program, "--port", str(port), "--save", "", "--appendonly", "no", *options]
    with ended(subprocess.Popen(command, stdout=subprocess.DEVNULL)):
        until_open(port)
        yield port


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End a process with the context."""
    try:
        yield
    finally:
        process.terminate()
        process.wait(START_S_MAX)


def until_open(port: int) -> None:
    """Return once something accepts connections."""
    end_s = time.monotonic() + START_S_MAX
    while time.monotonic() < end_s:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.02)
    raise TimeoutError("nobody listens")
