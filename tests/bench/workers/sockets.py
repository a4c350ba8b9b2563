"""Twenty thousand sockets over two workers: what each takes while it waits, one append to all."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from typing import Any

from tests.bench.idle import allow_files
from tests.bench.servers import resident_bytes, serving_process
from tests.bench.table import Figure
from tests.bench.workers.places import ALL_CORES, WORKERS
from tests.bench.workers.processes import Processes

STREAM = "/v1/streams/idle"
MARKER = "the-entry-for-all"

SOCKETS = 20_000
HOLDERS = 2
"""Processes that hold the sockets: one process may not open so many files everywhere."""

FIRST_SOCKETS = 200
QUIET_S = 5.0
KIB_MAX = 30.0


def measure() -> list[Figure]:
    """Return memory and CPU of sockets that wait, and how soon the last of them has an entry."""
    allow_files(SOCKETS)
    settings: dict[str, Any] = {"ping_interval_ms": 600_000, "connections_max": SOCKETS + 100}
    with serving_process("headgate", workers=WORKERS, **settings) as (port, supervisor):
        processes = Processes.below(supervisor, WORKERS)
        processes.move_to(ALL_CORES)
        _append(port)
        with ExitStack() as holders:
            print(f"workers, sockets: {SOCKETS}", flush=True)
            holders.enter_context(_holding(port, FIRST_SOCKETS))
            warm = _workers_bytes(processes)
            engine_warm = resident_bytes(processes.engine)
            each = (SOCKETS - FIRST_SOCKETS) // HOLDERS
            watched = [holders.enter_context(_holding(port, each)) for _ in range(HOLDERS)]
            taken = _workers_bytes(processes) - warm
            taken_of_engine = resident_bytes(processes.engine) - engine_warm
            used_s = processes.workers_cpu_s + processes.engine_cpu_s
            time.sleep(QUIET_S)
            busy = (processes.workers_cpu_s + processes.engine_cpu_s - used_s) / QUIET_S
            sent_at_s = time.monotonic()
            _append(port, MARKER)
            last_s = max(float(_line(holder)) for holder in watched) - sent_at_s
    count, work = each * HOLDERS, f"idle WebSocket subscription, {SOCKETS} over {WORKERS} workers"
    return [
        Figure(f"{work}: the workers", taken / count / 1024, "KiB", at_most=KIB_MAX),
        Figure(f"{work}: the engine", taken_of_engine / count / 1024, "KiB"),
        Figure(f"{SOCKETS} sockets: CPU while nothing comes", busy * 100, "% of a core"),
        Figure(
            f"{SOCKETS} sockets: one append until the last of them has it, load on the same cores",
            last_s * 1000, "ms",
        ),
    ]  # fmt: skip


def _workers_bytes(processes: Processes) -> int:
    return sum(map(resident_bytes, processes.workers))


def _append(port: int, value: str = "first") -> None:
    control = HTTPConnection("127.0.0.1", port)
    body = f'{{"fields":{{"v":"{value}"}}}}'
    control.request("POST", f"{STREAM}/entries", body, {"Content-Type": "application/json"})
    assert control.getresponse().status == 201
    control.close()


@contextmanager
def _holding(port: int, count: int) -> Iterator["subprocess.Popen[str]"]:
    """Hold so many sockets in a process of their own while the context lasts."""
    words = str(port), f"{STREAM}/ws", str(count), MARKER
    command = [sys.executable, "-m", "tests.bench.workers.holder", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert _line(process) == "all are subscribed"
        yield process
    finally:
        process.terminate()
        process.wait(20)


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
