"""`make bench`: speed, in ratios of one run. `ARGS=engine` measures only that part."""

import argparse
import asyncio
import importlib
import inspect
import os
import platform
import sys
import time
from collections.abc import Sequence

from tests.bench import flames, peers, report
from tests.bench.figures import Figure
from tests.bench.servers import LOAD_CORE

PARTS = ["engine", "growth", "durability", "gateway", "fanout", "consume", "idle"]
PARTS += ["redelivery", "sizing", "frames", "delivery", "nats", "durable_streams"]
"""Modules of this package."""

WHEN_ASKED = ["count", "cluster", "workers", "resp", "connector", "bucket", "stalls", "table"]
WHEN_ASKED += ["commit", "channels"]
"""Measured only when asked for: they take minutes."""

PICTURES = "flames"
"""Drawn only when asked for: a profiler slows down what it looks at."""


def main() -> None:
    known = [*PARTS, *WHEN_ASKED, *([] if flames.PROFILER is None else [PICTURES])]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="parts to measure; the usual ones unless given")
    wanted = parser.parse_args().parts or PARTS
    unknown = [name for name in wanted if name not in known]
    if unknown:
        sys.exit(f"there is no {', '.join(unknown)} to measure, only {', '.join(known)}")
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, one for what is measured")
    if peers.missing():
        print(f"left out, because it is not installed: {', '.join(peers.missing())}")
    began_s, kept = time.perf_counter(), list[str]()
    for name in wanted:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {LOAD_CORE})
        part_began_s = time.perf_counter()
        figures = _measured(name)
        if figures:
            report.keep_figures(name, figures)
            kept.append(name)
        print(f"{name}: {time.perf_counter() - part_began_s:.0f} s\n", flush=True)
    if kept:
        print(report.shown(kept))
    print(f"in all: {time.perf_counter() - began_s:.0f} s")


def _measured(name: str) -> Sequence[Figure]:
    measured = importlib.import_module(f"tests.bench.{name}").measure()
    figures: Sequence[Figure] = asyncio.run(measured) if inspect.iscoroutine(measured) else measured
    return figures


if __name__ == "__main__":
    main()
