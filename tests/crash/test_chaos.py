"""Two dozen consumers over three transports, killed and stalled, on a gateway that is restarted.

HEADGATE_TEST_ENTRIES says how many entries are appended meanwhile (by hand: 50000),
HEADGATE_TEST_SEED with which choices; what happens at the same time as what is up to the machine
all the same. The journal is rewritten meanwhile, and little of it stays in memory.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.processes.chaos import Chaos, rng_of_test, survive
from tests.processes.key_chaos import FairChaos, KeyChaos

ENTRIES = int(os.environ.get("HEADGATE_TEST_ENTRIES", "3000"))

pytestmark = pytest.mark.usefixtures("credentials")


@pytest.mark.parametrize("form", ["open", pytest.param("key", marks=pytest.mark.with_key)])
async def test_every_entry_is_settled_once_whatever_becomes_of_its_consumers(
    tmp_path: Path, form: str
) -> None:
    restarts = 4 if ENTRIES <= 5000 else 12
    await survive(Chaos(tmp_path, rng_of_test(), ENTRIES, restarts))


@pytest.mark.embedded("tests/outages does the same over servers")
@pytest.mark.parametrize("at_once", [1, 3])
async def test_entries_of_a_key_come_in_order(tmp_path: Path, at_once: int) -> None:
    await survive(KeyChaos(tmp_path, rng_of_test(), 10_000, 500, at_once))


@pytest.mark.embedded("servers have no fair groups")
async def test_entries_of_a_key_come_in_order_while_the_keys_take_turns(tmp_path: Path) -> None:
    await survive(FairChaos(tmp_path, rng_of_test(), 10_000, 500, 1))
