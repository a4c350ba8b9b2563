"""The function that carries out each request."""

from __future__ import annotations

from headgate.app.backends.redis.performing import (
    Performers,
    bulk,
    deliveries,
    details,
    dumps,
    entries,
    group_reads,
    groups,
    keyspace,
    policies,
    schedules,
    streams,
    writes,
)

PERFORMERS: Performers = {
    request: performer
    for module in (
        *(bulk, deliveries, details, dumps, entries, group_reads, groups, keyspace),
        *(policies, schedules, streams, writes),
    )
    for request, performer in module.PERFORMERS.items()
}
