"""Table: the function for each request."""

from __future__ import annotations

from headgate.app.backends.redis.performing import (
    Performers,
    bulk,
    dumps,
    entries,
    idempotency,
    keyspace,
    names,
    plans,
    ranges,
    streams,
)

PERFORMERS: Performers = {
    **entries.PERFORMERS,
    **ranges.PERFORMERS,
    **streams.PERFORMERS,
    **names.PERFORMERS,
    **keyspace.PERFORMERS,
    **idempotency.PERFORMERS,
    **bulk.PERFORMERS,
    **dumps.PERFORMERS,
    **plans.PERFORMERS,
}
