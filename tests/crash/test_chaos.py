"""Two dozen consumers over three transports, killed and stalled, on a gateway that is restarted.

HEADGATE_TEST_ENTRIES says how many entries are appended meanwhile (by hand: 50000),
HEADGATE_TEST_SEED with which choices; what happens at the same time as what is up to the machine
all the same.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.crash.chaos import Chaos, is_chaos, rng_of_test, work_through

ENTRIES = int(os.environ.get("HEADGATE_TEST_ENTRIES", "3000"))
ENTRIES_WITH_KEY = 3000
LEAVE_S = 10.0
"""Time for the gateway to notice that nobody is there any more."""

pytestmark = pytest.mark.usefixtures("credentials")


@pytest.mark.parametrize(
    "entry_count", [ENTRIES, pytest.param(ENTRIES_WITH_KEY, marks=pytest.mark.with_key)]
)
async def test_every_entry_is_settled_once_whatever_becomes_of_its_consumers(
    tmp_path: Path, entry_count: int
) -> None:
    chaos = Chaos(tmp_path, rng_of_test(), entry_count)
    left = await work_through(chaos, within_s=60 + entry_count / 200, leave_s=LEAVE_S)
    await chaos.end("SIGKILL")
    await chaos.start()
    assert await chaos.left() == left
    await chaos.end("SIGTERM")
    assert is_chaos(chaos)
