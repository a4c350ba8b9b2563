"""Backoff: how long to wait between attempts, so that clients do not all come at once."""

from __future__ import annotations

import random

BACKOFF_S_MIN = 0.1
BACKOFF_S_MAX = 10.0


def backoff_s(attempt: int) -> float:
    """Return the pause before the next attempt; the first attempt is number 0."""
    longest_s = min(BACKOFF_S_MAX, BACKOFF_S_MIN * 2.0 ** min(attempt, 10))
    return longest_s * random.uniform(0.5, 1.0)
