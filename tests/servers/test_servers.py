"""The servers of the tests do what the tests of failures say that happens to them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from deploy.local_cluster.server import Server, ServerEnded
from deploy.local_cluster.waiting import until
from tests.servers.failures import (
    FailingCluster,
    SlotMove,
    cut_connections,
    cut_tracking,
    until_replicas,
)
from tests.servers.sentinels import SentinelSet

ROOT = Path(__file__).parents[2]
KEY = "{orders}"

PROGRAM = """
import sys, time
from pathlib import Path
from deploy.local_cluster.keeper import Keeper
from deploy.local_cluster.server import Server

keeper, folder = Keeper(), Path(sys.argv[2])
keeper.remove(folder)
server = Server(Path(sys.argv[1]), folder, keeper)
server.start()
print(server.info("server")["process_id"], flush=True)
time.sleep(60)
"""


@pytest.fixture
def cluster(valkey_cluster: FailingCluster) -> FailingCluster:
    valkey_cluster.flush()
    return valkey_cluster


def test_each_server_is_what_its_fixture_says(
    redis_7: Server, valkey_9: Server, cluster: FailingCluster
) -> None:
    assert str(redis_7.info("server")["redis_version"]).startswith("7.0.")
    assert str(valkey_9.info("server")["valkey_version"]).startswith("9.")
    assert len(cluster.primaries()) == 3
    for primary in cluster.primaries():
        until_replicas(primary)
        assert cluster.replica_of(primary).info("replication")["role"] == "slave"


def test_a_server_that_is_killed_has_what_was_on_disk(valkey_9: Server) -> None:
    valkey_9.run("SET", KEY, "kept")
    assert valkey_9.run("WAITAOF", 1, 0, 0) == [1, 0]
    valkey_9.kill()
    with pytest.raises(redis.ConnectionError):
        valkey_9.run("GET", KEY)
    valkey_9.start()
    until(lambda: not valkey_9.info("persistence")["loading"], 10, "it has loaded its data")
    assert valkey_9.run("GET", KEY) == "kept"


def test_a_server_says_why_it_does_not_start(valkey_9: Server, tmp_path: Path) -> None:
    second = Server(valkey_9._binary, tmp_path, valkey_9._keeper, port=valkey_9.port)
    with pytest.raises(ServerEnded, match="Address already in use"):
        second.start()


def test_connections_are_cut(valkey_9: Server) -> None:
    with redis.Redis(port=valkey_9.port, protocol=3) as client:
        watching, other = client.connection_pool.get_connection(), client.client()
        watching.send_command("CLIENT", "TRACKING", "ON", "BCAST")
        watching.read_response()
        assert other.ping()
        assert cut_tracking(valkey_9) == 1
        with pytest.raises(redis.ConnectionError):
            watching.read_response()
        assert cut_connections(valkey_9) >= 1
        assert cut_tracking(valkey_9) == 0


def test_a_primary_that_is_killed_is_replaced(cluster: FailingCluster) -> None:
    cluster.set_node_timeout(1000)
    replica = cluster.replica_of(cluster.primary_of(KEY))
    killed = cluster.kill_primary(KEY)
    cluster.until_served()
    assert cluster.primary_of(KEY) is replica
    cluster.mend()
    assert cluster.replica_of(replica) is killed
    cluster.set_node_timeout(5000)


def test_a_failover_that_is_ordered_loses_nothing(cluster: FailingCluster) -> None:
    before = cluster.primary_of(KEY)
    before.run("SET", KEY, "kept")
    after = cluster.fail_over(KEY)
    assert after is not before
    assert after.run("GET", KEY) == "kept"
    with pytest.raises(redis.exceptions.MovedError):
        before.run("GET", KEY)


def test_a_slot_moves_with_its_keys(cluster: FailingCluster) -> None:
    slot, source = cluster.slot_of(KEY), cluster.primary_of(KEY)
    for number in range(3):
        source.run("SET", f"{KEY}{number}", number)
    move = SlotMove(cluster, slot, cluster.other_primary(source))
    move.begin()
    move.move_keys(count=1)
    replies = [_reply(source, "GET", f"{KEY}{number}") for number in range(3)]
    assert sum(isinstance(reply, redis.exceptions.AskError) for reply in replies) == 1
    move.move_keys()
    move.end()
    assert cluster.owner_of(slot) is move.target
    assert [move.target.run("GET", f"{KEY}{number}") for number in range(3)] == ["0", "1", "2"]
    assert isinstance(_reply(source, "GET", KEY), redis.exceptions.MovedError)
    assert cluster.move_slot(slot, source) is source


def test_a_sentinel_makes_the_replica_the_primary(sentinels: SentinelSet) -> None:
    before = sentinels.primary()
    after = sentinels.fail_over()
    assert after is not before
    sentinels.mend()
    after.kill()
    assert sentinels.until_other_primary(after) is before
    sentinels.mend()


def test_servers_end_with_the_process_that_started_them(valkey_9: Server, tmp_path: Path) -> None:
    folder = tmp_path / "server"
    command = [sys.executable, "-c", PROGRAM, str(valkey_9._binary), str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        server_id = int(program.stdout.readline())
        assert is_there(server_id)
        program.send_signal(signal.SIGKILL)
    until(lambda: not is_there(server_id), 10, "the server has ended")
    until(lambda: not folder.exists(), 10, "its folder is removed")


def is_there(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def _reply(server: Server, *words: object) -> object:
    try:
        return server.run(*words)
    except redis.ResponseError as error:
        return error
