"""Groups: what an entry takes that is read and acknowledged over one WebSocket."""

import time
from collections import defaultdict

from tests.bench import consume
from tests.bench.figures import Figure
from tests.bench.servers import cpu_s
from tests.bench.workers.places import ONE_CORE, WORKERS, Places


def measure(there: Places) -> list[Figure]:
    """Return the CPU of an entry of a group, and the rate."""
    there.move_to(ONE_CORE)
    ports = {"workers": there.port, "single": there.single.port}
    for port in ports.values():
        consume.prepare(port)
    cpu_us: defaultdict[str, list[float]] = defaultdict(list)
    rates: defaultdict[str, list[float]] = defaultdict(list)
    for number, group in enumerate(consume.GROUPS):
        print(f"workers, groups: round {number + 1} of {len(consume.GROUPS)}", flush=True)
        for name, port in ports.items():
            before = _used(there)
            started = time.perf_counter()
            rate = consume.read_and_acknowledge(port, group)
            count = rate * (time.perf_counter() - started)
            rates[name].append(rate)
            for process, (now_s, before_s) in zip(
                ("engine", "worker", "single"), zip(_used(there), before, strict=True), strict=True
            ):
                if (process == "single") == (name == "single"):
                    cpu_us[process].append((now_s - before_s) / count * 1e6)
    work = "CPU of reading and acknowledging one entry of a group"
    rounds, peer = Figure.of_rounds, "one process"
    return [
        rounds(f"{work}: the engine", cpu_us["engine"], "µs", peer, cpu_us["single"]),
        rounds(f"{work}: a worker", cpu_us["worker"], "µs", peer, cpu_us["single"]),
        rounds(
            f"read and acknowledge, one WebSocket, {WORKERS} workers and the engine on one core",
            rates["workers"], "entries/s", peer, rates["single"],
        ),
    ]  # fmt: skip


def _used(there: Places) -> tuple[float, float, float]:
    """Return the CPU of the engine, of the workers, and of the gateway of one process."""
    processes = there.processes
    return processes.engine_cpu_s, processes.workers_cpu_s, cpu_s(there.single.process_id)
