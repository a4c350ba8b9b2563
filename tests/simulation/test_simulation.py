"""Many seeds, and the promise that a seed is a whole story: run again, it is the same one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.lives import Simulation

SEEDS = int(os.environ.get("HEADGATE_SIMULATION_SEEDS", "150"))
BATCHES = 10
ROOT = Path(__file__).parents[2]


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


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_run_twice_gives_one_trace(seed: int) -> None:
    first, second = trace_of(seed), trace_of(seed)
    assert first == second
    assert len(first) > 100
    assert first != trace_of(seed + 100)


def trace_of(seed: int) -> list[str]:
    lines: list[str] = []
    Simulation(seed, trace=lines.append).run()
    return lines


async def test_a_trace_is_the_same_in_processes_that_hash_differently() -> None:
    first, second = await asyncio.gather(traces_of("0"), traces_of("4711"))
    assert first == second
    assert len(first) > 10_000


async def traces_of(hash_seed: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.simulation", "--seeds", "0-30", "--trace"),
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output[-2_000:].decode()
    return output
