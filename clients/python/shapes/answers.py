"""Shapes: the answers of the gateway, as in its OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from headgate.client.shapes.settings import Policy, StreamConfig


class TableState(TypedDict):
    """The table of a stream: the approximate number of rows, and how far entries are indexed."""

    rows: int
    indexed_through: str
    is_complete: bool


class StreamInfo(TypedDict):
    """A stream (XINFO STREAM)."""

    name: str
    epoch: int
    length: int
    first_id: str | None
    last_id: str
    max_deleted_id: str
    entries_added: int
    groups: int
    chunks: int
    hot_bytes: int | None
    cold_bytes: int | None
    closed_at_ms: int | None
    archived_count: int
    archived_first_id: str | None
    table: NotRequired[TableState]
    config: StreamConfig


class ClosedStream(TypedDict):
    """A stream that was closed, with the ids of the last append."""

    ids: list[str]
    epoch: int
    closed_at_ms: int


class PresentConnection(TypedDict):
    """A connection of a member, and its data."""

    key: str
    since_ms: int
    data: dict[str, Any]


class PresentMember(TypedDict):
    """A present member: a user, or a connection without a user."""

    id: str
    user: str | None
    connections: list[PresentConnection]


class Members(TypedDict):
    """The present members. Unless `settled`, more may return after a restart of the gateway."""

    members: list[PresentMember]
    member_count: int
    connection_count: int
    settled: bool


class NoisyKey(TypedDict):
    """The key of a fair group with the most waiting entries. None: entries without the field."""

    key: str | None
    waiting: int


KeyOrder = Literal["waiting", "age"]


class GroupKey(TypedDict):
    """A key of a fair group."""

    key: str | None
    waiting: int
    pending: int
    oldest_id: str | None
    oldest_age_ms: int | None
    share: float
    is_resting: bool


class VerdictReason(TypedDict):
    """A reason why a group needs attention."""

    code: str
    severity: Literal["ok", "warning", "critical"]
    entries: int
    text: str


class GroupInfo(TypedDict):
    """A group (XINFO GROUPS). The verdict shows whether it needs attention."""

    name: str
    last_id: str
    entries_read: int | None
    lag: int | None
    pending: int
    released: int
    delayed: int
    consumers: int
    policy: Policy
    verdict: Literal["ok", "warning", "critical"]
    reasons: list[VerdictReason]
    noisy_key: NotRequired[NoisyKey]


class ConsumerInfo(TypedDict):
    """A consumer of a group (XINFO CONSUMERS)."""

    name: str
    pending: int
    idle_ms: int
    inactive_ms: int | None


class GroupDetail(GroupInfo):
    """A group with its consumers (XINFO STREAM FULL)."""

    consumer_details: list[ConsumerInfo]
    consumers_left_out: int


class StreamDetail(StreamInfo):
    """A stream with its groups (XINFO STREAM FULL)."""

    group_details: list[GroupDetail]
    groups_left_out: int


Missed = Literal["run_once", "skip"]


class ScheduleRefusal(TypedDict):
    """The last refused append of a schedule."""

    code: str
    detail: str
    at_ms: int


class ScheduleInfo(TypedDict):
    """A schedule and its progress. Values of fields in `base64` are base64 text."""

    name: str
    stream: str
    fields: dict[str, str]
    base64: NotRequired[list[str]]
    pairs: NotRequired[list[list[str]]]
    names_base64: NotRequired[bool]
    cron: str
    time_zone: str
    missed: Missed
    paused: bool
    next_due_ms: int | None
    last_due_ms: int | None
    last_id: str | None
    missed_count: int
    refused_count: int
    problem: ScheduleRefusal | None


PushBody = Literal["entry", "batch", "cloudevents", "cloudevents_binary", "cloudevents_batch"]
PushSignature = Literal["v1", "v1a"]
ReplayState = Literal["counted", "running", "done", "cancelled"]
PushState = Literal["active", "failing", "paused", "disabled", "unreadable"]


class PushAttempt(TypedDict):
    """A request of a push, and the answer of the receiver."""

    at_ms: int
    took_ms: int
    webhook_id: str
    entry_count: int
    status: int | None  # None: there was no answer
    error: str | None  # why the attempt failed
    excerpt: str | None  # the beginning of the answer
    retry_after_s: int | None
    stream: str
    ids: list[str]  # ids of the entries
    url: str  # scheme and host
    headers: dict[str, str]  # secret values are `…`
    next_at_ms: int | None  # None: there is no next attempt


class PushReplay(TypedDict):
    """A replay: a push sends the entries of a range again."""

    id: str  # sent in the header `headgate-replay`
    state: ReplayState
    start: str
    end: str
    entries: int  # counted at the start
    at_least: bool  # there may be more entries
    sent: int  # entries acknowledged
    failed: int  # entries not acknowledged in any attempt
    created_at_ms: int
    ended_at_ms: int | None


class PushSummary(TypedDict):
    """A push: the gateway sends the entries of a group to a URL."""

    stream: str  # or the pattern
    match: NotRequired[str]  # only for a pattern, like the next two
    weights: NotRequired[dict[str, int]]
    create: NotRequired[dict[str, object] | None]
    group: str
    url: str | None  # None: the encryption key is missing
    concurrency: int
    timeout_ms: int
    body: PushBody
    batch_max: int
    signature: PushSignature
    disable_after_ms: int
    attempts_days: int
    header_names: list[str]
    state: PushState
    failing_since_ms: int | None
    failure_count: int  # consecutive failures
    disabled_at_ms: int | None
    disabled_reason: str | None
    previous_secret_until_ms: int | None
    created_at_ms: int
    delivered_count: int  # entries acknowledged
    failed_count: int  # requests that failed
    replay: PushReplay | None  # the latest replay


class PushInfo(PushSummary):
    """A push, with the latest answers of the receiver."""

    secret: NotRequired[str]  # only when it is new
    answers: list[PushAttempt]  # newest first


class PendingEntry(TypedDict):
    """An entry that was delivered but not acknowledged (XPENDING)."""

    id: str
    consumer: str | None
    idle_ms: int | None
    deliveries: int
    delay_ms: NotRequired[int]  # time until the next delivery
    last_error: NotRequired[str]
    waits_for: NotRequired[str]  # entry of the same key that must be settled first


class ConsumerPending(TypedDict):
    """The number of pending entries of a consumer."""

    name: str
    pending: int


class Readiness(TypedDict):
    """The state of a gateway that is ready for requests."""

    status: Literal["ok"]
    durable: Literal["nothing", "everysec", "disk", "bucket", "replica"]
    warnings: NotRequired[list[str]]
    role: NotRequired[Literal["leader"]]  # with a bucket
    unshipped_bytes: NotRequired[int]  # not in the bucket yet
    unshipped_ms: NotRequired[int]  # for how long


TicketVerb = Literal["read", "append", "consume", "publish", "subscribe"]


class Ticket(TypedDict):
    """A ticket for a page."""

    ticket: str
    expires_at_ms: int


class PendingSummary(TypedDict):
    """A summary of the pending entries of a group (XPENDING)."""

    count: int
    min_id: str | None
    max_id: str | None
    consumers: list[ConsumerPending]
    consumers_left_out: int


class Redriven(TypedDict):
    """The outcome of redriving a dead letter."""

    id: str
    outcome: Literal["released", "appended"]
    entry_id: str


class Written(TypedDict):
    """The entries of a batch that were written to one stream."""

    stream: str
    entries: int
    first_id: str
    last_id: str


class Committed(TypedDict):
    """The result of a commit. `repeated`: it was committed before, and nothing changed now."""

    repeated: bool
    entries: int
    streams: list[Written]
