"""Server frames: one model per type of frame that the gateway sends. AsyncAPI is made of them."""

from typing import Annotated, Any, Literal, NotRequired, Self

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from headgate.app.live.followed import StateName
from headgate.app.live.frames.client import FRAME_IDS_MAX
from headgate.app.wire.problems import FenceProblem, Problem, RowProblem
from headgate.app.wire.schemas.commits import CommitResult
from headgate.app.wire.schemas.deliveries import Delivery, Settled
from headgate.app.wire.schemas.entries import CursorText, Entry, Gap, IdText, StreamEntry, StreamGap
from headgate.app.wire.schemas.limits import IN_FORCE, SocketLimits
from headgate.app.wire.schemas.limits import ConnectionLimits as LimitsInForce
from headgate.app.wire.schemas.pattern_groups import StreamDelivery
from headgate.app.wire.schemas.tables import Row, RowRemoval


class ConnectionLimits(SocketLimits):
    """Limits of one connection."""

    model_config = IN_FORCE

    frame_ids_max: int = Field(FRAME_IDS_MAX, description="Maximum number of ids in one frame.")


_SOCKET_LIMITS = set(SocketLimits.model_fields)


class Welcome(BaseModel):
    """The first frame, once the gateway knows the client."""

    type: Literal["welcome"] = "welcome"
    connection: str = Field(description="Id of this connection, as in the log.")
    heartbeat_ms: int = Field(description="Interval between protocol pings.")
    limits: ConnectionLimits

    @classmethod
    def of(cls, connection: str, limits: LimitsInForce) -> Self:
        bounds = ConnectionLimits(**limits.model_dump(include=_SOCKET_LIMITS))
        return cls(connection=connection, heartbeat_ms=limits.ping_interval_ms, limits=bounds)


class Subscribed(BaseModel):
    """The subscription has started."""

    type: Literal["subscribed"] = "subscribed"
    rid: str | None = None
    sub: str
    position: IdText | CursorText = Field(
        description="Entries after this position are sent; `0-0` for a channel."
    )
    consumer: str | None = None
    pending: int | None = Field(None, description="Entries that the consumer already holds.")
    gap: Gap | None = Field(None, description="Trimmed entries before the first entry.")


class MessageFrame(TypedDict):
    """A published message."""

    type: Literal["message"]
    sub: str
    channel: str
    data: Annotated[Any, Field(description="The published data; as a string if it is not JSON.")]
    dropped: NotRequired[
        Annotated[
            int,
            Field(
                description="Number of messages before this one that the client was too slow to "
                "receive."
            ),
        ]
    ]


class PresentConnection(TypedDict):
    """A connection of a member."""

    key: Annotated[str, Field(description="Name of the connection, chosen by the client.")]
    since_ms: Annotated[int, Field(description="When the connection became present.")]
    data: Annotated[
        dict[str, Any], Field(description="Data about the connection, from its client.")
    ]


class PresentMember(TypedDict):
    """A member that is present: a user with all connections, or one connection without a user."""

    id: str
    user: Annotated[
        str | None,
        Field(description="Name of the key, or subject of the token; null without a credential."),
    ]
    connections: list[PresentConnection]


class MembersFrame(TypedDict):
    """The members that are present: at the start, and again if changes were dropped.

    The first of several such frames replaces all members known before.
    """

    type: Literal["members"]
    sub: str
    members: list[PresentMember]
    more: Annotated[
        bool, Field(description="Whether another such frame with further members follows.")
    ]
    settled: Annotated[
        bool,
        Field(
            description="False if the gateway has just started and members may not have "
            "reconnected yet. Keep the members known before until it is true."
        ),
    ]


class PresenceChange(TypedDict):
    """A member joined, changed or left."""

    type: Literal["presence"]
    sub: str
    event: Literal["joined", "updated", "left"]
    member: PresentMember


class PublishedFrame(BaseModel):
    """The message was published."""

    type: Literal["published"] = "published"
    rid: str | None = None
    receivers: int = Field(description="Number of subscribers of the channel.")


class Noted(BaseModel):
    """The data about this connection was changed."""

    type: Literal["noted"] = "noted"
    rid: str | None = None
    sub: str


