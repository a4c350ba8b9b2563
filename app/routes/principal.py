"""Principal: the caller and its rights."""

from typing import Self

from fastapi import APIRouter
from pydantic import BaseModel, Field

from headgate.app.auth.grants import Pattern, Right, Verb
from headgate.app.auth.needs import needs
from headgate.app.auth.principal import Principal
from headgate.app.http.dependencies import AccessDep
from headgate.app.http.operation import Operation
from headgate.app.wire.names import text_of

router = APIRouter(prefix="/v1", tags=["Operations"], route_class=Operation)


class AllowedStreams(BaseModel):
    """Streams, and what you may do with them."""

    streams: list[str] = Field(description="Names of streams, or beginnings of names and `*`.")
    do: list[Verb] = Field(description="Verbs allowed on them.")
    groups: list[str] | None = Field(description="Only with these groups; null with all.")
    consumer: str | None = Field(description="Only as this consumer; null as any.")
    create: bool = Field(description="An append may create the stream.")

    @classmethod
    def of(cls, right: Right) -> Self:
        """Return the streams and verbs of a right, as a grant writes them."""
        return cls(
            streams=list(map(_written, right.streams)),
            do=sorted(right.verbs, key=list(Verb).index),
            groups=None if right.groups is None else list(map(_written, right.groups)),
            consumer=None if right.consumer is None else _written(right.consumer),
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
        """Return the principal's description for itself."""
        return cls(
            id=principal.id,
            anonymous=principal.is_anonymous,
            expires_at_ms=principal.expires_at_ms,
            allowed=list(map(AllowedStreams.of, principal.rights)),
        )


@router.get("/principal", operation_id="getPrincipal")
@needs()
async def get_principal(access: AccessDep) -> DescribedPrincipal:
    """Tell your principal's name and rights.

    The claims of a token stand where its grants name them.
    """
    return DescribedPrincipal.of(access.principal)


def _written(pattern: Pattern) -> str:
    return text_of(pattern.text) + "*" * pattern.is_prefix
