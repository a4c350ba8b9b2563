"""One round of the chaos with workers: consumers, the engine and workers are killed.

`HEADGATE_TEST_WORKERS=2` runs all of `tests/crash` so.
"""

from pathlib import Path

import pytest

from tests.processes.chaos import Chaos, is_chaos, rng_of_test, work_through
from tests.processes.gateway import Gateway

ENTRIES = 900
WITHIN_S = 120.0
LEAVE_S = 10.0


async def test_every_entry_is_settled_once_whatever_becomes_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Gateway, "worker_count", 2)
    chaos = Chaos(tmp_path, rng_of_test(), ENTRIES)
    await work_through(chaos, within_s=WITHIN_S, leave_s=LEAVE_S)
    await chaos.end("SIGTERM")

    assert is_chaos(chaos)
    assert {"engine", "worker", "SIGHUP"} <= chaos.endings.keys()
