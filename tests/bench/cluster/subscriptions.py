"""Ten thousand WebSockets through one gateway over a cluster of six, beside the embedded engine."""

import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from deploy.local_cluster.cluster import Cluster
from tests.bench.cluster.places import binary, keeper
from tests.bench.idle import allow_files
from tests.bench.servers import cpu_s, serving_process
from tests.bench.sockets import LeanSocket, Watch
from tests.bench.table import Figure

SUBSCRIPTIONS = 10_000
STREAMS = 1_000
RATE = 100
"""Entries a second, each to the subscribers of one stream."""

ENTRIES = 1_000
QUIET_S = 10.0
CONNECTIONS_MAX = 4
SETTINGS: dict[str, Any] = {"ping_interval_ms": 600_000, "connections_max": SUBSCRIPTIONS + 100}
"""These sockets answer no ping, so they are not pinged while this runs."""

CREATED_AT_ONCE = 100
WITHIN_S_MAX = 60.0

_ENTRY = b'{"type":"append","stream":"many-%d","entries":[{"fields":{"seq":"%09d"}}]}'
_SEQ = re.compile(rb'"seq":"(\d{9})"')
_FIRST = 10**9 - 1
"""Number of the entry with which a stream begins."""


class _Measured(NamedTuple):
    """The cost of subscriptions at a gateway."""

    gateway_busy: float  # share of a core
    servers_busy: float
    connections: list[int]  # to each of the servers
    times_ms: list[float]  # from append to delivery


def measure() -> list[Figure]:
    """Return connections, CPU while idle, and how soon entries are there."""
    allow_files(2 * SUBSCRIPTIONS)
    with _cluster() as cluster:
        alone = _busy(_ids(cluster))
        with serving_process("headgate", backend=cluster.url, **SETTINGS) as (
            port,
            process_id,
        ):
            here = _measured(port, process_id, cluster)
    with serving_process("headgate", **SETTINGS) as (port, process_id):
        embedded = _measured(port, process_id, None)
    open_ = f"{SUBSCRIPTIONS} subscriptions over a cluster"
    late = f"{open_}, append → delivery, {RATE} entries/s"
    peer = f"embedded engine, {SUBSCRIPTIONS}"
    figures = [
        Figure(f"{open_}: connections at one server, at most", max(here.connections), "",
               at_most=CONNECTIONS_MAX),
        Figure(f"{open_}: CPU of the gateway, idle {QUIET_S:g} s", here.gateway_busy * 100,
               "% of a core", peer, embedded.gateway_busy * 100),
        Figure(f"{open_}: CPU of the six servers, idle {QUIET_S:g} s", here.servers_busy * 100,
               "% of a core", "no gateway", alone * 100),
    ]  # fmt: skip
    for name, share in (("p50", statistics.median), ("p99", _p99)):
        figures.append(
            Figure(f"{late}, {name}", share(here.times_ms), "ms", peer, share(embedded.times_ms))
        )
    return figures


def _measured(port: int, process_id: int, cluster: Cluster | None) -> _Measured:
    place = "embedded engine" if cluster is None else "cluster"
    print(f"cluster, subscriptions: {SUBSCRIPTIONS} ({place})", flush=True)
    with Watch() as watch:
        publisher = LeanSocket(port, "/v1/ws")
        _create_streams(publisher)
        watch.add(publisher, lambda _: None)
        timer = _Timer()
        for number in range(SUBSCRIPTIONS):
            subscriber = LeanSocket(port, f"/v1/streams/many-{number % STREAMS}/ws")
            subscriber.read_until(b'"caught_up"')
            watch.add(subscriber, timer.take)
        ids = [] if cluster is None else _ids(cluster)
        used_s, servers_s = cpu_s(process_id), sum(map(cpu_s, ids))
        time.sleep(QUIET_S)
        used_s, servers_s = cpu_s(process_id) - used_s, sum(map(cpu_s, ids)) - servers_s
        connections = [] if cluster is None else _connections(cluster)
        timer.publish(publisher, watch)
    return _Measured(used_s / QUIET_S, servers_s / QUIET_S, connections, timer.times_ms)


def _create_streams(publisher: LeanSocket) -> None:
    publisher.read_until(b'"welcome"')
    for start in range(0, STREAMS, CREATED_AT_ONCE):
        for number in range(start, start + CREATED_AT_ONCE):
            publisher.send(_ENTRY % (number, _FIRST))
        answered = 0
        while answered < CREATED_AT_ONCE:
            answered += publisher.receive().count(b'"appended"')


class _Timer:
    """Notes the delay of each entry to each of its subscribers."""

    def __init__(self) -> None:
        self.times_ms: list[float] = []
        self._sent_at: list[float] = []

    def take(self, data: bytes) -> None:
        """Note the frames of a subscriber: a frame comes whole, as it is small."""
        now = time.perf_counter()
        for match in _SEQ.finditer(data):
            self.times_ms.append((now - self._sent_at[int(match[1])]) * 1000)

    def publish(self, publisher: LeanSocket, watch: Watch) -> None:
        """Append at a steady rate, until everybody has everything."""
        started = time.perf_counter()
        while len(self.times_ms) < ENTRIES * SUBSCRIPTIONS // STREAMS:
            now = time.perf_counter()
            assert now < started + WITHIN_S_MAX, "not everybody was sent everything"
            due = min(int((now - started) * RATE), ENTRIES)
            while len(self._sent_at) < due:
                number = len(self._sent_at)
                self._sent_at.append(time.perf_counter())
                publisher.send(_ENTRY % (number * 7 % STREAMS, number))
            watch.take_ready(0.0005 if due < ENTRIES else 0.1)


@contextmanager
def _cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory() as folder, keeper() as kept:
        cluster = Cluster(binary(), Path(folder), kept)
        cluster.start()
        cluster.form()
        yield cluster
        cluster.stop()


def _ids(cluster: Cluster) -> list[int]:
    return [server.process_id for server in cluster.servers if server.process_id is not None]


def _busy(process_ids: Sequence[int]) -> float:
    """Return the share of a core that idle processes use."""
    used_s = sum(map(cpu_s, process_ids))
    time.sleep(QUIET_S)
    return (sum(map(cpu_s, process_ids)) - used_s) / QUIET_S


def _connections(cluster: Cluster) -> list[int]:
    """Return how many connections of gateways each server has."""
    return [
        sum(client.get("lib-name") == "headgate" for client in server.client.client_list())
        for server in cluster.servers
    ]


def _p99(times_ms: list[float]) -> float:
    return statistics.quantiles(times_ms, n=100)[98]
