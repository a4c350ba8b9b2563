"""A leader and a standby: one of them acknowledges, whatever fails, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from tests.buckets.gateways.pair import LEASE_MS, PairChaos
from tests.buckets.gateways.shared_bucket import SharedBucket, forms
from tests.buckets.gateways.witness import lost, witnessed
from tests.processes.chaos import rng_of_test, work_through

LEAVE_S = 30.0


@forms("ministack", short=3, long=100)
async def test_one_of_two_acknowledges_and_nothing_is_lost(
    shared_bucket: SharedBucket, tmp_path: Path, rounds: int
) -> None:
    chaos = PairChaos(shared_bucket, tmp_path, rng_of_test(), rounds)
    await work_through(chaos, within_s=120 + 40 * rounds, leave_s=LEAVE_S)
    entries = await witnessed(chaos.place.url)
    assert lost(chaos.witness.acked, entries) == []
    await chaos.end("SIGTERM")
    assert chaos.witness_violations() == []
    assert len(chaos.witness.acked) > 10 * rounds
    print(
        f"{len(chaos.takeovers_s)} takeovers with a lease of {LEASE_MS} ms: "
        f"median {median(chaos.takeovers_s):.2f} s, at most {max(chaos.takeovers_s):.2f} s; "
        f"{len(chaos.witness.acked)} appends witnessed"
    )
