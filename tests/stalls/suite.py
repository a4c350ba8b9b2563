"""Suite: every case, one after the other, on gateways that start from the same snapshot."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.processes.gateway import ROOT, Gateway
from tests.stalls import (
    channels,
    cloud_events,
    commands,
    commits,
    crowds,
    durable_streams,
    frames,
    keys,
    pushes,
    routes,
    schedules,
    tables,
    transactions,
)
from tests.stalls.case import Case, Target
from tests.stalls.client import Answer, Client
from tests.stalls.keyspace import Size
from tests.stalls.prober import Prober

CASES: Sequence[Case] = [
    *commands.READING,
    *routes.READING,
    *durable_streams.READING,
    *crowds.HARMLESS,
    *transactions.HARMLESS,
    *keys.HARMLESS,
    *tables.HARMLESS,
    *frames.ALL,
    *channels.HARMLESS,
    *commands.CHANGING,
    *routes.CHANGING,
    *schedules.CHANGING,
    *pushes.CHANGING,
    *durable_streams.CHANGING,
    *cloud_events.CHANGING,
    *commands.DESTRUCTIVE,
    *routes.DESTRUCTIVE,
    *keys.DESTRUCTIVE,
    *tables.DESTRUCTIVE,
    *commits.DESTRUCTIVE,
    *schedules.DESTRUCTIVE,
    *transactions.DESTRUCTIVE,
    *crowds.DESTRUCTIVE,
]
"""In this order: what leaves less than it found comes last, each on a gateway of its own."""

LONG_MS = 20
"""Nothing may hold the loop for longer."""

SETTINGS: Mapping[str, object] = {
    "fsync": "everysec",
    "log_level": "warning",
    "loop_delay_warn_ms": 10,
    "connections_max": 20_000,
    "ping_interval_ms": 600_000,  # the sockets of a crowd answer none
}
_WARNED_AFTER_S = 1.2
"""A warning comes within about a second."""
_CALM_S = 0.05
_START_S_MAX = 300.0


class Holder(NamedTuple):
    """The gateway's account of the longest hold."""

    held_ms: float
    cpu_ms: float
    operation: str | None
    function: str | None
    stack: list[str]


@dataclass(frozen=True)
class Result:
    """The effect of a case on the gateway."""

    name: str
    outcome: str
    is_fine: bool
    """It answered, whatever it said."""
    elapsed_s: float = 0
    held_ms: float = 0
    """The longest that others waited for an answer, less what they wait for anyway."""
    grown_bytes: int = 0
    """The most memory it had meanwhile, above what it had before."""
    holder: Holder | None = None


@contextmanager
def written(size: Size) -> Iterator[Path]:
    """Write the keyspace, for as long as the context lasts."""
    with tempfile.TemporaryDirectory() as directory:
        words = [sys.executable, "-m", "tests.stalls.keyspace", directory, *map(str, size)]
        subprocess.run(words, cwd=ROOT, check=True)
        yield Path(directory)


async def results(
    snapshot: Path,
    size: Size,
    cases: Sequence[Case] = CASES,
    *,
    case_s_max: float,
    long_ms: float = LONG_MS,
) -> AsyncIterator[Result]:
    """Yield the result of each case.

    Args:
        snapshot: directory with the keyspace.
        size: of the keyspace.
        cases: what is done, in order.
        case_s_max: a case that takes longer is given up, and its gateway killed.
        long_ms: of a longer hold the gateway's warning is waited for.
    """
    left = list(cases)
    while left:
        async with _started(snapshot, size) as (target, prober):
            while left:
                case = left.pop(0)
                result = await _result(case, target, prober, case_s_max, long_ms)
                yield result
                if case.is_destructive or not result.is_fine or _is_next_alone(left):
                    break


def _is_next_alone(left: Sequence[Case]) -> bool:
    return bool(left) and left[0].is_destructive


