"""Request log: a line for each request, if the operator asks for that.

It has the route and not the path, and nothing of the query: a path may name what is nobody's
business, and a query may have a ticket in it.
"""

import time
from typing import Final

from starlette.types import Scope

from headgate.app.runtime.logs import lines
from headgate.app.transport.request_ids import request_id_of

_PRINCIPAL_LENGTH_MAX: Final = 256


def note_request(scope: Scope, status: int, began_s: float) -> None:
    """Write the line of a request that is over.

    Args:
        scope: of the request.
        status: of its answer; 0: nobody was there to be answered.
        began_s: when it began, by `time.perf_counter`.
    """
    access = scope.get("access")
    facts = lines.RequestFacts(
        scope.get("method", "GET"),
        getattr(scope.get("route"), "path", None),
        status,
        (time.perf_counter() - began_s) * 1000,
        None if access is None else access.principal.id[:_PRINCIPAL_LENGTH_MAX],
        request_id_of(scope),
    )
    lines.note_request(facts)
