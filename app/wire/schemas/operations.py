"""The state of the gateway and of its journal; tickets."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeAliasType

from headgate.app.backends.port import Durable
from headgate.app.runtime import connections
from headgate.app.wire.names import NameText, text_of
from headgate.app.wire.schemas.entries import NextCursor
from headgate.engine.replies import JournalStatus as EngineJournalStatus
from headgate.engine.replies import LeaderRole


class Health(BaseModel):
    """Whether the gateway is alive or ready."""

    status: Literal["ok"]
    warnings: list[str] | None = Field(
        None, description="Faults that need an operator's attention. The log has the details."
    )
    durable: Durable | None = Field(
        None, description="Durability of an answered change; only at `/readyz`."
    )
    role: LeaderRole | None = Field(
        None,
        description="Role of a gateway with a bucket; only at `/readyz`. Always `leader`: a "
        "standby is not ready and answers `not_leader`.",
    )
    unshipped_bytes: int | None = Field(
        None,
        description="With a bucket, at `/readyz`: bytes of the journal that are not in the bucket "
        "yet.",
    )
    unshipped_ms: int | None = Field(
        None,
        description="With a bucket, at `/readyz`: for how long; absent if the bucket has "
        "everything.",
    )


class BucketState(BaseModel):
    """State of the bucket behind the data directory."""

    url: str = Field(description="URL of the bucket.")
    role: LeaderRole = Field(description="`leader`, which may change the streams, or `standby`.")
    is_durable: bool = Field(description="Whether answers wait for the bucket.")
    term: int = Field(description="Number of the lease. It increases with each leader.")
    leader: str = Field(description="Address of the leader; empty if unknown.")
    lease_left_ms: int | None = Field(
        description="Time until the lease expires without a renewal; null at a standby."
    )
    shipped_position: int = Field(description="Number of records in the bucket.")
    unshipped_bytes: int = Field(description="Bytes of the journal that are not in the bucket yet.")
    unshipped_ms: int | None = Field(description="For how long; null if the bucket has everything.")
    behind_ms: int | None = Field(
        description="At a standby: time since it last had everything that was in the bucket."
    )
    error: str | None = Field(description="Why the bucket currently accepts no writes.")
    manifest: int = Field(description="Number of the newest manifest; 0 if there is none.")
    bucket_bytes: int = Field(description="Size of the objects that the manifest names.")
    remote_bytes: int = Field(description="Size of extent files that are only in the bucket.")
    requests: dict[str, int] = Field(
        description="Number of requests to the store since the start, by kind."
    )


class JournalState(BaseModel):
    """State of the journal."""

    position: int = Field(description="Number of records written.")
    durable_position: int = Field(description="Number of records that are durable.")
    size_bytes: int = Field(description="Size of all files of the journal.")
    extents_bytes: int = Field(description="Size of the extent files.")
    cold_bytes: int = Field(description="Approximate size of live entries in the extent files.")
    dead_bytes: int = Field(
        description="Size of dead data in the extent files. Rewrites remove it once there is "
        "enough of it."
    )
    failure: str | None = Field(description="Why nothing can be written until a restart.")
    fault: str | None = Field(description="Why nothing can be written at the moment.")
    shortage: str | None = Field(
        description="Why appends are refused at the moment: lack of space."
    )
    is_rewriting: bool = Field(description="Whether a snapshot is being written.")
    rewrite_count: int = Field(description="Number of snapshots written since the start.")
    rewrite_failure: str | None = Field(description="Why the last rewrite failed.")
    damage_count: int = Field(
        description="Number of damaged chunks of entries found on disk since the start. Their "
        "entries are lost; the log lists the ids."
    )
    damage: str | None = Field(description="Description of the last damage.")
    bucket: BucketState | None = Field(description="State of the bucket; null without a bucket.")

    @classmethod
    def of(cls, status: EngineJournalStatus) -> Self:
        return cls.model_validate(status, from_attributes=True)


class Draining(BaseModel):
    """The connection is about to end; reconnect after this time."""

    reconnect_after_ms: int


class FollowedSubscription(BaseModel):
    """A subscription of a connection."""

    stream: str
    group: str | None = Field(
        description="Name of the group; null if the subscription reads the stream itself."
    )
    consumer: str | None = Field(
        description="Name of the consumer; null if the subscription reads the stream itself."
    )
    state: str = Field(
        description="Whether entries can be sent, and if not, why: `live`, `caught_up`, "
        "`credit_exhausted`, `max_pending`, `key_blocked`, `paused` or `rate_limited`."
    )
    credit: int | None = Field(
        description="Number of entries that the client currently accepts; null: no limit."
    )
    held: int | None = Field(
        description="Number of entries sent but not settled; null if entries need not be settled."
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
    """An open connection."""

    id: str = Field(
        description="Id of the connection. A WebSocket client gets it in `welcome`, a Redis "
        "client from CLIENT ID."
    )
    transport: connections.Transport
    client: str = Field(description="Address of the client.")
    principal: str = Field(description="Name of its principal.")
    since_ms: int = Field(description="When the connection began, in unix time.")
    subscriptions: list[FollowedSubscription] = Field(
        description="Subscriptions of the connection. A page has at most 5,000 of them per worker."
    )
    subscription_count: int = Field(
        description="Number of all subscriptions, including those not listed."
    )
    sent_entries: int | None = Field(description="Number of entries sent; null for Redis clients.")
    outbox_bytes: int = Field(description="Bytes that the client has not yet received.")

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
    """Open connections, by id."""

    connections: list[Connection]
    next_cursor: NextCursor


TTL_MS_DEFAULT = 300_000
TTL_MS_MAX = 3_600_000


# Of streams: clients of the last release know no others.
Verb = TypeAliasType("Verb", Literal["read", "append", "consume", "manage", "push", "admin"])


class TicketRequest(BaseModel):
    """Rights of a new ticket."""

    model_config = ConfigDict(extra="forbid")

    stream: NameText | None = Field(None, description="Stream that the ticket gives access to.")
    channel: NameText | None = Field(None, description="Channel that the ticket gives access to.")
    group: NameText | None = Field(None, description="With `consume`: name of the group.")
    consumer: NameText | None = Field(
        None, description="With `consume`: restricts the ticket to this consumer."
    )
    do: Annotated[
        list[Literal["read", "append", "consume", "publish", "subscribe"]],
        Field(min_length=1, max_length=5),
    ] = Field(
        description="Verbs that the ticket allows: `read`, `append` and `consume` on the stream, "
        "`publish` and `subscribe` on the channel. You must have these rights yourself."
    )
    user: str | None = Field(
        None,
        min_length=1,
        max_length=128,
        description="User of the page, shown in `presence`. Default: your own name.",
    )
    ttl_ms: int = Field(
        TTL_MS_DEFAULT,
        ge=1000,
        le=TTL_MS_MAX,
        description="Lifetime of the ticket. It can be used for any number of connections.",
    )


class Ticket(BaseModel):
    """A ticket for a page."""

    ticket: str = Field(
        description="A token. Send it as `Bearer`, in the frame `auth`, or as `?ticket=` in the "
        "URL of an event stream or WebSocket."
    )
    expires_at_ms: int = Field(
        description="When the ticket expires; no later than your own credential."
    )