@asynccontextmanager
async def _started(snapshot: Path, size: Size) -> AsyncIterator[tuple[Target, Prober]]:
    with tempfile.TemporaryDirectory(dir=snapshot.parent) as directory:
        _link(snapshot, Path(directory))
        gateway = await Gateway.begin(Path(directory), {**SETTINGS, "redis_port": 0})
        await gateway.until_greeting(_START_S_MAX)
        client = Client(gateway.url)
        prober = await Prober.start(client.port)
        target = Target(gateway, client, size)
        try:
            yield target, prober
        finally:
            target.let_go()
            await prober.stop()
            await gateway.kill()


def _link(snapshot: Path, directory: Path) -> None:
    for file in snapshot.glob("snapshot-*"):  # a gateway only reads or removes it
        os.link(file, directory / file.name)


async def _result(
    case: Case, target: Target, prober: Prober, case_s_max: float, long_ms: float
) -> Result:
    try:
        async with asyncio.timeout(case_s_max):
            if case.prepare is not None:
                await case.prepare(target)
            usual_ms = await _calm(prober)
    except (AssertionError, EOFError, OSError, ValueError) as error:
        return Result(case.name, f"not prepared: {error!r:.200}", is_fine=False)
    memory = _Memory(target.gateway.process_id)
    line_count, began_s = len(target.gateway.log_lines), time.perf_counter()
    outcome, is_fine = await _outcome(case, target, case_s_max)
    elapsed_s = time.perf_counter() - began_s
    held_ms = elapsed_s * 1000
    with suppress(TimeoutError):  # then it is held still
        async with asyncio.timeout(5):
            held_ms = (await prober.longest()).longest_ms - usual_ms
    target.let_go()
    grown_bytes = memory.grown_bytes()
    if held_ms > long_ms:
        await asyncio.sleep(_WARNED_AFTER_S)
    holder = _holder(target.gateway.log_lines[line_count:])
    return Result(case.name, outcome, is_fine, elapsed_s, max(held_ms, 0), grown_bytes, holder)


async def _calm(prober: Prober) -> float:
    """Return the usual time of an answer (ms), once all earlier work has ended."""
    await prober.longest()
    while True:
        await asyncio.sleep(_CALM_S)
        longest = await prober.longest()
        if longest.longest_ms < longest.median_ms + LONG_MS:
            return longest.median_ms


async def _outcome(case: Case, target: Target, case_s_max: float) -> tuple[str, bool]:
    """Do it; returns what came of it, and whether the gateway is there as before."""
    try:
        async with asyncio.timeout(case_s_max):
            answer = await case.act(target)
    except TimeoutError:
        return f"not done in {case_s_max:.0f} s", False
    except (AssertionError, EOFError, OSError, ValueError) as error:
        return f"{error!r:.100}", False
    if not isinstance(answer, Answer):
        return "", True
    return f"{answer.status} {_reason(answer)}".strip(), answer.status < 500


def _reason(answer: Answer) -> str:
    """Return the reason of a refusal."""
    if answer.status < 400:
        return ""
    try:
        problem = json.loads(answer.begin)
    except ValueError:
        return ""
    return str(problem.get("error") or problem.get("detail") or problem.get("title"))[:80]


def _holder(lines: Sequence[str]) -> Holder | None:
    """Return the longest hold of which the gateway warned."""
    holds = [json.loads(line) for line in lines if '"event loop held"' in line]
    longest = max(holds, key=lambda hold: hold["held_ms"], default=None)
    if longest is None:
        return None
    keys = "held_ms", "cpu_ms", "operation", "function", "stack"
    return Holder(*(longest[key] for key in keys))


class _Memory:
    """The most memory a process has from now on (Linux)."""

    def __init__(self, process_id: int) -> None:
        self._directory = Path(f"/proc/{process_id}")
        with suppress(OSError):
            (self._directory / "clear_refs").write_text("5")
        self._had_bytes = self._bytes("VmRSS")

    def grown_bytes(self) -> int:
        return max(self._bytes("VmHWM") - self._had_bytes, 0)

    def _bytes(self, name: str) -> int:
        with suppress(OSError):  # it has ended, or this is not Linux
            for line in (self._directory / "status").read_text().splitlines():
                if line.startswith(name):
                    return int(line.split()[1]) * 1024
        return 0
