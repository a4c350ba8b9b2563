"""A bank, and entries in stages, with real processes that are killed and stopped.

HEADGATE_TEST_SECONDS says how long the bank is open, HEADGATE_TEST_ENTRIES how many entries go
through the stages, HEADGATE_TEST_SEED what fails.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from random import Random

import pytest

from tests.ledger import bank, stages
from tests.ledger.bank import ACCOUNTS, DONE, KEY_FIELD, NAMES, TELLERS, TRANSFERS
from tests.ledger.checker import Books, violations
from tests.ledger.client import append
from tests.ledger.processes.site import Site
from tests.ledger.stages import GROUP, STAGES, STREAMS, violations_of_order
from tests.processes.chaos import rng_of_test
from tests.processes.gateway import no_gateway_left

__all__ = ["no_gateway_left"]

SECONDS = float(os.environ.get("HEADGATE_TEST_SECONDS", "1800"))
ENTRIES = int(os.environ.get("HEADGATE_TEST_ENTRIES", "50000"))

TELLER_NAMES = ["w0", "w1", "w2", "w3"]
ORDERED_TOGETHER_MAX, BACKLOG_MAX = 20, 100
SENT_TOGETHER, KEY_COUNT = 500, 400
LOOK_S = 0.2

BANK_CALM_S_MAX, STAGES_CALM_S_MAX = 1.0, 5.0
SETTLED_S_MAX, STAGES_S_MAX = 300.0, 3_000.0

pytestmark = pytest.mark.timeout(7_200)


async def no_pause() -> None:
    """Go on at once: the writer is never killed."""


@pytest.mark.parametrize("is_pair", [False, True], ids=["one", "pair"])
async def test_each_transfer_is_done_once_and_everybody_is_told_the_truth(
    tmp_path: Path, is_pair: bool
) -> None:
    site = Site(tmp_path, rng_of_test(), dict.fromkeys(TELLER_NAMES, "bank"), is_pair=is_pair)
    over_s = time.monotonic() + SECONDS
    async with site.serving():
        await site.client.ask_again("PUT", f"/v1/streams/{ACCOUNTS}", {"key_field": KEY_FIELD})
        await bank.open_accounts(site.client, no_pause)
        await _make_group(site, TRANSFERS, TELLERS, {})
        async with site.working():
            ordering = asyncio.create_task(_order(site, over_s))
            await site.operate(lambda: time.monotonic() > over_s, BANK_CALM_S_MAX)
            ordered = await asyncio.wait_for(ordering, SETTLED_S_MAX)
            await site.until_settled(TRANSFERS, TELLERS, SETTLED_S_MAX)
        books, log = await _books(site), site.log()
    print(f"{len(ordered)} transfers, {dict(site.failures)}, {bank.tally(log)}")
    assert violations(log, ordered, books) == []


async def _make_group(site: Site, stream: str, group: str, policy: dict[str, object]) -> None:
    path = f"/v1/streams/{stream}/groups/{group}"
    body = {"start": "0", "create_stream": True, "policy": policy}
    await site.client.ask_again("PUT", path, body)


async def _order(site: Site, over_s: float) -> dict[str, dict[str, str]]:
    """Order transfers, as many as the tellers can carry out."""
    chance, ordered = Random(0), dict[str, dict[str, str]]()
    while time.monotonic() < over_s:
        numbers = range(len(ordered), len(ordered) + chance.randint(1, ORDERED_TOGETHER_MAX))
        transfers = [bank.ordered(chance, number) for number in numbers]
        ordered |= await bank.order(site.client, no_pause, transfers, f"transfers {len(ordered)}")
        while (left := await site.left(TRANSFERS, TELLERS)) is None or left > BACKLOG_MAX:
            await asyncio.sleep(LOOK_S)
    return ordered


async def _books(site: Site) -> Books:
    table = await site.client.ask_again("GET", f"/v1/streams/{ACCOUNTS}/table?limit={len(NAMES)}")
    return Books(
        accounts=await site.client.entries(ACCOUNTS),
        transfers=await site.client.entries(TRANSFERS),
        done=await site.client.entries(DONE),
        rows={row["key"]: row["id"] for row in table["rows"]},
        left=await site.left(TRANSFERS, TELLERS),
    )


async def test_entries_go_through_stages_once_and_in_order(tmp_path: Path) -> None:
    works = {f"o{number}": str(number % len(STAGES)) for number in range(2 * len(STAGES))}
    site, sent = Site(tmp_path, rng_of_test(), works), stages.entries(0, ENTRIES, KEY_COUNT)
    async with site.serving():
        for stream in STREAMS[:-1]:
            await _make_group(site, stream, GROUP, {"key_field": stages.KEY_FIELD})
        async with site.working():
            going = asyncio.create_task(_go_through(site, sent))
            await site.operate(going.done, STAGES_CALM_S_MAX)
            await going
        results = await site.client.entries(STREAMS[-1])
    print(f"{len(results)} results, {dict(site.failures)}")
    assert [*violations_of_order(sent, [entry.fields for entry in results])] == []


async def _go_through(site: Site, sent: list[dict[str, str]]) -> None:
    for start in range(0, len(sent), SENT_TOGETHER):
        part = sent[start : start + SENT_TOGETHER]
        await append(site.client, no_pause, STREAMS[0], part, f"sent {start}")
    for stream in STREAMS[:-1]:
        await site.until_settled(stream, GROUP, STAGES_S_MAX)
