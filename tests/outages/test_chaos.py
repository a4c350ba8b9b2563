"""Two dozen consumers at three gateways over a cluster, while servers and gateways fail.

HEADGATE_TEST_ROUNDS says how often each of seven failures happens; with 0 the test does not run.
HEADGATE_TEST_ENTRIES says how many entries are appended meanwhile, HEADGATE_TEST_SEED with which
choices; what happens at the same time as what is up to the machine all the same.

HEADGATE_TEST_DURABILITY says what answers wait for, HEADGATE_TEST_TAKEOVER (0 or 1) whether the
replica of a primary that is killed takes over. If not, the primary comes back with its disk. Every
second replica that takes over has got nothing for up to 0.5 s before.

What may be lost of what was answered:

| takeover | durability | |
|---|---|---|
| 1 | `replica` | nothing |
| 0 | `fsync`, `none` | nothing: the primary has it in its file |
| 1 | `fsync`, `none` | what came after the last moment of which is known that the replica had all |

Without these variables `replica` is run, with a takeover. By hand, a run of some five minutes:

    HEADGATE_TEST_DURABILITY=replica HEADGATE_TEST_ROUNDS=20 HEADGATE_TEST_ENTRIES=50000 \
        pytest -s tests/outages/test_chaos.py

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
DURABILITY = DurabilityLevel(os.environ.get("HEADGATE_TEST_DURABILITY", "replica"))
TAKES_OVER = os.environ.get("HEADGATE_TEST_TAKEOVER", "1") != "0"
KEYED_ENTRIES, KEYED_ROUNDS = 6_000, 2
LEAVE_S = 30.0
"""Time for the gateways to notice that nobody is there, also the lease of a dead one."""


@pytest.fixture
def cluster_of_its_own(keeper: Keeper, tmp_path: Path) -> Iterator[FailingCluster]:
    node_timeout_ms = 1500 if TAKES_OVER else 20_000
    # Each change waits until it is on the disks, which takes a second with `everysec`.
    options = {"cluster-node-timeout": node_timeout_ms, "appendfsync": "always"}
    cluster = FailingCluster(valkey_server(), tmp_path / "cluster", keeper, options=options)
    cluster.start()
    cluster.form()
    yield cluster
    cluster.stop()


@pytest.mark.long
@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("durability", [DurabilityLevel.REPLICA, DurabilityLevel.NONE])
async def test_entries_of_a_key_come_in_order_whatever_fails(
    cluster_of_its_own: FailingCluster, tmp_path: Path, durability: DurabilityLevel, at_once: int
) -> None:
    chaos = KeyClusterChaos(
        *(tmp_path, rng_of_test(), KEYED_ENTRIES, cluster_of_its_own),
        rounds=KEYED_ROUNDS,
        durability=durability,
        takes_over=True,
        key_count=100,
        at_once=at_once,
    )
    within_s = 60 + 60 * KEYED_ROUNDS + KEYED_ENTRIES / 50
    await work_through(chaos, within_s=within_s, leave_s=LEAVE_S)
    assert is_chaos(chaos)
    await chaos.end("SIGTERM")


@pytest.mark.skipif(not ROUNDS, reason="HEADGATE_TEST_ROUNDS is 0")
async def test_every_entry_is_settled_once_whatever_fails(
    cluster_of_its_own: FailingCluster, tmp_path: Path
) -> None:
    chaos = ClusterChaos(
        *(tmp_path, rng_of_test(), ENTRIES, cluster_of_its_own),
        rounds=ROUNDS,
        durability=DURABILITY,
        takes_over=TAKES_OVER,
    )
    await work_through(chaos, within_s=60 + 60 * ROUNDS + ENTRIES / 50, leave_s=LEAVE_S)
    assert is_chaos(chaos)
    await chaos.end("SIGTERM")
