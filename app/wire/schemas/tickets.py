"""Tickets, as they are asked for and answered."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

TTL_MS_DEFAULT = 300_000
TTL_MS_MAX = 3_600_000


class TicketRequest(BaseModel):
    """The rights of a new ticket."""

    model_config = ConfigDict(extra="forbid")

    stream: str = Field(description="The one stream that it allows.")
    group: str | None = Field(None, description="With `consume`: the group.")
    consumer: str | None = Field(None, description="With `consume`: only as this consumer.")
    do: Annotated[list[Literal["read", "append", "consume"]], Field(min_length=1, max_length=3)] = (
        Field(description="Verbs that it allows; you must have them yourself.")
    )
    ttl_ms: int = Field(
        TTL_MS_DEFAULT,
        ge=1000,
        le=TTL_MS_MAX,
        description="Time that it is valid, for any number of connections.",
    )


class Ticket(BaseModel):
    """A ticket for the query of a URL."""

    ticket: str = Field(description="Append `?ticket=` and this to a URL of events or a socket.")
    expires_at_ms: int = Field(description="When it ends; no later than your own credential.")
