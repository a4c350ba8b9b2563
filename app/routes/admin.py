"""Admin: the journal, for operators."""

from fastapi import APIRouter, Request

from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.backends.port import Journaled
from headgate.app.http.dependencies import access_of, gateway_of
from headgate.app.http.operation import Operation
from headgate.app.wire.problems import GatewayError, responses
from headgate.app.wire.schemas.operations import JournalState

router = APIRouter(prefix="/v1/admin", tags=["Operations"], route_class=Operation)


@router.get(
    "/journal", operation_id="describeJournal", responses=responses("not_found", "invalid_request")
)
@needs(Verb.ADMIN)
async def describe_journal(request: Request) -> JournalState:
    """Tell how the journal is: how far, how large, and whether it can be written."""
    return JournalState.of(_journal(request).status)


@router.post(
    "/rewrite",
    operation_id="rewriteJournal",
    status_code=202,
    responses=responses("not_found", "invalid_request", "unavailable"),
)
@needs(Verb.ADMIN)
async def rewrite_journal(request: Request) -> JournalState:
    """Begin to replace the journal's history by a snapshot (BGREWRITEAOF).

    Requests go on meanwhile. If a rewrite is under way already, that one goes on;
    `GET /v1/admin/journal` tells when it is done.
    """
    journal = _journal(request)
    with access_of(request).act("rewrite"):
        await journal.start_rewrite()
    return JournalState.of(journal.status)


def _journal(request: Request) -> Journaled:
    journal = gateway_of(request).backend.journal
    if journal is None:
        raise GatewayError("not_found", "this gateway keeps no journal", pointer="/path")
    return journal
