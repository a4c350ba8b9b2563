"""The table of decisions: maps the type of a request to the function that decides it."""

from __future__ import annotations

from typing import TypeVar

from headgate.engine.decisions import (
    Decision,
    Decisions,
    attributes,
    bulk,
    commits,
    deliveries,
    details,
    dumps,
    entries,
    group_keys,
    groups,
    keys,
    keyspace,
    policies,
    schedules,
    streams,
    tables,
    trims,
)
from headgate.engine.decisions.group_reads import reads as group_reads
from headgate.engine.errors import Invalid
from headgate.engine.requests import Request
from headgate.engine.state.keyspace import Keyspace

T = TypeVar("T")

DECISIONS: Decisions = {
    request: decide_about
    for module in (
        attributes,
        bulk,
        commits,
        deliveries,
        details,
        dumps,
        entries,
        group_keys,
        group_reads,
        groups,
        keys,
        keyspace,
        policies,
        schedules,
        streams,
        tables,
        trims,
    )
    for request, decide_about in module.DECISIONS.items()
}


def decide(keyspace: Keyspace, request: Request[T], now_ms: int) -> Decision[T]:
    """Decide a request without waiting; a read that finds nothing replies so at once.

    Raises a StreamError that the request lists, and then nothing changes; or Invalid if one
    decision is not enough, because it describes a long list.
    """
    decide_about = DECISIONS.get(type(request))
    if decide_about is None:
        raise Invalid(f"{type(request).__name__} takes more than one moment: ask for it by itself")
    decision: Decision[T] = decide_about(keyspace, request, now_ms)
    return decision
