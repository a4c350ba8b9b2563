"""Answers wait for the disk alone: readers learn of the entries that a machine takes with it."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

import httpx

from tests.buckets.gateways.shared_bucket import SharedBucket, forms
from tests.buckets.gateways.witness import Acked, Witness, lost, page_of, witnessed
from tests.processes.chaos import rng_of_test
from tests.processes.ledger import Id, id_of, text_of

SHIP_MS = 300
SETTINGS = {"lease_ms": 1000, "ship_ms": SHIP_MS}
LOAD_S = (0.5, 2.0)
UPLOAD_S = 2.0
"""A part takes no longer, also on a busy machine."""


@forms("directory", short=2, long=50)
async def test_readers_are_told_of_what_is_lost_with_the_machine(
    shared_bucket: SharedBucket, tmp_path: Path, rounds: int
) -> None:
    rng, kept, lost_count = rng_of_test(), dict[Id, str](), 0
    longest_s = 0.0
    gateway = await shared_bucket.start(tmp_path / "0", SETTINGS)
    for number in range(1, rounds + 1):
        witness = Witness()
        running = [asyncio.create_task(witness.run(gateway)) for _ in range(4)]
        await asyncio.wait(running, timeout=rng.uniform(*LOAD_S))
        gateway.kill_now()
        killed_s = time.monotonic()
        await asyncio.gather(*running)
        await gateway.kill()
        shutil.rmtree(tmp_path / f"{number - 1}")
        gateway = await shared_bucket.start(tmp_path / f"{number}", SETTINGS)
        entries = await witnessed(gateway.url)
        gone = lost(witness.acked, entries)
        assert [each for each in kept.items() if entries.get(each[0]) != each[1]] == []
        old = [each for each in gone if killed_s - each.answered_s > SHIP_MS / 1000 + UPLOAD_S]
        assert not old, f"lost, and shipped long before kill {number}: {old}"
        await check_gap(gateway.url, witness.acked, gone)
        kept, lost_count = entries, lost_count + len(gone)
        longest_s = max([longest_s, *(killed_s - each.answered_s for each in gone)])
    await gateway.stop()
    print(f"{rounds} kills, {lost_count} lost, of the last {longest_s:.3f} s at most")


async def check_gap(url: str, acked: list[Acked], gone: list[Acked]) -> None:
    """A reader has a cursor before all that is lost: a gap covers it."""
    if not gone:
        return
    first_id = min(each.entry_id for each in gone)
    before = [each.entry_id for each in acked if each.entry_id < first_id]
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        page = await page_of(http, text_of(max(before, default=(0, 1))))
    gap = page["gap"]
    assert gap is not None, f"{len(gone)} are lost, and nobody is told"
    after, last = id_of(gap["from"]), id_of(gap["to"])
    untold = [each for each in gone if not after < each.entry_id <= last]
    assert not untold, f"{untold} are lost, and the gap is {gap}"
