"""Appends over HTTP: one per request, and many as NDJSON; through one gateway and through two."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

from tests.bench.cluster import by_hand
from tests.bench.cluster.places import Place, Places
from tests.bench.cluster.turns import Done, Turns
from tests.bench.figures import Figure
from tests.bench.gateway import BATCH, BATCHES, SINGLE, XADD
from tests.bench.load import Load

ROUNDS = 3
SECONDS = 1.5
IN_FLIGHT = 100
BATCHES_IN_FLIGHT = 4

HERE, EMBEDDED, WEBDIS = "over Valkey", "embedded engine", "Webdis over the same Valkey, XADD"
REDIS_PY = "redis-py by hand, {} XADD in a pipeline"
ALONE, TOGETHER = "one gateway, all cores free", "two gateways, all cores free"


class _Ask(NamedTuple):
    """A request of the measurement, and its places."""

    name: str
    places: Sequence[Place]
    request: bytes = SINGLE
    on_all_cores: bool = False

    @property
    def entry_count(self) -> int:
        """Return how many entries a request has."""
        return BATCH if self.request is BATCHES else 1

    async def run(self) -> Done:
        """Ask as fast as it is answered."""
        connections = (BATCHES_IN_FLIGHT if self.request is BATCHES else IN_FLIGHT) // len(
            self.places
        )
        loads = [
            Load("127.0.0.1", place.port, self.request, connections=connections)
            for place in self.places
        ]
        started = time.perf_counter()
        await asyncio.gather(*(load.per_second(SECONDS) for load in loads))
        elapsed_s = time.perf_counter() - started
        return Done(sum(load.answered for load in loads) * self.entry_count, elapsed_s)


def _run(ask: _Ask) -> Done:
    return asyncio.run(ask.run())


def measure(there: Places) -> list[Figure]:
    """Return rates and CPU of appends."""
    turns = Turns(there.server_id)
    for number in range(ROUNDS):
        print(f"cluster, appends: round {number + 1} of {ROUNDS}", flush=True)
        for ask in _asks(there):
            with there.on_all_cores() if ask.on_all_cores else nullcontext():
                process_ids = [place.process_id for place in ask.places]
                turns.take(_name(ask), process_ids, partial(_run, ask))
        for count in (IN_FLIGHT, BATCH):
            work = partial(by_hand.run, "append", there.redis.port, count, SECONDS)
            turns.take(REDIS_PY.format(count), [], work)
    return [*_single(turns), *_many(turns)]


def _asks(there: Places) -> list[_Ask]:
    pair = [there.first, there.second]
    asks = []
    for request in (SINGLE, BATCHES):
        asks += [
            _Ask(EMBEDDED, [there.embedded], request),
            _Ask(HERE, [there.first], request),
            _Ask(ALONE, pair[:1], request, on_all_cores=True),
            _Ask(TOGETHER, pair, request, on_all_cores=True),
        ]
    if there.webdis is not None:
        asks.append(_Ask(WEBDIS, [there.webdis], XADD))
    return asks


def _name(ask: _Ask) -> str:
    return _many_of(ask.name) if ask.request is BATCHES else ask.name


def _many_of(name: str) -> str:
    return f"{name}, NDJSON"


def _single(turns: Turns) -> list[Figure]:
    work, unit, direct = "one append", "requests/s", REDIS_PY.format(IN_FLIGHT)
    rate = f"{work} per request, {IN_FLIGHT} in flight"
    return [
        *turns.rate(rate, unit, HERE, EMBEDDED, ratio_at_least=0.7),
        *turns.rate(rate, unit, HERE, WEBDIS),
        *turns.rate(rate, unit, HERE, direct),
        *turns.cpu(work, HERE, EMBEDDED),
        *turns.cpu(work, HERE, WEBDIS),
        *turns.cpu(work, HERE, direct),
        *turns.server_cpu(work, HERE, WEBDIS),
        *turns.server_cpu(work, HERE, direct),
        *turns.rate(f"{rate}, two gateways", unit, TOGETHER, ALONE),
        *turns.cpu(f"{work}, two gateways", TOGETHER, ALONE),
        *turns.server_cpu(f"{work}, two gateways", TOGETHER, ALONE),
    ]


def _many(turns: Turns) -> list[Figure]:
    work, unit, direct = (
        f"one entry of NDJSON, {BATCH} per request",
        "entries/s",
        REDIS_PY.format(BATCH),
    )
    rate = f"NDJSON, {BATCH} per request, {BATCHES_IN_FLIGHT} in flight"
    here, alone, together = _many_of(HERE), _many_of(ALONE), _many_of(TOGETHER)
    return [
        *turns.rate(rate, unit, here, _many_of(EMBEDDED), at_least=100e3),
        *turns.rate(rate, unit, here, direct),
        *turns.cpu(work, here, _many_of(EMBEDDED)),
        *turns.cpu(work, here, direct),
        *turns.server_cpu(work, here, direct),
        *turns.rate(f"{rate}, two gateways", unit, together, alone),
    ]
