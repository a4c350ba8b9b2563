"""Bucket: appends that wait for the disk alone, for the disk before a bucket, or for the bucket.

The ways take turns in one run. The store is a directory, or `moto`, which has the core of the load.
Beside the time of an append stands that of one put to the same store in the same round: an answer
that waits for a bucket takes one put, and what is left of `ship_ms` since the part before it.
"""

import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from deploy.local_cluster.keeper import Keeper
from headgate.engine.bucket.bucket import Bucket
from headgate.engine.bucket.opening import open_bucket
from tests.bench.figures import Figure, p50_p99
from tests.bench.load import Load, post
from tests.bench.servers import serving
from tests.buckets import stores

ROUNDS = 3
SECONDS = 2.0
CONNECTIONS = 32
PUTS = 50
PUT_BYTES = 4096
ALONE = "disk alone"
SHIP_MS = 10
"""Besides the usual pause between parts, the least there may be."""

REQUEST = post("/v1/streams/bench/entries", b'{"fields":{"temp":"39","hum":"71","site":"s1"}}')


class Way(NamedTuple):
    """A way of keeping what is appended."""

    name: str
    store: str  # of its bucket; empty: it has none
    settings: Mapping[str, object]


async def measure() -> list[Figure]:
    """Return the rates and times of appends, by way."""
    rates: dict[str, list[float]] = defaultdict(list)
    taken_ms: dict[str, list[float]] = defaultdict(list)
    put_ms: dict[str, list[float]] = defaultdict(list)
    with _buckets() as buckets, ExitStack() as running:
        ways = [Way(ALONE, "", {}), *_ways(buckets)]
        ports = [running.enter_context(serving("headgate", "always", **w.settings)) for w in ways]
        for number in range(ROUNDS):
            print(f"bucket: round {number + 1} of {ROUNDS}", flush=True)
            for store, bucket in buckets.items():
                put_ms[store] += _put_ms(bucket)
            for way, port in zip(ways, ports, strict=True):
                many = Load("127.0.0.1", port, REQUEST, connections=CONNECTIONS)
                rates[way.name].append(await many.per_second(SECONDS))
                single = Load("127.0.0.1", port, REQUEST, connections=1)
                await single.per_second(SECONDS)
                taken_ms[way.name] += single.taken_ms
    work = f"append per request, {CONNECTIONS} connections"
    figures = [
        Figure.of_rounds(f"{work}, {name}", rate, "requests/s", ALONE, rates[ALONE])
        for name, rate in rates.items()
        if name != ALONE
    ]
    for way in ways:
        for end, here, put in zip(
            ("p50", "p99"),
            p50_p99(taken_ms[way.name]),
            p50_p99(put_ms[way.store]) if way.store else (None, None),
            strict=True,
        ):
            peer = f"one put to {way.store}" if way.store else ""
            figures.append(Figure(f"append alone, {end}, {way.name}", here, "ms", peer, put))
    return figures


def _ways(buckets: Mapping[str, Bucket]) -> Iterator[Way]:
    choices: dict[str, dict[str, object]] = {
        "disk, and {}": {"durable": "disk"},
        "bucket in {}": {"durable": "bucket"},
        f"bucket in {{}}, ship_ms {SHIP_MS}": {"durable": "bucket", "ship_ms": SHIP_MS},
    }
    for name, settings in choices.items():
        for store, bucket in buckets.items():
            url = f"{bucket.url}/{token_hex(4)}"
            yield Way(name.format(store), store, {"bucket": url, **settings})


@contextmanager
def _buckets() -> Iterator[dict[str, Bucket]]:
    """Yield a bucket of each store; the variables of this process lead to `moto`."""
    with tempfile.TemporaryDirectory() as folder, stores.moto(Keeper()) as moto:
        os.environ.update(moto.variables)
        urls = {"a directory": Path(folder).as_uri(), "moto": moto.make_bucket("bench")}
        buckets = {store: open_bucket(url) for store, url in urls.items()}
        yield buckets
        for bucket in buckets.values():
            bucket.close()


def _put_ms(bucket: Bucket) -> list[float]:
    """Return the times of puts, one after the other."""
    taken_ms, content = [], os.urandom(PUT_BYTES)
    for _ in range(PUTS):
        began_s = time.perf_counter()
        bucket.put_new(f"puts/{token_hex(8)}", content)
        taken_ms.append((time.perf_counter() - began_s) * 1e3)
    return taken_ms
