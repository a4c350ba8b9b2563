"""Admin: the journal and the connections, for operators."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.backends.port import Journaled
from headgate.app.http.dependencies import CURSOR, access_of, gateway_of, page_after
from headgate.app.http.operation import Operation
from headgate.app.wire.problems import GatewayError, responses
from headgate.app.wire.schemas.operations import Connection, JournalState, OpenConnections

router = APIRouter(prefix="/v1/admin", tags=["Operations"], route_class=Operation)


@router.get(
    "/journal", operation_id="describeJournal", responses=responses("not_found", "invalid_request")
)
@needs(Verb.ADMIN)
async def describe_journal(request: Request) -> JournalState:
    """Describe the journal: its position, its size, and its failure if it has one."""
    return JournalState.of(_journal(request).status)


@router.post(
    "/rewrite",
    operation_id="rewriteJournal",
    status_code=202,
    responses=responses("not_found", "invalid_request", "unavailable"),
)
@needs(Verb.ADMIN)
async def rewrite_journal(request: Request) -> JournalState:
    """Start to replace the history of the journal with a snapshot (BGREWRITEAOF).

    Requests continue during the rewrite. If a rewrite is already running, no second one starts.
    `GET /v1/admin/journal` shows when it is done.
    """
    journal = _journal(request)
    with access_of(request).act("rewrite"):
        await journal.start_rewrite()
    return JournalState.of(journal.status)


@router.get("/connections", operation_id="listConnections", responses=responses("invalid_request"))
@needs(Verb.ADMIN)
async def list_connections(
    request: Request,
    limit: Annotated[
        int, Query(ge=1, le=1000, description="Maximum number of connections per page.")
    ] = 100,
    cursor: Annotated[str | None, CURSOR] = None,
) -> OpenConnections:
    """List the WebSockets, event streams and Redis connections of all workers, by id."""
    page = page_after(cursor, limit)
    after = (page.after or b"").decode(errors="replace")
    listed = await gateway_of(request).connections.page(after, page.limit + 1)
    connections, next_cursor = page.of(listed)
    return OpenConnections(
        connections=list(map(Connection.of, connections)), next_cursor=next_cursor
    )


@router.delete(
    "/connections/{connection}",
    operation_id="cutOffConnection",
    status_code=204,
    responses=responses("not_found", "invalid_request"),
)
@needs(Verb.ADMIN)
async def cut_off_connection(
    request: Request,
    connection: Annotated[
        str, Path(description="Id of the connection.", examples=["2f1b9d3c5a7e8064"])
    ],
) -> None:
    """Close a connection. Its entries are treated as after a disconnect.

    A WebSocket gets a `problem` frame and is closed with code 4503. An event stream ends with
    `problem`. A Redis client gets the replies that it is waiting for. The client can connect again:
    to keep it out, revoke its key.
    """
    with access_of(request).act("cut_off"):
        if not await gateway_of(request).connections.cut_off(connection):
            raise GatewayError("not_found", "no open connection has this id", pointer="/path")


def _journal(request: Request) -> Journaled:
    journal = gateway_of(request).backend.journal
    if journal is None:
        raise GatewayError("not_found", "this gateway has no journal", pointer="/path")
    return journal
