"""A gateway is killed, its directory is deleted, and the next one has all that was promised.

HEADGATE_TEST_SEED makes the same choices; when exactly a kill comes is up to the machine.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.buckets.gateways.shared_bucket import SharedBucket, forms
from tests.processes.chaos import SETTINGS, Chaos, rng_of_test, work_through

FAULTY = 0.05
"""The share of requests that fail on the way to a store."""


class BucketChaos(Chaos):
    """A gateway whose answers wait for the bucket; its directory goes with each kill."""

    expected = ("bucket does not take the journal",)
    settings: Mapping[str, Any] = {**SETTINGS, "durable": "bucket", "lease_ms": 1000, "ship_ms": 20}

    def __init__(
        self, shared: SharedBucket, data_dir: Path, rng: random.Random, rounds: int
    ) -> None:
        super().__init__(data_dir, rng, 300 * (rounds + 1), 2 * rounds)
        self._shared = shared

    async def start(self) -> None:
        for way in self._shared.ways:
            way.mend()
        self._gateway = await self._shared.start(self.data_dir, self.settings)
        for way in self._shared.ways:
            way.seed(self.random.random(), FAULTY)
        self.place.move_to(self._gateway)

    async def end(self, kind: str) -> None:
        await super().end(kind)
        shutil.rmtree(self.data_dir)


@forms("moto", short=1, long=50)
async def test_nothing_that_was_answered_is_lost_with_the_machine(
    shared_bucket: SharedBucket, tmp_path: Path, rounds: int
) -> None:
    chaos = BucketChaos(shared_bucket, tmp_path / "data", rng_of_test(), rounds)
    left = await work_through(chaos, within_s=120 + 60 * rounds, leave_s=30)
    await chaos.end("SIGTERM")
    await chaos.start()
    assert await chaos.left() == left
    await chaos.end("SIGTERM")
