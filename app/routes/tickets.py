"""Tickets: for browsers, whose EventSource and WebSocket can send no header."""

from fastapi import APIRouter, Request

from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.auth.tickets import Scope
from headgate.app.http.dependencies import AccessDep, gateway_of
from headgate.app.http.operation import Operation
from headgate.app.wire.names import check_name
from headgate.app.wire.problems import GatewayError, responses
from headgate.app.wire.schemas.tickets import Ticket, TicketRequest

router = APIRouter(prefix="/v1", tags=["Operations"], route_class=Operation)


@router.post(
    "/tickets",
    operation_id="createTicket",
    status_code=201,
    responses=responses("malformed", "unsupported_media_type", "invalid_request"),
)
@needs(Verb.READ, Verb.APPEND, Verb.CONSUME)
async def create_ticket(request: Request, access: AccessDep, wanted: TicketRequest) -> Ticket:
    """Make a ticket: a short token that stands in a URL, for one stream and for a short time.

    It allows at most what you may do yourself, and ends with your key. It goes into the URL of
    events and sockets as `?ticket=`, and is good for every reconnection until it ends.
    """
    if (wanted.group is None) == ("consume" in wanted.do):
        text = "a ticket to consume names a group, and no other does"
        raise GatewayError("invalid_request", text, pointer="/body/group")
    if wanted.consumer is not None and wanted.group is None:
        text = "a consumer belongs to a group"
        raise GatewayError("invalid_request", text, pointer="/body/consumer")
    scope = Scope(
        frozenset(map(Verb, wanted.do)),
        check_name(wanted.stream, pointer="/body/stream"),
        _checked(wanted.group, "/body/group"),
        _checked(wanted.consumer, "/body/consumer"),
    )
    tickets = gateway_of(request).auth.tickets
    ticket, expires_at_ms = tickets.issue(access.principal, scope, wanted.ttl_ms)
    return Ticket(ticket=ticket, expires_at_ms=expires_at_ms)


def _checked(name: str | None, pointer: str) -> bytes | None:
    return None if name is None else check_name(name, pointer=pointer)
