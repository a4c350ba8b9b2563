"""Shapes: what the gateway answers, as it stands in its OpenAPI document."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from headgate.client.shapes.settings import Policy, StreamConfig


class TableState(TypedDict):
    """The table of a stream: its rows, about, and how far its entries are indexed."""

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
    """A stream that is closed, with the ids of the last append."""

    ids: list[str]
    epoch: int
    closed_at_ms: int


class NoisyKey(TypedDict):
    """The key of a fair group that has most of what waits; None: entries without the field."""

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


class GroupInfo(TypedDict):
    """A group (XINFO GROUPS)."""

    name: str
    last_id: str
    entries_read: int | None
    lag: int | None
    pending: int
    released: int
    delayed: int
    consumers: int
    policy: Policy
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
    """The last append of a schedule that was refused."""

    code: str
    detail: str
    at_ms: int


class ScheduleInfo(TypedDict):
    """A schedule, and how far it has come. Values in `base64` are base64 text."""

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
PushState = Literal["active", "failing", "paused", "disabled", "unreadable"]


class PushAttempt(TypedDict):
    """A request of a push, and the answer of its receiver."""

    at_ms: int
    took_ms: int
    webhook_id: str
    entry_count: int
    status: int | None  # None: there was no answer
    error: str | None  # why it does not acknowledge
    excerpt: str | None  # the beginning of an answer that does not acknowledge
    retry_after_s: int | None


class PushSummary(TypedDict):
    """A push: the gateway sends the entries of a group to a URL."""

    stream: str  # or the pattern of a push over one
    match: NotRequired[str]  # of a push over a pattern, as the next two
    weights: NotRequired[dict[str, int]]
    create: NotRequired[dict[str, object] | None]
    group: str
    url: str | None  # None: the key is missing that encrypted it
    concurrency: int
    timeout_ms: int
    body: PushBody
    batch_max: int
    signature: PushSignature
    disable_after_ms: int
    header_names: list[str]
    state: PushState
    failing_since_ms: int | None
    failure_count: int  # one after the other
    disabled_at_ms: int | None
    disabled_reason: str | None
    previous_secret_until_ms: int | None
    created_at_ms: int
    delivered_count: int  # entries that were acknowledged
    failed_count: int  # requests that were not


class PushInfo(PushSummary):
    """A push, with the last answers of its receiver."""

    secret: NotRequired[str]  # shown once: when it is new
    answers: list[PushAttempt]  # the newest first


class PendingEntry(TypedDict):
    """An entry that was delivered and is not acknowledged (XPENDING)."""

    id: str
    consumer: str | None
    idle_ms: int | None
    deliveries: int
    delay_ms: NotRequired[int]  # nobody gets it for so long
    last_error: NotRequired[str]
    waits_for: NotRequired[str]  # of the same key, to be settled before it


class ConsumerPending(TypedDict):
    """The number of a consumer's pending entries."""

    name: str
    pending: int


class Readiness(TypedDict):
    """The state of a gateway that is ready for requests."""

    status: Literal["ok"]
    durable: Literal["nothing", "everysec", "disk", "bucket", "replica"]
    warnings: NotRequired[list[str]]
    role: NotRequired[Literal["leader"]]  # with a bucket
    unshipped_bytes: NotRequired[int]  # what the bucket does not have yet
    unshipped_ms: NotRequired[int]  # since when


class PendingSummary(TypedDict):
    """Everything that is pending in a group (XPENDING)."""

    count: int
    min_id: str | None
    max_id: str | None
    consumers: list[ConsumerPending]
    consumers_left_out: int


class Redriven(TypedDict):
    """The outcome of sending a dead letter back."""

    id: str
    outcome: Literal["released", "appended"]
    entry_id: str


class Written(TypedDict):
    """The entries of a batch in one stream."""

    stream: str
    entries: int
    first_id: str
    last_id: str


class Committed(TypedDict):
    """The result of a commit; `repeated`: it was committed before, and nothing changed now."""

    repeated: bool
    entries: int
    streams: list[Written]
