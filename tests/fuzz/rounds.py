"""Rounds: random cases, each of which can be had again by its seed."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
"""Duration of each fuzzer; without it each has a number of cases."""

CASE_S_MAX = 60
"""Time of one case, at most; all end within a second, on a machine that is not busy."""


def seeds(count: int) -> Iterator[int]:
    """Yield so many seeds, or until FUZZ_SECONDS are over; with FUZZ_SEED only that one."""
    again = os.environ.get("FUZZ_SEED")
    if again is not None:
        yield int(again)
        return
    first = random.SystemRandom().randrange(2**32)
    end_s = time.monotonic() + SECONDS
    for number in itertools.count():
        if time.monotonic() >= end_s if SECONDS else number == count:
            return
        yield first + number


@contextmanager
def reporting_seed(seed: int, *facts: object) -> Iterator[None]:
    """Name the seed of a failure, and the facts of the case."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"again with FUZZ_SEED={seed}")
        for fact in facts:
            error.add_note(repr(fact)[:4000])
        raise


@contextmanager
def ended() -> Iterator[None]:
    """Raise `TimeoutError` in code without an end. Not for code that goes on beside others."""
    before = signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(CASE_S_MAX)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _give_up(*_: object) -> NoReturn:
    raise TimeoutError(f"a case that takes more than {CASE_S_MAX} s")
