"""Principal: the caller and its rights; tickets for pages."""

from typing import Any, Literal, Self

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType

from headgate.app.auth.grants import OF_CHANNELS, Pattern, Right, Verb
from headgate.app.auth.needs import needs
from headgate.app.auth.principal import Principal
from headgate.app.auth.tickets import Scope
from headgate.app.http.dependencies import AccessDep, gateway_of
from headgate.app.http.operation import Operation
from headgate.app.wire.names import check_name, text_of
from headgate.app.wire.problems import GatewayError, responses
from headgate.app.wire.schemas.operations import Ticket, TicketRequest
from headgate.app.wire.schemas.operations import Verb as StreamVerb

_OF_STREAMS = frozenset(Verb) - OF_CHANNELS
_OF_TICKETS = frozenset({Verb.READ, Verb.APPEND, Verb.CONSUME})

router = APIRouter(prefix="/v1", tags=["Operations"], route_class=Operation)


@router.post(
    "/tickets",
    operation_id="createTicket",
    status_code=201,
    responses=responses("malformed", "unsupported_media_type", "invalid_request"),
)
@needs(Verb.READ, Verb.APPEND, Verb.CONSUME, Verb.PUBLISH, Verb.SUBSCRIBE)
async def create_ticket(request: Request, access: AccessDep, wanted: TicketRequest) -> Ticket:
    """Create a ticket: a short-lived token for a page, for one stream, one channel, or both.

    A ticket allows at most what you may do yourself, and expires no later than your key. Send it
    like any other token, or as `?ticket=` in the URL of an event stream or a WebSocket. It can be
    used for any number of requests and connections until it expires. A later ticket of yours can
    replace it in an `auth` frame.
    """
    if (wanted.group is None) == ("consume" in wanted.do):
        text = "a ticket needs a group if it allows consume, and only then"
        raise GatewayError("invalid_request", text, pointer="/body/group")
    if wanted.consumer is not None and wanted.group is None:
        text = "consumer requires group"
        raise GatewayError("invalid_request", text, pointer="/body/consumer")
    for name, verbs in (("stream", _OF_TICKETS), ("channel", OF_CHANNELS)):
        if (getattr(wanted, name) is None) != verbs.isdisjoint(wanted.do):
            text = (
                f"a ticket needs a {name} if it allows {' or '.join(sorted(verbs))}, and only then"
            )
            raise GatewayError("invalid_request", text, pointer=f"/body/{name}")
    scope = Scope(
        frozenset(map(Verb, wanted.do)),
        _checked(wanted.stream, "/body/stream"),
        _checked(wanted.group, "/body/group"),
        _checked(wanted.consumer, "/body/consumer"),
        _checked(wanted.channel, "/body/channel"),
        wanted.user,
    )
    tickets = gateway_of(request).auth.tickets
    ticket, expires_at_ms = tickets.issue(access.principal, scope, wanted.ttl_ms)
    return Ticket(ticket=ticket, expires_at_ms=expires_at_ms)


def _checked(name: str | None, pointer: str) -> bytes | None:
    return None if name is None else check_name(name, pointer=pointer)


ChannelVerb = TypeAliasType("ChannelVerb", Literal["publish", "subscribe"])


class AllowedChannels(BaseModel):
    """Channels, and what you may do with them."""

    channels: list[str] = Field(description="Names of channels, or prefixes followed by `*`.")
    do: list[ChannelVerb] = Field(description="Allowed verbs.")


class AllowedStreams(BaseModel):
    """Streams, and what you may do with them."""

    streams: list[str] = Field(description="Names of streams, or prefixes followed by `*`.")
    do: list[StreamVerb] = Field(description="Allowed verbs.")
    groups: list[str] | None = Field(description="Only with these groups; null: with all groups.")
    consumer: str | None = Field(description="Only as this consumer; null: as any consumer.")
    keys: list[str] | None = Field(
        description="Only table rows with these keys; null: the whole stream."
    )
    create: bool = Field(description="Whether an append may create the stream.")

    @classmethod
    def of(cls, right: Right) -> Self:
        return cls(
            streams=list(map(_written, right.streams)),
            do=_verbs(right, _OF_STREAMS),
            groups=None if right.groups is None else list(map(_written, right.groups)),
            consumer=None if right.consumer is None else _written(right.consumer),
            keys=None if right.keys is None else list(map(_written, right.keys)),
            create=right.create,
        )


class DescribedPrincipal(BaseModel):
    """The caller."""

    id: str = Field(description="Name of your key, or subject of your token.")
    anonymous: bool = Field(description="Whether the request has no credential.")
    expires_at_ms: int | None = Field(description="When your credential expires, in unix time.")
    allowed: list[AllowedStreams] = Field(description="Your rights on streams. They add up.")
    channels: list[AllowedChannels] = Field(description="Your rights on channels.")

    @classmethod
    def of(cls, principal: Principal) -> Self:
        return cls(
            id=principal.id,
            anonymous=principal.is_anonymous,
            expires_at_ms=principal.expires_at_ms,
            allowed=[
                AllowedStreams.of(right)
                for right in principal.rights
                if not right.verbs.isdisjoint(_OF_STREAMS)
            ],
            channels=[
                AllowedChannels(channels=list(map(_written, right.streams)), do=do)
                for right in principal.rights
                if (do := _verbs(right, OF_CHANNELS))
            ],
        )


@router.get("/principal", operation_id="getPrincipal", responses=responses("invalid_request"))
@needs()
async def get_principal(access: AccessDep) -> DescribedPrincipal:
    """Return your name and your rights.

    If the grants of a token refer to its claims, the values of the claims are shown.
    """
    return DescribedPrincipal.of(access.principal)


def _verbs(right: Right, among: frozenset[Verb]) -> list[Any]:
    return [verb.value for verb in Verb if verb in right.verbs & among]


def _written(pattern: Pattern) -> str:
    return text_of(pattern.text) + "*" * pattern.is_prefix
