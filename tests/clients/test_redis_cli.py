"""Programs of the system: redis-cli, redis-benchmark, and redis_exporter of Prometheus."""

import csv
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families

from deploy.local_cluster.server import free_ports
from tests.clients.programs import Outcome, run
from tests.installed import program
from tests.processes.gateway import HOST, GatewayProcess

Cli = Callable[..., Outcome]


@pytest.fixture
def cli(gateway: GatewayProcess) -> Cli:
    """Run redis-cli with these words; `given` is its input."""

    def run_cli(*words: str, given: str | None = None) -> Outcome:
        return run("redis-cli", "-h", HOST, "-p", str(gateway.redis_port), *words, given=given)

    return run_cli


@pytest.fixture
def say(cli: Cli) -> Callable[..., str]:
    """Return a function that returns the output of redis-cli for a command that works."""

    def say(*words: str) -> str:
        outcome = cli("-e", *words)
        assert (outcome.code, outcome.errors) == (0, "")
        return outcome.output.removesuffix("\n")

    return say


def test_commands_are_answered(say: Callable[..., str], cli: Cli, stream: str) -> None:
    assert say("PING") == "PONG"
    assert say("XADD", stream, "1-1", "sku", "a b", "name", "é") == "1-1"
    assert say("XRANGE", stream, "-", "+") == "1-1\nsku\na b\nname\né"
    assert say("XGROUP", "CREATE", stream, "g", "0") == "OK"
    assert say("XREADGROUP", "GROUP", "g", "c", "STREAMS", stream, ">").startswith(stream)
    assert say("XPENDING", stream, "g") == "1\n1-1\n1-1\nc\n1"
    assert say("XACK", stream, "g", "1-1") == "1"
    assert cli("-e", "XADD", stream, "1-1", "a", "b") == (
        1,
        "",
        "ERR The ID specified in XADD is equal or smaller than the target stream top item\n",
    )
    assert cli("-x", "XADD", stream, "2-0", "text", given="from a file").output == "2-0\n"
    assert say("XRANGE", stream, "2", "2") == "2-0\ntext\nfrom a file"
    assert say("-r", "3", "XLEN", stream) == "2\n2\n2"


def test_replies_are_json(say: Callable[..., str], stream: str) -> None:
    say("XADD", stream, "1-1", "a", "b")
    assert json.loads(say("--json", "XRANGE", stream, "-", "+")) == [["1-1", ["a", "b"]]]
    entries = [["1-1", ["a", "b"]]]
    assert json.loads(say("-2", "--json", "XREAD", "STREAMS", stream, "0")) == [[stream, entries]]
    assert json.loads(say("-3", "--json", "XREAD", "STREAMS", stream, "0")) == {stream: entries}
    about = json.loads(say("-3", "--json", "XINFO", "STREAM", stream, "FULL"))
    assert (about["length"], about["entries"], about["groups"]) == (1, entries, [])
    assert say("-3", "--no-raw", "XREAD", "STREAMS", stream, "0").startswith(f'1# "{stream}" => ')


def test_a_transaction_is_typed_line_by_line(cli: Cli, stream: str) -> None:
    lines = f"MULTI\nXADD {stream} 1-1 a b\nXLEN {stream}\nEXEC\nXLEN {stream}\nDISCARD\n"
    assert cli(given=lines).output == "OK\nQUEUED\nQUEUED\n1-1\n1\n1\nERR DISCARD without MULTI\n\n"


def test_a_file_of_commands_is_sent_as_it_is(cli: Cli, stream: str) -> None:
    commands = [["XADD", stream, f"{number}-0", "n", str(number)] for number in range(1, 5001)]
    commands.append(["XADD", stream, "1-0", "n", "too small"])
    outcome = cli("--pipe", given="".join(map(_as_protocol, commands)))
    assert outcome.code == 1  # as one command failed
    assert outcome.output.splitlines()[-1] == "errors: 1, replies: 5001"
    assert cli("XLEN", stream).output == "5000\n"


def _as_protocol(words: list[str]) -> str:
    return f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)


def test_streams_are_listed_and_weighed(cli: Cli, say: Callable[..., str], stream: str) -> None:
    for number in range(30):
        say("XADD", f"{stream}-{number:02}", "1-0", "n", "1")
    listed = say("--scan", "--pattern", f"{stream}-*").splitlines()
    assert sorted(listed) == [f"{stream}-{number:02}" for number in range(30)]
    commands = [["XADD", f"{stream}-00", f"{number}-0", "n", "1"] for number in range(2, 10_001)]
    assert cli("--pipe", given="".join(map(_as_protocol, commands))).code == 0
    assert f"Biggest stream found '\"{stream}-00\"' has 10000 entries" in cli("--bigkeys").output
    weighed = cli("--memkeys")
    assert re.search(r"[1-9][0-9]* streams with [1-9][0-9]* bytes", weighed.output)
    assert weighed.errors == ""


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--stat", "-i", "0.01"], "clients blocked requests"),
        (["--latency", "-i", "0.05", "--raw"], " "),
    ],
)
def test_the_server_is_watched(gateway: GatewayProcess, words: list[str], shown: str) -> None:
    command = ["stdbuf", "-oL", program("redis-cli"), "-p", str(gateway.redis_port), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        line = next(((line for line in watching.stdout if shown in line)), "")
        watching.kill()
    assert shown in line


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["-e", "GET", "a"], "ERR unknown command 'GET'"),
        (["-e", "-n", "1", "PING"], "ERR DB index is out of range"),
        (["--rdb", "/dev/null"], "SYNC with master failed: -ERR unknown command"),
        (["--replica"], "SYNC with master failed: -ERR unknown command"),
    ],
)
def test_what_is_not_there_is_refused(cli: Cli, words: list[str], error: str) -> None:
    outcome = cli(*words)
    assert error in outcome.output + outcome.errors


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
