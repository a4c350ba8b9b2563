"""Server frames: one model per type of frame that the gateway sends. AsyncAPI is made of them."""

from typing import Annotated, Literal, NotRequired, Self

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
    """The bounds of one connection."""

    model_config = IN_FORCE

    frame_ids_max: int = Field(FRAME_IDS_MAX, description="Ids in one frame.")


_SOCKET_LIMITS = set(SocketLimits.model_fields)


class Welcome(BaseModel):
    """The first frame, once it is known who is there."""

    type: Literal["welcome"] = "welcome"
    connection: str = Field(description="Identity of this connection, for logs.")
    heartbeat_ms: int = Field(description="Protocol pings come so often.")
    limits: ConnectionLimits

    @classmethod
    def of(cls, connection: str, limits: LimitsInForce) -> Self:
        bounds = ConnectionLimits(**limits.model_dump(include=_SOCKET_LIMITS))
        return cls(connection=connection, heartbeat_ms=limits.ping_interval_ms, limits=bounds)


class Subscribed(BaseModel):
    """The subscription stands."""

    type: Literal["subscribed"] = "subscribed"
    rid: str | None = None
    sub: str
    position: IdText | CursorText = Field(description="Entries come from after this.")
    consumer: str | None = None
    pending: int | None = Field(None, description="Entries the consumer holds already.")
    gap: Gap | None = Field(None, description="Trimmed entries before the first one.")


class Entries(TypedDict):
    """Entries, as many as were ready."""

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
                description="With a pattern, the cursor behind all that was sent. With a filter: "
                "subscribe again after this id, as no entry between "
                "the last one sent and this one matches."
            ),
        ]
    ]


class Rows(TypedDict):
    """Rows of a table: all of them before `caught_up`, then each change."""

    type: Literal["rows"]
    sub: str
    rows: list[Row | RowRemoval]
    credit_left: int
    again: NotRequired[
        Annotated[Literal[True], Field(description="All rows come again: forget those before.")]
    ]
    gap: NotRequired[Gap]
    position: NotRequired[
        Annotated[IdText, Field(description="Of changes: subscribe again after this id.")]
    ]


class State(BaseModel):
    """Why nothing comes, or that it does again."""

    type: Literal["state"] = "state"
    sub: str
    state: StateName


class Closed(BaseModel):
    """The stream is closed, and all of it has come; of a group, all is settled by all consumers.

    The subscription ends, and `unsubscribed` follows.
    """

    type: Literal["closed"] = "closed"
    sub: str
    at: IdText = Field(description="Nothing comes behind this id.")
    closed_at_ms: int = Field(description="When the stream was closed.")


class Claimed(BaseModel):
    """Entries you held belong to another consumer now."""

    type: Literal["claimed"] = "claimed"
    sub: str
    ids: list[IdText]
    by: str


class Acked(TypedDict):
    """The outcome of an ack, for each id."""

    type: Literal["acked"]
    rid: NotRequired[str]
    sub: str
    stream: NotRequired[str]
    results: list[Settled]


class Ok(TypedDict):
    """The outcome of a nack or extend, for each id."""

    type: Literal["ok"]
    rid: NotRequired[str]
    sub: str
    stream: NotRequired[str]
    results: list[Settled]


class AppendedFrame(BaseModel):
    """The entries are appended, and safe."""

    type: Literal["appended"] = "appended"
    rid: str | None = None
    ids: list[IdText]


class CommittedFrame(BaseModel):
    """The steps are carried out, and safe."""

    type: Literal["committed"] = "committed"
    rid: str | None = None
    results: list[CommitResult] = Field(description="What came of each step, in order.")
    repeated: Literal[True] | None = Field(
        None, description="Nothing was changed: this is what the key's first use made."
    )


class Authenticated(BaseModel):
    """It is known who is there."""

    type: Literal["authenticated"] = "authenticated"
    rid: str | None = None
    principal: str = Field(description="Name of the key, or subject of the token.")
    expires_at_ms: int | None = Field(None, description="Renew the credential before this time.")


class Unsubscribed(BaseModel):
    """A subscription has ended: you asked for it, or what it read is gone, or closed and read."""

    type: Literal["unsubscribed"] = "unsubscribed"
    rid: str | None = None
    sub: str
    reason: Literal["requested", "closed", "gone", "failed"]


class Draining(BaseModel):
    """The connection is about to end; come back after so long."""

    type: Literal["draining"] = "draining"
    reconnect_after_ms: int


class Pong(BaseModel):
    """The answer to a ping."""

    type: Literal["pong"] = "pong"
    rid: str | None = None


class ProblemFrame(BaseModel):
    """A frame that could not be served, or why the connection ends."""

    type: Literal["problem"] = "problem"
    rid: str | None = None
    sub: str | None = None
    problem: Problem


class CommitProblemFrame(ProblemFrame):
    """Why a commit did nothing."""

    problem: FenceProblem | RowProblem | Problem


ServerFrame = (
    Welcome
    | Subscribed
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
