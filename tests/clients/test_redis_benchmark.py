"""redis-benchmark of the system: every command that it sends takes effect."""

from __future__ import annotations

import csv

import pytest
import redis

from tests.clients.programs import Outcome, run
from tests.processes.gateway import HOST, GatewayProcess


def benchmark(gateway: GatewayProcess, *words: str) -> Outcome:
    return run("redis-benchmark", "-h", HOST, "-p", str(gateway.redis_port), *words)


@pytest.mark.parametrize(
    "words",
    [
        ["-c", "20", "-n", "8000", "-P", "64"],
        ["-c", "8", "-n", "4000", "-P", "16", "--threads", "2"],
        ["-c", "8", "-n", "4000", "-P", "16", "-3"],
        ["-c", "4", "-n", "100", "-k", "0"],
    ],
)
def test_each_command_appends(gateway: GatewayProcess, stream: str, words: list[str]) -> None:
    command = ["XADD", stream, "*", "field", "__rand_int__"]
    outcome = benchmark(gateway, *words, "-r", "1000", "--csv", *command)
    assert outcome.code == 0, outcome.errors
    [row] = csv.DictReader(outcome.output.splitlines())
    assert float(row["rps"]) > 0
    with redis.Redis(HOST, gateway.redis_port) as client:
        assert client.xlen(stream) == int(words[3])
        [(_, fields)] = client.xrange(stream, count=1)
    assert 0 <= int(fields[b"field"]) < 1000


def test_a_group_is_read_and_acknowledged(gateway: GatewayProcess, stream: str) -> None:
    with redis.Redis(HOST, gateway.redis_port) as client:
        client.xgroup_create(stream, "g", mkstream=True)
        with client.pipeline(transaction=False) as pipeline:
            for number in range(1, 1001):
                pipeline.xadd(stream, {"n": number}, id=f"{number}-0")
            pipeline.execute()
        read = ["XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", stream, ">"]
        assert benchmark(gateway, "-c", "10", "-n", "1000", "-P", "4", "-q", *read).code == 0
        [group] = client.xinfo_groups(stream)
        assert (group["pending"], group["lag"], group["entries-read"]) == (1000, 0, 1000)


def test_its_own_tests_are_run_as_far_as_they_concern_streams(gateway: GatewayProcess) -> None:
    pings = benchmark(gateway, "-c", "10", "-n", "1000", "--csv", "-t", "ping")
    names = [row["test"] for row in csv.DictReader(pings.output.splitlines())]
    assert (pings.code, names) == (0, ["PING_INLINE", "PING_MBULK"])
    strings = benchmark(gateway, "-n", "10", "-q", "-t", "set")
    assert "ERR unknown command 'SET'" in strings.output + strings.errors
