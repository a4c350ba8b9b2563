"""Fan-out: what a delivery takes of the engine and of the workers, with a thousand subscribers."""

from collections import defaultdict

from tests.bench import fanout, peers
from tests.bench.figures import Figure
from tests.bench.servers import cpu_s
from tests.bench.workers.places import ALL_CORES, ONE_CORE, WORKERS, Places

SUBSCRIBERS = 1_000
ROUNDS = 3
SECONDS = 3.0

SINGLE_PROCESS, NCHAN = "one process", f"nchan, {WORKERS} workers"

Rounds = defaultdict[str, list[float]]


def measure(there: Places) -> list[Figure]:
    """Return the CPU of a delivery, and deliveries a second."""
    rates, cpu_us = Rounds(list), Rounds(list)
    here, single = fanout.gateway(there.port), fanout.gateway(there.single.port)
    with peers.nchan(workers=WORKERS) as nchan_port:
        for number in range(ROUNDS):
            print(f"workers, fan-out: round {number + 1} of {ROUNDS}", flush=True)
            there.move_to(ONE_CORE)
            _note_cpu(there, here, single, cpu_us)
            there.move_to(ALL_CORES)
            rates["workers"].append(_rate(here))
            rates[SINGLE_PROCESS].append(_rate(single))
            if nchan_port is not None:
                rates[NCHAN].append(_rate(fanout.new_nchan(nchan_port, f"round-{number}")))
    work, rounds = f"CPU of one delivery to one of {SUBSCRIBERS} WebSockets", Figure.of_rounds
    rate = f"fan-out to {SUBSCRIBERS} WebSockets, {WORKERS} workers, all cores free"
    unit = "deliveries/s"
    return [
        rounds(f"{work}: the engine", cpu_us["engine"], "µs", SINGLE_PROCESS, cpu_us["single"]),
        rounds(f"{work}: the workers", cpu_us["worker"], "µs", SINGLE_PROCESS, cpu_us["single"]),
        rounds(rate, rates["workers"], unit, SINGLE_PROCESS, rates[SINGLE_PROCESS]),
        rounds(rate, rates["workers"], unit, NCHAN, rates[NCHAN]),
    ]


def _note_cpu(there: Places, here: fanout.Place, single: fanout.Place, cpu_us: Rounds) -> None:
    processes = there.processes
    engine_s, workers_s = processes.engine_cpu_s, processes.workers_cpu_s
    count, _ = fanout.deliver([here], SECONDS, SUBSCRIBERS)
    cpu_us["engine"].append((processes.engine_cpu_s - engine_s) / count * 1e6)
    cpu_us["worker"].append((processes.workers_cpu_s - workers_s) / count * 1e6)
    before_s = cpu_s(there.single.process_id)
    count, _ = fanout.deliver([single], SECONDS, SUBSCRIBERS)
    cpu_us["single"].append((cpu_s(there.single.process_id) - before_s) / count * 1e6)


def _rate(place: fanout.Place) -> float:
    count, elapsed_s = fanout.deliver([place], SECONDS, SUBSCRIBERS)
    return count / elapsed_s
