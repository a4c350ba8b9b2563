"""The table of performers: the way of each request, and the function that carries it out."""

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
    pending,
    policies,
    streams,
    trims,
    writes,
)
from headgate.app.backends.redis.performing.schedules import definitions, runs

PERFORMERS: Performers = {
    request: performer
    for module in (
        *(bulk, deliveries, details, dumps, entries, group_reads, groups, keyspace),
        *(pending, policies, streams, trims, writes, definitions, runs),
    )
    for request, performer in module.PERFORMERS.items()
}
