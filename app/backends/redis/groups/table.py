"""Table: the function for each request about groups and deliveries."""

from __future__ import annotations

from headgate.app.backends.redis.groups import (
    claims,
    dead_letters,
    details,
    group_reads,
    groups,
    pending,
    settling,
)
from headgate.app.backends.redis.performing import Performers

PERFORMERS: Performers = {
    **groups.PERFORMERS,
    **group_reads.PERFORMERS,
    **details.PERFORMERS,
    **settling.PERFORMERS,
    **claims.PERFORMERS,
    **pending.PERFORMERS,
    **dead_letters.PERFORMERS,
}
