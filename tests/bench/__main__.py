"""`make bench`: speed, in ratios of one run. `ARGS=engine` measures only that part."""

import argparse
import asyncio
import importlib
import inspect
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.bench import flames, peers, report
from tests.bench.servers import LOAD_CORE
from tests.bench.table import Figure, size_of

PARTS = [
    "engine",
    "growth",
    "durability",
    "gateway",
    "fanout",
    "consume",
    "idle",
    "redelivery",
    "sizing",
    "frames",
    "delivery",
    "spark",
]
"""Modules of this package."""

PICTURES = "flames"
"""Drawn only when asked for: a profiler slows down what it looks at."""

CLUSTER = "cluster"
"""Measured only when asked for: it takes five minutes."""

WORKERS = "workers"
"""Measured only when asked for: it takes three minutes."""

RESP = "resp"
"""Measured only when asked for: it takes two minutes."""

CONNECTOR = "connector"
"""Measured only when asked for: it takes two minutes with a million entries."""

STORAGE = "storage"
"""Measured only when asked for: it takes three minutes, and longer with sizes of its own."""

BUCKET = "bucket"
"""Measured only when asked for: it takes a minute and a half."""

DURABLE_STREAMS = "durable_streams"
"""Measured only when asked for: it takes a minute and a half."""

PUSH = "push"
"""Measured only when asked for: it takes a minute and a half."""

REMADE = "remade"
"""Measured only when asked for: what is re-made of FastAPI and uvicorn, part by part."""

STALLS = "stalls"
"""Measured only when asked for: it takes a quarter of an hour, and keeps a table of its own."""


def main() -> None:
    known = [
        *PARTS,
        CLUSTER,
        WORKERS,
        RESP,
        CONNECTOR,
        STORAGE,
        BUCKET,
        DURABLE_STREAMS,
        PUSH,
        REMADE,
        STALLS,
        *([] if flames.PROFILER is None else [PICTURES]),
    ]
    asked = _asked()
    wanted = asked.parts or PARTS
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
        options = {"sizes": asked.sizes, "kind": asked.kind} if name == STORAGE else {}
        figures = _measured(name, options)
        if figures:
            report.keep_figures(name, figures)
            kept.append(name)
        print(f"{name}: {time.perf_counter() - part_began_s:.0f} s\n", flush=True)
    if kept:
        print(report.shown(kept))
    print(f"in all: {time.perf_counter() - began_s:.0f} s")


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="parts to measure; the usual ones unless given")
    storage = parser.add_argument_group(STORAGE)
    storage.add_argument(
        "--sizes",
        nargs="+",
        type=size_of,
        default=(),
        help="bytes of values, such as 300MB; with more than one a stream grows to each",
    )
    storage.add_argument(
        "--kind", choices=("short", "large"), default="large", help="entries of what grows"
    )
    return parser.parse_args()


def _measured(name: str, options: Mapping[str, Any]) -> Sequence[Figure]:
    measured = importlib.import_module(f"tests.bench.{name}").measure(**options)
    figures: Sequence[Figure] = asyncio.run(measured) if inspect.iscoroutine(measured) else measured
    return figures


if __name__ == "__main__":
    main()
