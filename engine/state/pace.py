"""Pace: how many entries a group may deliver at a time (GCRA, ITU-T I.371).

What was delivered is kept as one time: that at which none of it counts any more. Each delivery puts
it off by the time between two deliveries. It may be as far ahead as a burst takes.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from headgate.engine.config import GroupPolicy


class Pace(NamedTuple):
    """The rate of a group, and its burst."""

    gap_ms: float  # between two deliveries
    burst: int  # deliveries at once, after a rest

    @classmethod
    def of(cls, policy: GroupPolicy) -> Self | None:
        """Return the pace in a policy, if it has a rate."""
        if policy.rate_per_s is None:
            return None
        return cls(1000 / policy.rate_per_s, policy.rate_burst or policy.rate_per_s)

    def allowance(self, used_ms: float, now_ms: int) -> int:
        """Return the number of entries that may be delivered now."""
        left_ms = self.burst * self.gap_ms - max(used_ms - now_ms, 0)
        return max(int(left_ms / self.gap_ms + 1e-6), 0)

    def used_after(self, used_ms: float, now_ms: int, count: int) -> float:
        """Return the time up to which the rate is used, after a delivery of so many entries."""
        return max(used_ms, now_ms) + count * self.gap_ms

    def free_at_ms(self, used_ms: float) -> int:
        """Return the time from which one entry may be delivered."""
        return int(used_ms - (self.burst - 1) * self.gap_ms) + 1
