"""An operator learns what servers lack, before a gateway relies on them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deploy.local_cluster.keeper import Keeper
from deploy.local_cluster.server import Server
from headgate.app.backends.redis.diagnosis import SAMPLES
from headgate.app.cli import main
from tests.servers.failures import FailingCluster
from tests.servers.programs import redis_server

FUNCTIONS = Path(__file__).parents[4] / "app/backends/redis/functions"

UNSAFE = {"save": "", "appendonly": "no", "maxmemory": "50mb", "maxmemory-policy": "allkeys-lru"}


def doctor(url: str, *words: str, **variables: str) -> Result:
    return CliRunner().invoke(main, ["doctor", "--backend", url, *words], env=variables)


def findings(url: str, *words: str) -> dict[str, dict[str, str]]:
    lines = doctor(url, "--json", *words).stdout.splitlines()
    return {finding["about"]: finding for finding in map(json.loads, lines)}


@pytest.fixture
def unsafe(keeper: Keeper, tmp_path: Path) -> Iterator[Server]:
    """Run a server that deletes what it likes, and keeps nothing."""
    server = Server(redis_server(), tmp_path, keeper, options=UNSAFE)
    server.start()
    yield server
    server.stop()


def test_a_server_with_a_file_and_no_replica_will_do(redis_7: Server) -> None:
    ended = doctor(redis_7.url)
    assert ended.exit_code == 0, ended.output
    about = findings(redis_7.url)
    assert about["server"]["text"].startswith("Redis 7.0")
    assert about["mode"]["severity"] == "ok"
    assert about["disk"]["text"] == "appendonly yes, appendfsync everysec"
    assert about["replicas"]["follows"] == "no replica can take over if the server fails"
    assert about["WAITAOF"]["text"] == "the server lacks it"
    assert about["functions"]["text"] == "there"
    assert about["rights"]["severity"] == "ok"


def test_a_server_that_deletes_streams_is_a_fault(unsafe: Server) -> None:
    assert doctor(unsafe.url).exit_code == 1
    memory = findings(unsafe.url)["memory"]
    assert memory["severity"] == "fault"
    assert "set maxmemory-policy noeviction" in memory["follows"]
    assert findings(unsafe.url)["disk"]["severity"] == "warning"


def test_what_a_user_lacks_is_named_and_no_password_is_shown(unsafe: Server) -> None:
    unsafe.run("ACL", "SETUSER", "ana", "on", ">secret", "~headgate:*", "~hg:*", "&*", "+@all")
    unsafe.run("ACL", "SETUSER", "ana", "-xadd", "-function|load")
    host = unsafe.url.removeprefix("redis://")
    about = findings(f"redis://ana:secret@{host}")
    assert about["rights"]["text"] == "user ana lacks FUNCTION LOAD, XADD"
    assert findings(f"redis://ana:secret@{host}", "--redis-prefix", "other:")["rights"][
        "text"
    ].startswith("user ana lacks COPY, DEL, DUMP, EVALSHA,")
    unsafe.run("ACL", "SETUSER", "ana", "-acl")
    assert findings(f"redis://ana:secret@{host}")["rights"]["severity"] == "unknown"
    for ended in (
        doctor(f"redis://ana:secret@{host}"),
        doctor(f"redis://ana:secret2@{host}"),
        doctor(f"redis+cluster://ana:secret@{host}"),
        doctor(f"redis://{host}", HEADGATE_REDIS_USERNAME="ana", HEADGATE_REDIS_PASSWORD="secret"),
    ):
        assert ended.exit_code == 1
        assert ended.exception is None or isinstance(ended.exception, SystemExit)
        assert "secret" not in ended.output


def test_a_server_that_is_not_there_is_a_fault() -> None:
    ended = doctor("redis://127.0.0.1:1")
    assert ended.exit_code == 1
    assert ended.stdout.startswith("servers\tfault\t")
    assert doctor("ftp://ana:secret@here").exit_code == 1


def test_without_servers_and_bucket_the_gateway_is_examined() -> None:
    ended = CliRunner().invoke(main, ["doctor"], env={"HEADGATE_URL": "http://127.0.0.1:1"})
    assert (ended.exit_code, ended.stderr) == (1, "")
    assert ended.stdout.startswith("gateway\tfault\tno gateway at http://127.0.0.1:1: ")


def test_every_command_of_our_functions_is_asked_for() -> None:
    sampled = {sample.split(" ")[0] for sample in SAMPLES}
    used = {
        command
        for path in FUNCTIONS.glob("*.lua")
        for command in re.findall(r"redis\.p?call\(\s*'(\w+)'", path.read_text("utf-8"))
    }
    assert used <= sampled, "add samples to redis/diagnosis.py"


def test_a_cluster_is_described_as_a_whole(valkey_cluster: FailingCluster) -> None:
    about = findings(valkey_cluster.url, "--redis-durability", "replica")
    assert about["servers"]["text"].startswith("cluster: ")
    assert about["slots"]["text"] == "16,384 of 16,384 are served"
    ok = {"about": "mode", "severity": "ok", "text": "cluster", "follows": "", "servers": []}
    assert about["mode"] == ok
    for name in ("replicas", "--redis-durability replica", "rights"):
        assert about[name]["severity"] == "ok"
    single = valkey_cluster.url.replace("redis+cluster", "redis").partition(",")[0]
    assert findings(single)["mode"]["follows"] == "the URL must begin with redis+cluster"
