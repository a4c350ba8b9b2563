"""Attention: why a group needs somebody to look at it. There is one rule for all faces.

The rule looks at one moment, so it needs no history: what waits, for how long, and whether anybody
reads. What a backend does not know (None) is no reason.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from headgate.engine.replies import GroupInfo

STALLED_MS: Final = 10_000
"""Entries that wait for so long while nothing is delivered: the group has stalled."""

BEHIND_MS: Final = 60_000
"""Entries that wait for so long: the group is behind, though it delivers."""


class Urgency(IntEnum):
    OK = 0
    WARNING = 1
    CRITICAL = 2


class AttentionCode(StrEnum):
    NO_CONSUMER = "no_consumer"
    STALLED = "stalled"
    PAUSED = "paused"
    BEHIND = "behind"


class Attention(NamedTuple):
    """Why a group needs attention."""

    code: AttentionCode
    severity: Urgency
    entry_count: int  # entries that wait
    ms: int | None = None  # for how long; until when, if the group is paused


def attention_of(group: GroupInfo, now_ms: int) -> Attention | None:
    """Return why a group needs attention; None: it does not.

    Dead letters are no reason here: it is not known without reading them whose they are.

    Args:
        group: as it is described now.
        now_ms: wall time.
    """
    count = (group.lag or 0) + max(group.released_count - group.delayed_count, 0)
    until_ms = group.policy.paused_until_ms
    waiting_ms, idle_ms = _ago(group.waiting_since_ms, now_ms), _ago(group.idle_since_ms, now_ms)
    if not count:
        return None
    if until_ms is not None and until_ms > now_ms:
        return Attention(AttentionCode.PAUSED, Urgency.WARNING, count, until_ms)
    if not group.consumer_count:
        return Attention(AttentionCode.NO_CONSUMER, Urgency.CRITICAL, count, waiting_ms)
    if idle_ms is not None and idle_ms >= STALLED_MS:
        # Consumers that hold entries may be at work on them: these may simply be too few.
        severity = Urgency.WARNING if group.pending_count else Urgency.CRITICAL
        return Attention(AttentionCode.STALLED, severity, count, idle_ms)
    if waiting_ms is not None and waiting_ms >= BEHIND_MS:
        return Attention(AttentionCode.BEHIND, Urgency.WARNING, count, waiting_ms)
    return None


def _ago(at_ms: int | None, now_ms: int) -> int | None:
    return None if at_ms is None else max(now_ms - at_ms, 0)


def severity_of(attention: Attention | None) -> Urgency:
    return Urgency.OK if attention is None else attention.severity
