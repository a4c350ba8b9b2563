"""A gateway that is killed loses nothing that it acknowledged: `test_chaos.py` for a while."""

from __future__ import annotations

from pathlib import Path

from tests.processes.chaos import Chaos, rng_of_test, survive


async def test_nothing_acknowledged_is_lost_by_a_kill(tmp_path: Path) -> None:
    await survive(Chaos(tmp_path, rng_of_test(), 800, restart_count=2))
