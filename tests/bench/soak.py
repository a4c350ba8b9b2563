"""`make soak`: everything at once for ten minutes. Nothing may grow, slow down or be warned of."""

import argparse
import asyncio
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench.analyst import Analyst, missing
from tests.bench.crowd import NAME, Crowd
from tests.bench.figures import markdown, p50_p99, short
from tests.bench.plot import plot_soak
from tests.bench.report import FOLDER, keep
from tests.bench.servers import LOAD_CORE, resident_bytes, serving_process
from tests.processes.wire import Wire

EVERY_S = 10.0
WARM_UP = 0.25
"""Share of the time until everything has been used and the stream is full."""
GROWTH_MAX = 0.05
"""Of memory and of files, over the time after the warm-up."""
SLOWER_MAX = 2.0
"""Ratio of the later half's p99 to the earlier one's, at most: other work comes and goes beside."""
REWRITE_BYTES_MIN = 2**20
_GREETING = "Headgate is at"


@dataclass(frozen=True)
class Sample:
    """The state at one moment, with the times since the moment before."""

    at_s: float
    resident_mib: float
    append_p50_ms: float
    append_p99_ms: float
    delivery_p50_ms: float
    delivery_p99_ms: float
    deliveries: int
    files: int
    connections: float
    waiters: float
    tasks: float
    rewrites: float
    journal_mib: float


@dataclass(frozen=True)
class Verdict:
    """Something that should not happen, and whether it did."""

    question: str
    measured: str
    is_well: bool


