"""A gateway is killed, its directory is deleted, and the next one has all that was promised.

HEADGATE_TEST_SEED makes the same choices; when exactly a kill comes is up to the machine.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path

from tests.buckets.gateways.bucket_load import BucketLoad, begin
from tests.buckets.gateways.shared_bucket import SharedBucket, forms
from tests.conditions import until
from tests.crash.chaos import rng_of_test
from tests.crash.checker import violations
from tests.crash.gateway import Gateway
from tests.crash.history import History

SETTINGS = {
    "durable": "bucket",
    "lease_ms": 1000,
    "ship_ms": 20,
    "rewrite_bytes_min": 40_000,  # so that snapshots and manifests are made in the middle of things
    "rewrite_percentage": 60,
    "memory_bytes_max": 2**20,
}
LOAD_S = (0.2, 1.5)
ANSWERS_MIN = 10
"""Answers of a round before its kill, however busy the machine is."""
FAULTY = 0.05
"""The share of requests that fail on the way to a store."""


@forms("moto", short=2, long=100)
async def test_nothing_that_was_answered_is_lost_with_the_machine(
    shared_bucket: SharedBucket, tmp_path: Path, rounds: int
) -> None:
    rng, history = rng_of_test(), History()
    load = BucketLoad(history, rng)
    gateway = await shared_bucket.start(tmp_path / "0", SETTINGS)
    await begin(gateway.url)
    before = await load.look(gateway.url)
    for number in range(1, rounds + 1):
        for way in shared_bucket.ways:
            way.seed(rng.random(), FAULTY)
        await live_and_die(gateway, load, rng)
        for way in shared_bucket.ways:
            way.mend()
        shutil.rmtree(tmp_path / f"{number - 1}")
        gateway = await shared_bucket.start(tmp_path / f"{number}", SETTINGS)
        after = await load.look(gateway.url)
        wrong = violations(history, before, after) + await load.lost(gateway.url)
        assert not wrong, [f"after kill {number}", *wrong]
        before = after
        history.begin_round()
    await gateway.stop()
    print(
        f"{rounds} kills, {load.answer_count} answers, {len(before.entries)} entries, "
        f"{len(before.settled())} settled, {len(before.pending)} pending"
    )
    assert load.answer_count > ANSWERS_MIN * rounds


async def live_and_die(gateway: Gateway, load: BucketLoad, rng: random.Random) -> None:
    """Run all clients, and kill the gateway at some moment."""
    enough = load.answer_count + ANSWERS_MIN
    running = asyncio.create_task(load.run(gateway.url))
    await asyncio.wait([running], timeout=rng.uniform(*LOAD_S))
    await until(lambda: load.answer_count > enough, within_s=60)
    if rng.random() < 0.5:  # with the next answer: what it says must be true already
        load.on_answer = gateway.kill_now
        await asyncio.wait([running], timeout=2)
    gateway.kill_now()
    await running
    await gateway.kill()
    load.on_answer = lambda: None
