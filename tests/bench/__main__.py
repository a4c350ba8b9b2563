"""`make bench`: how fast, in ratios of one run. `ARGS=engine` measures only that part."""

import asyncio
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench import (
    consume,
    durability,
    engine,
    fanout,
    gateway,
    growth,
    idle,
    peers,
    redelivery,
    spark,
)
from tests.bench.servers import LOAD_CORE
from tests.bench.table import show

RESULTS = Path(__file__).parent / "results"


def _engine() -> None:
    show("engine", asyncio.run(engine.measure()), RESULTS)


def _growth() -> None:
    growth.show(asyncio.run(growth.measure()), RESULTS)


def _gateway() -> None:
    show("gateway", asyncio.run(gateway.measure()), RESULTS)


def _durability() -> None:
    show("durability", asyncio.run(durability.measure()), RESULTS)


def _idle() -> None:
    show("idle", asyncio.run(idle.measure()), RESULTS)


def _redelivery() -> None:
    show("redelivery", asyncio.run(redelivery.measure()), RESULTS)


def _fanout() -> None:
    show("fanout", fanout.measure(), RESULTS)


def _consume() -> None:
    show("consume", consume.measure(), RESULTS)


def _spark() -> None:
    show("spark", spark.measure(), RESULTS)


PARTS: dict[str, Callable[[], None]] = {
    "engine": _engine,
    "growth": _growth,
    "durability": _durability,
    "gateway": _gateway,
    "fanout": _fanout,
    "consume": _consume,
    "idle": _idle,
    "redelivery": _redelivery,
    "spark": _spark,
}


def main() -> None:
    wanted = sys.argv[1:] or list(PARTS)
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        sys.exit(f"there is no {', '.join(unknown)} to measure, only {', '.join(PARTS)}")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {LOAD_CORE})
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, one for what is measured")
    if peers.missing():
        print(f"left out, because it is not installed: {', '.join(peers.missing())}")
    for name in wanted:
        started = time.perf_counter()
        PARTS[name]()
        print(f"{name}: {time.perf_counter() - started:.0f} s\n", flush=True)


if __name__ == "__main__":
    main()