async def soak(minutes: float) -> list[Verdict]:
    """Run the crowd for so long; returns what is to be said of it."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with (
            serving_process("headgate", log=log, rewrite_bytes_min=REWRITE_BYTES_MIN) as (
                port,
                process_id,
            ),
            _analyst(port) as analyst,
        ):
            crowd = Crowd(port, analyst)
            await crowd.prepare()
            samples = await _watched(crowd, port, process_id, minutes * 60)
        output = [line for line in log.read_text().splitlines() if _GREETING not in line]
    verdicts = _verdicts(samples, output)
    did = f"{crowd.acked} acknowledged, {crowd.claimed} claimed, {crowd.spark_reads} Spark reads, "
    did += f"{crowd.connects} connections begun, {samples[-1].rewrites:g} rewrites"
    _show(samples, verdicts, did)
    return verdicts


def _analyst(port: int) -> AbstractContextManager[Analyst | None]:
    why = missing()
    if why is None:
        return closing(Analyst(f"http://127.0.0.1:{port}", NAME))
    print(f"left out: reads with Spark, because {why}")
    return nullcontext()


async def _watched(crowd: Crowd, port: int, process_id: int, seconds: float) -> list[Sample]:
    samples: list[Sample] = []
    using = asyncio.create_task(crowd.run())
    began_s = time.monotonic()
    while time.monotonic() < began_s + seconds:
        await asyncio.wait([using], timeout=EVERY_S)
        if using.done():
            break
        wire = await Wire.open(f"http://127.0.0.1:{port}")
        text = await wire.request("GET", "/metrics")
        wire.close()
        at_s = time.monotonic() - began_s
        samples.append(_sample(crowd, at_s, process_id, text))
        last = samples[-1]
        print(
            f"{last.at_s:4.0f} s  {last.resident_mib:6.1f} MiB"
            f"  append p99 {last.append_p99_ms:6.2f} ms"
            f"  delivery p99 {last.delivery_p99_ms:6.2f} ms  {last.files} files"
            f"  {last.connections:g} connections  {last.waiters:g} waiters  {last.tasks:g} tasks"
            f"  {last.rewrites:g} rewrites",
            flush=True,
        )
    using.cancel()
    with suppress(asyncio.CancelledError):
        await using
    return samples


def _sample(crowd: Crowd, at_s: float, process_id: int, metrics: str) -> Sample:
    """Take the measurements since the last sample."""
    append, crowd.append_ms = crowd.append_ms, []
    delivery, crowd.delivery_ms = crowd.delivery_ms, []
    append_p50, append_p99 = p50_p99(append)
    delivery_p50, delivery_p99 = p50_p99(delivery)
    return Sample(
        round(at_s, 1),
        round(resident_bytes(process_id) / 2**20, 1),
        round(append_p50, 3),
        round(append_p99, 3),
        round(delivery_p50, 3),
        round(delivery_p99, 3),
        len(delivery),
        len(list(Path(f"/proc/{process_id}/fd").iterdir())),
        _counted(metrics, "headgate_connections"),
        _counted(metrics, "headgate_waiters"),
        _counted(metrics, "headgate_tasks"),
        _counted(metrics, "headgate_journal_rewrites_total"),
        round(_counted(metrics, "headgate_journal_bytes") / 2**20, 1),
    )


def _counted(metrics: str, name: str) -> float:
    """Return a gauge, all its labels together."""
    values = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", metrics, re.MULTILINE)
    return sum(map(float, values))


def _verdicts(samples: Sequence[Sample], output: Sequence[str]) -> list[Verdict]:
    warm = samples[int(len(samples) * WARM_UP) :]
    return [
        _flat("memory", "MiB", warm, lambda sample: sample.resident_mib),
        _flat("open files", "files", warm, lambda sample: sample.files),
        _flat("tasks", "tasks", warm, lambda sample: sample.tasks),
        _steady("append p99", warm, lambda sample: sample.append_p99_ms),
        _steady("delivery p99", warm, lambda sample: sample.delivery_p99_ms),
        Verdict("warnings in the log", output[0] if output else "none", not output),
    ]


def _flat(
    name: str, unit: str, samples: Sequence[Sample], of: Callable[[Sample], float]
) -> Verdict:
    """Judge by a straight line through all samples: what it gains from the first to the last."""
    values = [of(sample) for sample in samples]
    slope, _ = statistics.linear_regression([sample.at_s for sample in samples], values)
    lasted_s = samples[-1].at_s - samples[0].at_s
    gained, middle = slope * lasted_s, statistics.fmean(values)
    text = f"{gained:+.1f} {unit} of {short(middle)} in {lasted_s:.0f} s"
    return Verdict(f"growth of {name}", text, gained <= GROWTH_MAX * middle)


def _steady(name: str, samples: Sequence[Sample], of: Callable[[Sample], float]) -> Verdict:
    """Judge by the medians of both halves."""
    half = len(samples) // 2
    before, after = (statistics.median(map(of, part)) for part in (samples[:half], samples[half:]))
    text = f"{before:.2f} ms, then {after:.2f} ms"
    return Verdict(f"{name}, both halves", text, after <= SLOWER_MAX * before)


def _show(samples: Sequence[Sample], verdicts: Sequence[Verdict], did: str) -> None:
    rows = [
        [verdict.question, verdict.measured, "yes" if verdict.is_well else "no"]
        for verdict in verdicts
    ]
    judged = markdown(["after the warm-up", "found", "as it should be"], rows)
    heads = [name.replace("_", " ") for name in asdict(samples[0])]
    series = markdown(
        heads, [[f"{value:g}" for value in asdict(sample).values()] for sample in samples]
    )
    print(f"\n{judged}\n{did}")
    data = {"verdicts": [*map(asdict, verdicts)], "samples": [*map(asdict, samples)]}
    keep("soak", f"{judged}\n{did}\n\n{series}", data)
    plot_soak([asdict(sample) for sample in samples], FOLDER / "soak.svg")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=10.0, help="1 to 60")
    minutes = options.parse_args().minutes
    if not 1 <= minutes <= 60:
        options.error("--minutes is from 1 to 60")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {LOAD_CORE})
    verdicts = asyncio.run(soak(minutes))
    sys.exit(0 if all(verdict.is_well for verdict in verdicts) else 1)


if __name__ == "__main__":
    main()