class Entries(TypedDict):
    """Entries, as many as were available."""

    type: Literal["entries"]
    sub: str
    entries: list[Entry] | list[StreamEntry] | list[Delivery] | list[StreamDelivery]
    deleted_ids: NotRequired[list[IdText]]
    credit_left: int
    lag: NotRequired[int]
    gap: NotRequired[Gap]
    gaps: NotRequired[list[StreamGap]]
    position: NotRequired[
        Annotated[
            IdText | CursorText,
            Field(
                description="With a pattern: cursor after everything that was sent. With a "
                "filter: subscribe again after this id, because no entry between the last one "
                "sent and this id matches."
            ),
        ]
    ]


class Rows(TypedDict):
    """Rows of a table: first all rows, then, after `caught_up`, each change."""

    type: Literal["rows"]
    sub: str
    rows: list[Row | RowRemoval]
    credit_left: int
    again: NotRequired[
        Annotated[
            Literal[True], Field(description="All rows are sent again: discard the earlier ones.")
        ]
    ]
    gap: NotRequired[Gap]
    position: NotRequired[
        Annotated[IdText, Field(description="With changes: subscribe again after this id.")]
    ]


class State(BaseModel):
    """Whether entries can be sent now, and if not, why."""

    type: Literal["state"] = "state"
    sub: str
    state: StateName


class Closed(BaseModel):
    """The stream is closed and was sent completely; for a group, all entries are settled.

    The subscription ends, and `unsubscribed` follows.
    """

    type: Literal["closed"] = "closed"
    sub: str
    at: IdText = Field(description="Last id of the stream.")
    closed_at_ms: int = Field(description="When the stream was closed.")


class Claimed(BaseModel):
    """Entries that you held were claimed by another consumer."""

    type: Literal["claimed"] = "claimed"
    sub: str
    ids: list[IdText]
    by: str


class Acked(TypedDict):
    """Outcome of an ack, for each id."""

    type: Literal["acked"]
    rid: NotRequired[str]
    sub: str
    stream: NotRequired[str]
    results: list[Settled]


class Ok(TypedDict):
    """Outcome of a nack or extend, for each id."""

    type: Literal["ok"]
    rid: NotRequired[str]
    sub: str
    stream: NotRequired[str]
    results: list[Settled]


class AppendedFrame(BaseModel):
    """The entries are appended and durable."""

    type: Literal["appended"] = "appended"
    rid: str | None = None
    ids: list[IdText]


class CommittedFrame(BaseModel):
    """The steps of the commit are applied and durable."""

    type: Literal["committed"] = "committed"
    rid: str | None = None
    results: list[CommitResult] = Field(description="Result of each step, in order.")
    repeated: Literal[True] | None = Field(
        None, description="Nothing was changed: this is the result of the key's first use."
    )


class Authenticated(BaseModel):
    """The gateway accepted the credential."""

    type: Literal["authenticated"] = "authenticated"
    rid: str | None = None
    principal: str = Field(description="Name of the key, or subject of the token.")
    expires_at_ms: int | None = Field(None, description="Renew the credential before this time.")


class Unsubscribed(BaseModel):
    """A subscription ended: on request, or because it is closed and read, or gone."""

    type: Literal["unsubscribed"] = "unsubscribed"
    rid: str | None = None
    sub: str
    reason: Literal["requested", "closed", "gone", "failed"]


class Draining(BaseModel):
    """The connection is about to end. Reconnect after this time."""

    type: Literal["draining"] = "draining"
    reconnect_after_ms: int


class Pong(BaseModel):
    """The answer to a ping."""

    type: Literal["pong"] = "pong"
    rid: str | None = None


class ProblemFrame(BaseModel):
    """The error of a frame, or why the connection ends."""

    type: Literal["problem"] = "problem"
    rid: str | None = None
    sub: str | None = None
    problem: Problem


class CommitProblemFrame(ProblemFrame):
    """The error of a commit, which changed nothing."""

    problem: FenceProblem | RowProblem | Problem


ServerFrame = (
    Welcome
    | Subscribed
    | MessageFrame
    | MembersFrame
    | PresenceChange
    | PublishedFrame
    | Noted
    | Entries
    | Rows
    | State
    | Closed
    | Claimed
    | Acked
    | Ok
    | AppendedFrame
    | CommittedFrame
    | Unsubscribed
    | Draining
    | Pong
    | Authenticated
    | ProblemFrame
    | CommitProblemFrame
)
