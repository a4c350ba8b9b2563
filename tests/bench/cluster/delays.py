"""Fan-out to a hundred WebSockets, how soon an entry is there, and redelivery among gateways."""

import asyncio
import statistics
from collections import defaultdict

from tests.bench import fanout
from tests.bench.cluster.places import Places
from tests.bench.figures import Figure
from tests.bench.redelivery import AT_MOST_MS, GROUP, TRIES, hold_by_socket, redelivery_ms
from tests.processes.wire import Wire

ROUNDS = 3
SECONDS = 2.0

HERE, EMBEDDED = "over Valkey", "embedded engine"
ALONE, TOGETHER = "one gateway, all cores free", "two gateways"

Rounds = defaultdict[str, list[float]]


def measure(there: Places) -> list[Figure]:
    """Return deliveries a second, and delays."""
    return [*_fan_out(there), *asyncio.run(_redelivery(there))]


def _fan_out(there: Places) -> list[Figure]:
    rates, p50s, p99s = Rounds(list), Rounds(list), Rounds(list)
    places = {EMBEDDED: there.embedded, HERE: there.first}
    for number in range(ROUNDS):
        print(f"cluster, fan-out: round {number + 1} of {ROUNDS}", flush=True)
        for name, place in places.items():
            target = fanout.gateway(place.port)
            rates[name].append(fanout.deliveries_per_second([target], SECONDS))
            times_ms = fanout.delays_ms(target, SECONDS)
            p50s[name].append(statistics.median(times_ms))
            p99s[name].append(_p99(times_ms))
        with there.on_all_cores():
            ports = there.first.port, there.second.port
            alone = [fanout.gateway(ports[0], stream) for stream in ("one", "other")]
            together = [alone[0], fanout.gateway(ports[1], "other")]
            rates[ALONE].append(fanout.deliveries_per_second(alone, SECONDS))
            rates[TOGETHER].append(fanout.deliveries_per_second(together, SECONDS))
    work = f"fan-out to {fanout.SUBSCRIBERS} WebSockets"
    late = f"append → delivery to {fanout.SUBSCRIBERS}, {fanout.RATE} entries/s"
    half = f"the same, two streams, {fanout.SUBSCRIBERS // 2} each, two gateways"
    of_rounds = Figure.of_rounds
    return [
        of_rounds(work, rates[HERE], "deliveries/s", EMBEDDED, rates[EMBEDDED]),
        of_rounds(half, rates[TOGETHER], "deliveries/s", ALONE, rates[ALONE]),
        of_rounds(f"{late}, p50", p50s[HERE], "ms", EMBEDDED, p50s[EMBEDDED]),
        of_rounds(f"{late}, p99", p99s[HERE], "ms", EMBEDDED, p99s[EMBEDDED]),
    ]


async def _redelivery(there: Places) -> list[Figure]:
    figures = []
    for ending, is_killed in (("connection closed", False), ("process killed (RST)", True)):
        print(f"cluster, redelivery: {ending}", flush=True)
        here_ms = await _times_ms(there.first.port, there.second.port, is_killed=is_killed)
        port = there.embedded.port
        embedded_ms = await _times_ms(port, port, is_killed=is_killed)
        for name, share in (("p50", statistics.median), ("p99", _p99)):
            work = f"redelivery at another gateway, {ending}, {name} of {TRIES}"
            figures.append(
                Figure(
                    work, share(here_ms), "ms", f"{EMBEDDED}, one gateway", share(embedded_ms),
                    at_most=AT_MOST_MS,
                )
            )  # fmt: skip
    return figures


async def _times_ms(port: int, next_port: int, *, is_killed: bool) -> list[float]:
    control = await Wire.open(f"http://127.0.0.1:{port}")
    await control.request("PUT", GROUP, {"start": "0", "create_stream": True})
    times_ms = [
        await redelivery_ms(control, port, hold_by_socket, is_killed=is_killed, next_port=next_port)
        for _ in range(TRIES)
    ]
    control.close()
    return times_ms


def _p99(times_ms: list[float]) -> float:
    return statistics.quantiles(times_ms, n=100)[98]
