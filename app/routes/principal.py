"""Principal: the caller and its rights; tickets for pages."""

from typing import Self

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from headgate.app.auth.grants import Pattern, Right, Verb
from headgate.app.auth.needs import needs
from headgate.app.auth.principal import Principal
from headgate.app.auth.tickets import Scope
from headgate.app.http.dependencies import AccessDep, gateway_of
from headgate.app.http.operation import Operation
from headgate.app.wire.names import check_name, text_of
from headgate.app.wire.problems import GatewayError, responses
from headgate.app.wire.schemas.operations import Ticket, TicketRequest

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


class AllowedStreams(BaseModel):
    """Streams, and what you may do with them."""

    streams: list[str] = Field(description="Names of streams, or beginnings of names and `*`.")
    do: list[Verb] = Field(description="Verbs allowed on them.")
    groups: list[str] | None = Field(description="Only with these groups; null with all.")
    consumer: str | None = Field(description="Only as this consumer; null as any.")
    keys: list[str] | None = Field(
        description="Only rows of tables with these keys; null if it is for whole streams."
    )
    create: bool = Field(description="An append may create the stream.")

    @classmethod
    def of(cls, right: Right) -> Self:
        return cls(
            streams=list(map(_written, right.streams)),
            do=sorted(right.verbs, key=list(Verb).index),
            groups=None if right.groups is None else list(map(_written, right.groups)),
            consumer=None if right.consumer is None else _written(right.consumer),
            keys=None if right.keys is None else list(map(_written, right.keys)),
            create=right.create,
        )


class DescribedPrincipal(BaseModel):
    """The caller."""

    id: str = Field(description="The name of your key, or the subject of your token.")
    anonymous: bool = Field(description="Whether you sent no credential.")
    expires_at_ms: int | None = Field(description="When your credential ends, in unix time.")
    allowed: list[AllowedStreams] = Field(description="Your rights: each of these.")

    @classmethod
    def of(cls, principal: Principal) -> Self:
        return cls(
            id=principal.id,
            anonymous=principal.is_anonymous,
            expires_at_ms=principal.expires_at_ms,
            allowed=list(map(AllowedStreams.of, principal.rights)),
        )


@router.get("/principal", operation_id="getPrincipal", responses=responses("invalid_request"))
@needs()
async def get_principal(access: AccessDep) -> DescribedPrincipal:
    """Tell your principal's name and rights.

    The claims of a token stand where its grants name them.
    """
    return DescribedPrincipal.of(access.principal)


def _written(pattern: Pattern) -> str:
    return text_of(pattern.text) + "*" * pattern.is_prefix
