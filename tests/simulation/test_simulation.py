"""Many seeds, and the promise that a seed is a whole story: run again, it is the same one."""

from __future__ import annotations

import os

import pytest

from tests.simulation.lives import Simulation

SEEDS = int(os.environ.get("HEADGATE_SIMULATION_SEEDS", "150"))
BATCHES = 10


@pytest.mark.parametrize("batch", range(BATCHES))
def test_nothing_that_was_promised_is_lost(batch: int) -> None:
    for seed in range(SEEDS * batch // BATCHES, SEEDS * (batch + 1) // BATCHES):
        try:
            Simulation(seed).run()
        except Exception as error:
            error.add_note(f"replay it: python -m tests.simulation --seed {seed} --trace")
            raise


def test_nothing_is_synced_beside_a_sync_that_fails() -> None:
    Simulation(20_808).run()  # a write is cut back while what was written before is synced


def test_a_seed_run_twice_gives_one_trace() -> None:
    first, second = trace_of(1), trace_of(1)
    assert first == second
    assert len(first) > 100
    assert first != trace_of(101)


def trace_of(seed: int) -> list[str]:
    lines: list[str] = []
    Simulation(seed, trace=lines.append).run()
    return lines
