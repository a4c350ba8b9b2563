"""Shares: what each of several streams gets of a limit."""

from __future__ import annotations

from collections.abc import Sequence


def shares(backlogs: Sequence[int], limit: int) -> list[int]:
    """Divide `limit` in proportion to the backlogs, by the largest remainder.

    No share exceeds its backlog. Every stream with a backlog gets at least one, if `limit` is large
    enough for that.
    """
    if sum(backlogs) <= limit:
        return list(backlogs)
    waiting = sum(backlog > 0 for backlog in backlogs)
    base = 1 if waiting <= limit else 0
    weights = [max(backlog - base, 0) for backlog in backlogs]
    left, total = limit - base * waiting, sum(weights)
    quotas = [divmod(left * weight, total) for weight in weights]
    given = [
        min(base, backlog) + quota for backlog, (quota, _) in zip(backlogs, quotas, strict=True)
    ]
    by_remainder = sorted(range(len(quotas)), key=lambda at: -quotas[at][1])
    for at in by_remainder[: limit - sum(given)]:
        given[at] += 1
    return given
