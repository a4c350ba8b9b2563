"""The entries of a key come in order, whatever becomes of consumers and gateway.

HEADGATE_TEST_SEED makes the same choices; what happens at the same time as what is up to the
machine all the same.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.chaos import is_chaos, rng_of_test, work_through
from tests.crash.key_chaos import KeyChaos

LEAVE_S = 10.0
"""Time for the gateway to notice that nobody is there any more."""

pytestmark = pytest.mark.embedded("tests/outages does the same over servers")


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize(
    ("entry_count", "key_count"),
    [(2_000, 100), pytest.param(100_000, 500, marks=pytest.mark.long)],
)
async def test_entries_of_a_key_come_in_order(
    tmp_path: Path, entry_count: int, key_count: int, at_once: int
) -> None:
    chaos = KeyChaos(tmp_path, rng_of_test(), entry_count, key_count, at_once)
    left = await work_through(chaos, within_s=60 + entry_count / 50, leave_s=LEAVE_S)
    await chaos.end("SIGKILL")
    await chaos.start()
    assert await chaos.left() == left
    await chaos.end("SIGTERM")
    assert is_chaos(chaos)
