"""redis_exporter of Prometheus (`prometheus-redis-exporter` of the system)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import redis
from prometheus_client.parser import text_string_to_metric_families

from deploy.local_cluster.server import free_ports
from tests.installed import program
from tests.processes.gateway import HOST, GatewayProcess

START_S_MAX = 20.0

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@contextmanager
def exporter(gateway: GatewayProcess, log: Path, *words: str) -> Iterator[str]:
    """Run an exporter; yields the URL of its metrics."""
    [port] = free_ports(1)
    command = [program("prometheus-redis-exporter"), "-redis.addr", gateway.redis_url]
    command += ["-web.listen-address", f"{HOST}:{port}", *words]
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            yield f"http://{HOST}:{port}/metrics"
        finally:
            process.kill()


def samples_of(url: str) -> Samples:
    """Return the samples of an exporter, as soon as it listens."""
    with httpx.Client(transport=httpx.HTTPTransport(retries=10), timeout=START_S_MAX) as http:
        text = http.get(url).text
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_streams_are_watched(gateway: GatewayProcess, stream: str, tmp_path: Path) -> None:
    with redis.Redis(HOST, gateway.redis_port) as client:
        for number in range(1, 6):
            client.xadd(stream, {"n": number}, id=f"{number}-0")
        client.xgroup_create(stream, "g", id="0")
        client.xreadgroup("g", "c", {stream: ">"}, count=3)
        log = tmp_path / "exporter.log"
        words = ["-check-streams", f"{stream}*", "-export-client-list", "-ping-on-connect"]
        with exporter(gateway, log, *words) as url:
            samples = samples_of(url)

    def value(name: str, **labels: str) -> float:
        return samples[f"redis_{name}", frozenset(labels.items())]

    at = {"db": "db0", "stream": stream}
    assert value("up") == 1
    assert value("exporter_last_scrape_error", err="") == 0
    assert value("stream_length", **at) == 5
    assert value("stream_groups", **at) == 1
    assert value("stream_last_generated_id", **at) == 5
    assert value("stream_group_messages_pending", **at, group="g") == 3
    assert value("stream_group_consumers", **at, group="g") == 1
    assert value("stream_group_last_delivered_id", **at, group="g") == 3
    assert value("stream_group_consumer_messages_pending", **at, group="g", consumer="c") == 3
    assert value("db_keys", db="db0") >= 1
    assert value("commands_total", cmd="ping") >= 1  # at the worker that answers, if there are any
    assert value("connected_clients") >= 1  # likewise
    assert {"redis_exporter"} <= {
        dict(labels).get("name")
        for name, labels in samples
        if name == "redis_connected_clients_details"
    }
    assert value("start_time_seconds") > 1_600_000_000
    assert "level=error" not in log.read_text()
