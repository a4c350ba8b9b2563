"""The state of the gateway and of its journal; tickets."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from headgate.app.backends.port import Durable
from headgate.app.runtime import connections
from headgate.app.wire.names import text_of
from headgate.app.wire.schemas.entries import NextCursor
from headgate.engine.replies import JournalStatus as EngineJournalStatus
from headgate.engine.replies import LeaderRole


class Health(BaseModel):
    """Whether the gateway lives, or is ready."""

    status: Literal["ok"]
    warnings: list[str] | None = Field(
        None, description="Faults for an operator to look at; the log has the details."
    )
    durable: Durable | None = Field(
        None, description="Durability of an answered change; told by `/readyz`."
    )
    role: LeaderRole | None = Field(
        None,
        description="Of a gateway with a bucket, told by `/readyz`: `leader`. A standby is not "
        "ready, and answers `not_leader`.",
    )
    unshipped_bytes: int | None = Field(
        None, description="Likewise: journal that the bucket does not have yet."
    )
    unshipped_ms: int | None = Field(
        None, description="Likewise: since when; left out if the bucket has everything."
    )


class BucketState(BaseModel):
    """The state of the bucket behind the data directory."""

    url: str = Field(description="Its address.")
    role: LeaderRole = Field(description="`leader`, which may change the streams, or `standby`.")
    is_durable: bool = Field(description="Whether an answer waits for the bucket.")
    term: int = Field(description="Number of the lease, which grows with each leader.")
    leader: str = Field(description="Address of the leader; empty if it is not known.")
    lease_left_ms: int | None = Field(
        description="Time that the lease holds without a renewal; null at a standby."
    )
    shipped_position: int = Field(description="Records that the bucket has.")
    unshipped_bytes: int = Field(description="Journal that the bucket does not have yet.")
    unshipped_ms: int | None = Field(description="Since when; null if it has everything.")
    behind_ms: int | None = Field(
        description="Of a standby: how long ago it knew all that the bucket had."
    )
    error: str | None = Field(description="Why the bucket takes nothing for now.")
    manifest: int = Field(description="Number of the newest manifest; 0 if there is none.")
    bucket_bytes: int = Field(description="Size of what it names.")
    remote_bytes: int = Field(description="Extent files that are in the bucket alone.")
    requests: dict[str, int] = Field(description="Requests to the store since the start, by kind.")


class JournalState(BaseModel):
    """The state of the journal."""

    position: int = Field(description="Records taken.")
    durable_position: int = Field(description="Records that are safe.")
    size_bytes: int = Field(description="Size of all its files.")
    extents_bytes: int = Field(description="Size of the extent files among them.")
    cold_bytes: int = Field(description="What live entries take of the extent files, about.")
    dead_bytes: int = Field(
        description="The rest of the extent files, which rewrites give back once it is much."
    )
    failure: str | None = Field(description="Why nothing can be written until a restart.")
    fault: str | None = Field(description="Why nothing can be written for now.")
    shortage: str | None = Field(description="Why appends are refused for now: no room.")
    is_rewriting: bool = Field(description="Whether a snapshot is being made.")
    rewrite_count: int = Field(description="Snapshots made since the start.")
    rewrite_failure: str | None = Field(description="Why the last rewrite did not work.")
    damage_count: int = Field(
        description="Damaged chunks of entries that were found on the disk since the start, and "
        "are lost; the log says which ids they held."
    )
    damage: str | None = Field(description="The fault of the last one.")
    bucket: BucketState | None = Field(description="The bucket behind it; null if it has none.")

    @classmethod
    def of(cls, status: EngineJournalStatus) -> Self:
        return cls.model_validate(status, from_attributes=True)


class Draining(BaseModel):
    """The connection is about to end; come back after so long."""

    reconnect_after_ms: int


class FollowedSubscription(BaseModel):
    """A subscription of a connection."""

    stream: str
    group: str | None = Field(description="Null if the stream itself is read.")
    consumer: str | None = Field(description="Its consumer; null if the stream itself is read.")
    state: str = Field(
        description="Why nothing comes, or that it does: `live`, `caught_up`, `credit_exhausted`, "
        "`max_pending`, `key_blocked`, `paused` or `rate_limited`."
    )
    credit: int | None = Field(description="Entries that the client takes now; null is any number.")
    held: int | None = Field(
        description="Entries that it was sent and has not settled; null if none has to be settled."
    )

    @classmethod
    def of(cls, subscription: connections.OpenSubscription) -> Self:
        group, consumer = subscription.group, subscription.consumer
        return cls(
            stream=text_of(subscription.stream),
            group=None if group is None else text_of(group),
            consumer=None if consumer is None else text_of(consumer),
            state=subscription.state,
            credit=subscription.credit,
            held=subscription.held,
        )


class Connection(BaseModel):
    """A connection that stays open."""

    id: str = Field(description="A WebSocket is told it by `welcome`, a Redis client by CLIENT ID.")
    transport: connections.Transport
    client: str = Field(description="Address of the client.")
    principal: str = Field(description="Name of its principal.")
    since_ms: int = Field(description="When it began, in unix time.")
    subscriptions: list[FollowedSubscription] = Field(
        description="Its subscriptions; a page has 5,000 of them for each worker."
    )
    subscription_count: int = Field(description="All of them, with those that are left out.")
    sent_entries: int | None = Field(description="Entries sent; null for Redis clients.")
    outbox_bytes: int = Field(description="Bytes that the client has not taken yet.")

    @classmethod
    def of(cls, connection: connections.OpenConnection) -> Self:
        return cls(
            id=connection.id,
            transport=connection.transport,
            client=connection.client,
            principal=connection.principal,
            since_ms=connection.since_ms,
            subscriptions=list(map(FollowedSubscription.of, connection.subscriptions)),
            subscription_count=connection.subscription_count,
            sent_entries=connection.sent_entries,
            outbox_bytes=connection.outbox_bytes,
        )


class OpenConnections(BaseModel):
    """Connections that stay open, by id."""

    connections: list[Connection]
    next_cursor: NextCursor


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
