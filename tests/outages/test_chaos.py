"""Two dozen consumers at three gateways over a cluster, while servers and gateways fail.

HEADGATE_TEST_ROUNDS says how often each of seven failures happens.
HEADGATE_TEST_ENTRIES says how many entries are appended meanwhile, HEADGATE_TEST_SEED with which
choices; what happens at the same time as what is up to the machine all the same.

Nothing that was answered may be lost, where answers wait for a replica that takes over, or the
primary comes back with its disk.

The rules are those of one gateway over its own journal (`tests/processes/checker.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local_cluster.keeper import Keeper
from headgate.app.backends.redis.durability import DurabilityLevel
from tests.outages.chaos import ClusterChaos, KeyClusterChaos
from tests.processes.chaos import is_chaos, rng_of_test, work_through
from tests.processes.gateway import no_gateway_left
from tests.servers.failures import FailingCluster
from tests.servers.programs import valkey_server

__all__ = ["no_gateway_left"]

ROUNDS = int(os.environ.get("HEADGATE_TEST_ROUNDS", "1"))
ENTRIES = int(os.environ.get("HEADGATE_TEST_ENTRIES", "3000"))
KEYED_ENTRIES, KEYED_ROUNDS = 6_000, 2
LEAVE_S = 30.0
"""Time for the gateways to notice that nobody is there, also the lease of a dead one."""


TAKES_OVER = DurabilityLevel.REPLICA, True
COMES_BACK = DurabilityLevel.FSYNC, False


@pytest.fixture
def cluster_of_its_own(
    keeper: Keeper, tmp_path: Path, takes_over: bool
) -> Iterator[FailingCluster]:
    node_timeout_ms = 1500 if takes_over else 20_000
    # Each change waits until it is on the disks, which takes a second with `everysec`.
    options = {"cluster-node-timeout": node_timeout_ms, "appendfsync": "always"}
    cluster = FailingCluster(valkey_server(), tmp_path / "cluster", keeper, options=options)
    cluster.start()
    cluster.form()
    yield cluster
    cluster.stop()


@pytest.mark.long
@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize(("durability", "takes_over"), [TAKES_OVER])
async def test_entries_of_a_key_come_in_order_whatever_fails(
    cluster_of_its_own: FailingCluster,
    tmp_path: Path,
    durability: DurabilityLevel,
    takes_over: bool,
    at_once: int,
) -> None:
    chaos = KeyClusterChaos(
        *(tmp_path, rng_of_test(), KEYED_ENTRIES, cluster_of_its_own),
        rounds=KEYED_ROUNDS,
        durability=durability,
        takes_over=takes_over,
        key_count=100,
        at_once=at_once,
    )
    within_s = 60 + 60 * KEYED_ROUNDS + KEYED_ENTRIES / 50
    await work_through(chaos, within_s=within_s, leave_s=LEAVE_S)
    assert is_chaos(chaos)
    await chaos.end("SIGTERM")


@pytest.mark.long
@pytest.mark.parametrize(("durability", "takes_over"), [TAKES_OVER, COMES_BACK])
async def test_every_entry_is_settled_once_whatever_fails(
    cluster_of_its_own: FailingCluster,
    tmp_path: Path,
    durability: DurabilityLevel,
    takes_over: bool,
) -> None:
    chaos = ClusterChaos(
        *(tmp_path, rng_of_test(), ENTRIES, cluster_of_its_own),
        rounds=ROUNDS,
        durability=durability,
        takes_over=takes_over,
    )
    await work_through(chaos, within_s=60 + 60 * ROUNDS + ENTRIES / 50, leave_s=LEAVE_S)
    assert is_chaos(chaos)
    await chaos.end("SIGTERM")
