"""Some files of the suite of the interface over a cluster, as `README.md` says for all of it."""

import os
import subprocess
import sys

from tests.processes.gateway import ROOT
from tests.servers.failures import FailingCluster

FILES = (
    "tests/api/rest/test_groups.py",
    "tests/api/live/test_channels.py",
    "tests/api/live/test_subscriptions.py",
    "tests/sdk/test_upstash_redis.py",
)
RUN_S_MAX = 240


def test_the_interface_is_the_same_over_a_cluster(valkey_cluster: FailingCluster) -> None:
    own = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *FILES],
        cwd=ROOT,
        env={**own, "HEADGATE_TEST_BACKEND": valkey_cluster.url},
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout
