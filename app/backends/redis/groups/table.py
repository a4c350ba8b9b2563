"""Table: the function for each request about groups and deliveries."""

from __future__ import annotations

from headgate.app.backends.redis.groups import (
    claims,
    dead_letters,
    groups,
    pending,
    reads,
    settling,
)
from headgate.app.backends.redis.performing import Performers

PERFORMERS: Performers = {
    **groups.PERFORMERS,
    **reads.PERFORMERS,
    **settling.PERFORMERS,
    **claims.PERFORMERS,
    **pending.PERFORMERS,
    **dead_letters.PERFORMERS,
}
