"""Table: the aspects of every request there is. All ways in make requests, so they stand here only.

A gateway with a request that is missing here does not start.
"""

from typing import Any

from headgate.app.auth.aspects import (
    bulk,
    deliveries,
    entries,
    groups,
    keyspace,
    schedules,
    streams,
)
from headgate.app.auth.aspects.aspects import Aspects, Table
from headgate.engine.requests import Request

_TABLE: Table = {
    **bulk.ASPECTS,
    **deliveries.ASPECTS,
    **entries.ASPECTS,
    **groups.ASPECTS,
    **keyspace.ASPECTS,
    **schedules.ASPECTS,
    **streams.ASPECTS,
}


def aspects_of(request: Request[Any]) -> Aspects:
    """Return the aspects of a request.

    Raises:
        KeyError: nobody has decided them.
    """
    return _TABLE[type(request)]


def undecided() -> list[str]:
    """Return the names of requests for which no right is decided. There should be none."""
    return sorted(kind.__name__ for kind in Request.__subclasses__() if kind not in _TABLE)
