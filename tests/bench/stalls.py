"""How long every command, route and frame holds the event loop, with the largest it takes.

`python -m tests.bench.stalls XRANGE KEYS` does only cases with such names, and keeps no table.
"""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict

from tests.bench.report import keep
from tests.bench.table import Figure, markdown
from tests.stalls.case import Case
from tests.stalls.keyspace import Size
from tests.stalls.suite import CASES, LONG_MS, Result, results, written

CASE_S_MAX = 60
_HEADS = ["case", "held", "of it CPU", "memory", "took", "answer", "held by"]


async def measure() -> list[Figure]:
    """Measure all cases, and keep them in a table of their own."""
    found = await _all(CASES)
    keep("stalls", _table(found), [asdict(one) for one in found])
    return []


async def _all(cases: Sequence[Case]) -> list[Result]:
    size, found = Size(), []
    print("stalls: writing the keyspace", flush=True)
    with written(size) as snapshot:
        async for result in results(snapshot, size, cases, case_s_max=CASE_S_MAX):
            print(" · ".join(filter(None, _cells(result))), flush=True)
            found.append(result)
    return found


def _table(found: Sequence[Result]) -> str:
    """Return those that hold the loop too long, the longest first, and then the others."""
    longest = sorted(found, key=lambda one: one.held_ms, reverse=True)
    bad = [one for one in longest if not one.is_fine or one.held_ms > LONG_MS]
    good = [one for one in longest if one not in bad]
    parts = [
        "# Stalls\n",
        f"Longer than {LONG_MS} ms, or without an answer: {len(bad)} of {len(found)}.\n",
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
    asyncio.run(_all([one for one in CASES if any(word in one.name for word in sys.argv[1:])]))
