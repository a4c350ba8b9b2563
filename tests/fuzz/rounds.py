"""Rounds: random cases for as long as there is time, each of which can be had again by its seed."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = float(os.environ.get("FUZZ_SECONDS", "8"))
"""How long each fuzzer goes on."""


def seeds() -> Iterator[int]:
    """Yield seeds until the time is over; with FUZZ_SEED only that one."""
    again = os.environ.get("FUZZ_SEED")
    if again is not None:
        yield int(again)
        return
    end_s = time.monotonic() + SECONDS
    seed = random.SystemRandom().randrange(2**32)
    while time.monotonic() < end_s:
        yield seed
        seed += 1


@contextmanager
def told(seed: int, *facts: object) -> Iterator[None]:
    """Say by what seed a failure can be had again, and what was tried."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"again with FUZZ_SEED={seed}")
        for fact in facts:
            error.add_note(repr(fact)[:4000])
        raise
