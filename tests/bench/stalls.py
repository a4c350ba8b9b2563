"""Holds of the event loop by every command, route and frame, with the largest it takes.

`python -m tests.bench.stalls XRANGE KEYS` does only cases with such names, and keeps no table.
"""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict

from tests.bench.figures import Figure, markdown
from tests.bench.report import keep
from tests.stalls.case import Case
from tests.stalls.keyspace import Size
from tests.stalls.suite import CASES, LONG_MS, Result, results, written

CASE_S_MAX = 60
_HEADS = ["case", "held", "of it CPU", "memory", "took", "answer", "held by"]


async def measure() -> list[Figure]:
    """Measure all cases, and keep them in a table of their own."""
    measured = await _all(CASES)
    keep("stalls", _table(measured), [asdict(result) for result in measured])
    return []


async def _all(cases: Sequence[Case]) -> list[Result]:
    size, measured = Size(), []
    print("stalls: writing the keyspace", flush=True)
    with written(size) as snapshot:
        async for result in results(snapshot, size, cases, case_s_max=CASE_S_MAX):
            print(" · ".join(filter(None, _cells(result))), flush=True)
            measured.append(result)
    return measured


def _table(measured: Sequence[Result]) -> str:
    """Return those that hold the loop too long, the longest first, and then the others."""
    longest = sorted(measured, key=lambda result: result.held_ms, reverse=True)
    bad = [result for result in longest if not result.is_fine or result.held_ms > LONG_MS]
    good = [result for result in longest if result not in bad]
    parts = [
        "# Stalls\n",
        f"Longer than {LONG_MS} ms, or without an answer: {len(bad)} of {len(measured)}.\n",
        markdown(_HEADS, list(map(_cells, bad))),
        f"Not longer than {LONG_MS} ms: {len(good)}.\n",
        markdown(_HEADS, list(map(_cells, good))),
    ]
    return "\n".join(parts)


def _cells(result: Result) -> list[str]:
    holder = result.holder
    by = ""
    if holder is not None:
        by = f"{holder.function or 'nothing of the loop'} ({holder.operation})"
    return [
        result.name,
        f"{result.held_ms:.0f} ms",
        "" if holder is None else f"{holder.cpu_ms:.0f} ms",
        f"{result.grown_bytes / 2**20:.0f} MiB",
        f"{result.elapsed_s:.2f} s",
        result.outcome,
        by,
    ]


if __name__ == "__main__":
    asyncio.run(_all([case for case in CASES if any(word in case.name for word in sys.argv[1:])]))
