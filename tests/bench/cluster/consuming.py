"""Consume: read as a consumer of a group and acknowledge each entry, over one connection."""

import time
from collections.abc import Callable
from functools import partial

from tests.bench import consume
from tests.bench.cluster import by_hand
from tests.bench.cluster.places import STREAM, Places
from tests.bench.cluster.turns import Done, Turns
from tests.bench.figures import Figure
from tests.model.redis_server import words

COUNT = 1_000
"""Entries of one XREADGROUP by hand; the gateway's consumer has as much credit."""

HERE, EMBEDDED = "over Valkey", "embedded engine"
WEBDIS = "Webdis over the same Valkey, 100 a read, TCP_NODELAY"
REDIS_PY = f"redis-py by hand, XACK and XREADGROUP of {COUNT} in a pipeline"


def measure(there: Places) -> list[Figure]:
    """Return rates and CPU of reading and acknowledging."""
    turns = Turns(there.server_id)
    consume.prepare(there.embedded.port)
    consume.prepare(there.first.port)
    consume.fill_redis(there.redis)
    for number, group in enumerate(consume.GROUPS):
        print(f"cluster, consume: round {number + 1} of {len(consume.GROUPS)}", flush=True)
        for name, place in ((EMBEDDED, there.embedded), (HERE, there.first)):
            work = partial(consume.read_and_acknowledge, place.port, group)
            turns.take(name, [place.process_id], partial(_timed, work))
        if there.webdis is not None:
            work = partial(consume.at_webdis, there.redis, there.webdis.port, group)
            turns.take(WEBDIS, [there.webdis.process_id], partial(_timed, work))
        there.redis.run(words("XGROUP", "CREATE", STREAM, f"{group}-by-hand", "0"))
        consume_directly = partial(by_hand.run, "consume", there.redis.port, COUNT, consume.SECONDS)
        turns.take(REDIS_PY, [], partial(consume_directly, f"{group}-by-hand"))
    return _figures(turns)


def _figures(turns: Turns) -> list[Figure]:
    work, unit = "read and acknowledge, one WebSocket", "entries/s"
    work_of_entry = "reading and acknowledging one"
    return [
        *turns.rate(work, unit, HERE, EMBEDDED, at_least=40e3),
        *turns.rate(work, unit, HERE, WEBDIS),
        *turns.rate(work, unit, HERE, REDIS_PY),
        *turns.cpu(work_of_entry, HERE, EMBEDDED),
        *turns.cpu(work_of_entry, HERE, WEBDIS),
        *turns.cpu(work_of_entry, HERE, REDIS_PY),
        *turns.server_cpu(work_of_entry, HERE, WEBDIS),
        *turns.server_cpu(work_of_entry, HERE, REDIS_PY),
    ]


def _timed(work: Callable[[], float]) -> Done:
    """Do work that says at which rate it was done."""
    started = time.perf_counter()
    rate = work()
    elapsed_s = time.perf_counter() - started
    return Done(round(rate * elapsed_s), elapsed_s)
