"""Appends over HTTP: the cost of one to the engine and to a worker, and their rate."""

import asyncio
from collections import defaultdict
from typing import NamedTuple

from tests.bench.figures import Figure
from tests.bench.gateway import BATCH, BATCHES, SINGLE, XADD
from tests.bench.load import Load
from tests.bench.servers import cpu_s
from tests.bench.workers.places import ALL_CORES, ONE_CORE, WORKERS, Place, Places

ROUNDS = 5
SECONDS = 1.5
IN_FLIGHT = (32, 128)
ENGINE_US_MAX = {32: 12.0, 128: 10.0}
WORKER_RATIO_MAX = 1.15
WORKERS_COMPUTED = (1, 2, 4, 8, 12, 16)

SINGLE_PROCESS, WEBDIS = "one process", "Webdis, two threads, XADD"

Rounds = defaultdict[tuple[str, int], list[float]]


class _Measured(NamedTuple):
    """Measurements, round by round, by name and by requests in flight."""

    rates: Rounds  # all cores free
    cpu_us: Rounds  # on one core


def measure(there: Places) -> list[Figure]:
    """Return CPU and rates of appends, and the rates that follow for more workers."""
    measured = _Measured(Rounds(list), Rounds(list))
    for number in range(ROUNDS):
        print(f"workers, appends: round {number + 1} of {ROUNDS}", flush=True)
        for in_flight in IN_FLIGHT:
            there.move_to(ONE_CORE)
            _note_cpu(there, measured.cpu_us, in_flight)
            there.move_to(ALL_CORES)
            _note_rates(there, measured.rates, in_flight)
        there.move_to(ONE_CORE)
        _note_batches(there, measured.cpu_us)
    return [*_figures(measured), *_computed(measured.cpu_us)]


def _note_cpu(there: Places, cpu_us: Rounds, in_flight: int) -> None:
    before_s = cpu_s(there.single.process_id)
    count = _load(there.single.port, in_flight)[0]
    used_s = cpu_s(there.single.process_id) - before_s
    cpu_us[SINGLE_PROCESS, in_flight].append(used_s / count * 1e6)
    processes = there.processes
    engine_s, workers_s = processes.engine_cpu_s, processes.workers_cpu_s
    count = _load(there.port, in_flight)[0]
    cpu_us["engine", in_flight].append((processes.engine_cpu_s - engine_s) / count * 1e6)
    cpu_us["worker", in_flight].append((processes.workers_cpu_s - workers_s) / count * 1e6)


def _note_batches(there: Places, cpu_us: Rounds) -> None:
    """Note the CPU of each entry of a batch, under the size of the batch."""
    processes = there.processes
    engine_s, workers_s = processes.engine_cpu_s, processes.workers_cpu_s
    count = _load(there.port, 4, BATCHES)[0] * BATCH
    cpu_us["engine", BATCH].append((processes.engine_cpu_s - engine_s) / count * 1e6)
    cpu_us["worker", BATCH].append((processes.workers_cpu_s - workers_s) / count * 1e6)
    before_s = cpu_s(there.single.process_id)
    count = _load(there.single.port, 4, BATCHES)[0] * BATCH
    used_s = cpu_s(there.single.process_id) - before_s
    cpu_us[SINGLE_PROCESS, BATCH].append(used_s / count * 1e6)


def _note_rates(there: Places, rates: Rounds, in_flight: int) -> None:
    rates[SINGLE_PROCESS, in_flight].append(_load(there.single.port, in_flight)[1])
    rates["workers", in_flight].append(_load(there.port, in_flight)[1])
    if isinstance(there.webdis, Place):
        rates[WEBDIS, in_flight].append(_load(there.webdis.port, in_flight, XADD)[1])


def _load(port: int, in_flight: int, request: bytes = SINGLE) -> tuple[int, float]:
    """Return the number of answered requests, and their rate."""
    load = Load("127.0.0.1", port, request, connections=in_flight)
    rate = asyncio.run(load.per_second(SECONDS))
    return load.answered, rate


def _figures(measured: _Measured) -> list[Figure]:
    rates, cpu_us, rounds = measured.rates, measured.cpu_us, Figure.of_rounds
    figures = []
    for in_flight in IN_FLIGHT:
        work = f"one append per request, {in_flight} in flight"
        single_us = cpu_us[SINGLE_PROCESS, in_flight]
        here, unit = rates["workers", in_flight], "requests/s"
        work_rate = f"{work}, {WORKERS} workers, all cores free"
        figures += [
            rounds(
                f"CPU of {work}: the engine", cpu_us["engine", in_flight], "µs",
                SINGLE_PROCESS, single_us, at_most=ENGINE_US_MAX[in_flight],
            ),
            rounds(
                f"CPU of {work}: a worker", cpu_us["worker", in_flight], "µs",
                SINGLE_PROCESS, single_us, ratio_at_most=WORKER_RATIO_MAX,
            ),
            rounds(work_rate, here, unit, SINGLE_PROCESS, rates[SINGLE_PROCESS, in_flight]),
            rounds(work_rate, here, unit, WEBDIS, rates[WEBDIS, in_flight]),
        ]  # fmt: skip
    work = f"CPU of one entry of NDJSON, {BATCH} per request"
    for process in ("engine", "worker"):
        figures.append(
            rounds(
                f"{work}: the {process}", cpu_us[process, BATCH], "µs",
                SINGLE_PROCESS, cpu_us[SINGLE_PROCESS, BATCH],
            )
        )  # fmt: skip
    return figures


def _computed(cpu_us: Rounds) -> list[Figure]:
    """Return the computed rates of so many workers: until the core of the engine is full."""
    in_flight = IN_FLIGHT[-1]
    engine_us = min(cpu_us["engine", in_flight])
    worker_us = min(cpu_us["worker", in_flight])
    return [
        Figure(
            f"computed: one append per request, {count} workers, a core for each",
            min(count / worker_us, 1 / engine_us) * 1e6,
            "requests/s",
        )
        for count in WORKERS_COMPUTED
    ]
