"""`make bench ARGS=flames`: the time of the three hottest paths, as flame graphs."""

import asyncio
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from tests.bench import consume, fanout, gateway
from tests.bench.figures import Figure
from tests.bench.load import Load
from tests.bench.report import FOLDER
from tests.bench.servers import serving_process

SECONDS = 4.0
SAMPLES_PER_S = 250
PROFILER = shutil.which("py-spy", path=str(Path(sys.executable).parent))

Use = Callable[[int], None]
"""Keeps the gateway at a port busy for longer than is looked at."""


def measure() -> list[Figure]:
    """Draw them into the results; there are no figures."""
    paths: dict[str, tuple[Use, Use]] = {
        "append": (lambda port: None, _append),
        "consume": (consume.prepare, _consume),
        "fanout": (lambda port: None, _fan_out),
    }
    for name, (prepare, use) in paths.items():
        print(f"flames: {name}", flush=True)
        with serving_process("headgate") as (port, process_id):
            prepare(port)
            using = threading.Thread(target=use, args=(port,))
            using.start()
            _draw(process_id, FOLDER / f"flame-{name}.svg")
            using.join()
    return []


def _append(port: int) -> None:
    load = Load("127.0.0.1", port, gateway.SINGLE, connections=32)
    asyncio.run(load.per_second(SECONDS + 2))


def _consume(port: int) -> None:
    for group in consume.GROUPS:
        consume.read_and_acknowledge(port, group)


def _fan_out(port: int) -> None:
    fanout.deliveries_per_second([fanout.gateway(port)], SECONDS + 2)


def _draw(process_id: int, path: Path) -> None:
    assert PROFILER is not None
    command = [PROFILER, "record", "--pid", str(process_id), "--output", str(path)]
    command += ["--function", "--gil"]  # a thread that waits for work is taken for a busy one
    command += ["--rate", str(SAMPLES_PER_S), "--duration", f"{SECONDS:.0f}"]
    subprocess.run(command, check=True, capture_output=True)
    path.write_text(path.read_text().replace(" ".join(command), path.stem))  # its title
