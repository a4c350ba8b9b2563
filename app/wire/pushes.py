"""Pushes as they are set and described."""

import re
from enum import StrEnum
from typing import Annotated, NotRequired

from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema
from typing_extensions import TypedDict

from headgate.app.wire.filters import FilterForm
from headgate.app.wire.schemas.entries import NextCursor, Request
from headgate.app.wire.schemas.pattern_groups import MissingGroups, Weights

CONCURRENCY, CONCURRENCY_MAX = 10, 256
BATCH_MAX = 100
TIMEOUT_MS, TIMEOUT_MS_MIN, TIMEOUT_MS_MAX = 10_000, 100, 60_000
DISABLE_AFTER_MS = 432_000_000
"""5 days."""
DISABLE_AFTER_MS_MIN, DISABLE_AFTER_MS_MAX = 1_000, 7_776_000_000
OVERLAP_MS_MAX = 2_592_000_000
ATTEMPTS_DAYS, ATTEMPTS_DAYS_MAX = 3, 30

_HEADERS_MAX, _HEADER_NAME_MAX, _HEADER_VALUE_MAX = 20, 64, 4_096
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_OWN = frozenset(
    [
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    ]
)
"""Headers that the gateway sets, or that change how a request is sent."""
_OWN_PREFIXES = ("ce-", "webhook-", "proxy-")


class PushBody(StrEnum):
    """The form of a request body."""

    ENTRY = "entry"  # an entry, as a read of the group has it
    BATCH = "batch"  # several of them
    CLOUDEVENTS = "cloudevents"  # an event in the structured mode
    CLOUDEVENTS_BINARY = "cloudevents_binary"
    CLOUDEVENTS_BATCH = "cloudevents_batch"

    @property
    def is_batch(self) -> bool:
        return self in (PushBody.BATCH, PushBody.CLOUDEVENTS_BATCH)


class SignatureKind(StrEnum):
    """The signature of a request (Standard Webhooks)."""

    HMAC = "v1"  # by a secret that the receiver has, too
    ED25519 = "v1a"  # by a key of the gateway; whoever knows the public one can check it


class PushPhase(StrEnum):
    """The state of a push."""

    ACTIVE = "active"
    FAILING = "failing"  # nothing but failures: it is tried with one entry now and then
    PAUSED = "paused"
    DISABLED = "disabled"  # it failed for too long, or the receiver said that it is gone
    UNREADABLE = "unreadable"  # its secrets were encrypted with a key that is not there


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    lower = [name.lower() for name in headers]
    if len(set(lower)) < len(lower):
        raise ValueError("each header may be given only once")
    for name, value in headers.items():
        if len(name) > _HEADER_NAME_MAX or not _HEADER_NAME.fullmatch(name):
            raise ValueError(
                f"a header name must be an HTTP token of at most {_HEADER_NAME_MAX} characters"
            )
        if name.lower() in _OWN or name.lower().startswith(_OWN_PREFIXES):
            raise ValueError(f"the gateway sets the header {name} itself")
        if len(value) > _HEADER_VALUE_MAX or not _HEADER_VALUE.fullmatch(value):
            text = f"the value of {name} must have at most {_HEADER_VALUE_MAX} ASCII characters"
            raise ValueError(text)
    return headers


Url = Annotated[
    str,
    Field(
        max_length=2048,
        description="Where to send requests: an https URL with a public address, unless the "
        "operator allows others. It is stored as a secret.",
        examples=["https://hooks.example/orders"],
    ),
]
Concurrency = Annotated[
    int,
    Field(
        ge=1, le=CONCURRENCY_MAX, strict=True, description="Maximum number of concurrent requests."
    ),
]
Timeout = Annotated[
    int,
    Field(
        ge=TIMEOUT_MS_MIN,
        le=TIMEOUT_MS_MAX,
        strict=True,
        description="Timeout of a request, including its answer.",
    ),
]
Body = Annotated[
    PushBody,
    Field(
        description="`entry`: one entry, in the form of a read of the group. `batch`: up to "
        "`batch_max` entries. `cloudevents`, `cloudevents_binary`, `cloudevents_batch`: "
        "CloudEvents."
    ),
]
BatchMax = Annotated[
    int, Field(ge=1, le=BATCH_MAX, strict=True, description="Maximum number of entries per batch.")
]
Signature = Annotated[
    SignatureKind,
    Field(
        description="Signature as of Standard Webhooks. `v1`: HMAC-SHA256 with the secret. `v1a`: "
        "Ed25519 with the key of the gateway; the public key is at `/v1/push/jwks.json`."
    ),
]
DisableAfter = Annotated[
    int,
    Field(
        ge=DISABLE_AFTER_MS_MIN,
        le=DISABLE_AFTER_MS_MAX,
        strict=True,
        description="Time without a success after which a failing push is disabled.",
    ),
]


AttemptsDays = Annotated[
    int,
    Field(
        ge=0,
        le=ATTEMPTS_DAYS_MAX,
        strict=True,
        description="How many days the gateway keeps the attempts of the push, at most the latest "
        "10,000. 0: it keeps none.",
    ),
]


class PushInput(Request):
    """Settings of a push."""

    url: Url
    concurrency: Concurrency = CONCURRENCY
    timeout_ms: Timeout = TIMEOUT_MS
    body: Body = PushBody.ENTRY
    batch_max: BatchMax = BATCH_MAX
    signature: Signature = SignatureKind.HMAC
    disable_after_ms: DisableAfter = DISABLE_AFTER_MS
    attempts_days: AttemptsDays = ATTEMPTS_DAYS
    headers: Annotated[
        dict[str, str], Field(max_length=_HEADERS_MAX), AfterValidator(_check_headers)
    ] = Field(
        {}, description="Additional headers of each request. Their values are stored as secrets."
    )


class PatternPushInput(PushInput):
    """Settings of a push over a pattern."""

    weights: Weights = Field({})
    create: MissingGroups | None = Field(
        None, description="Create the group, with these settings, in streams that lack it."
    )


class SecretRotation(Request):
    """A rotation of the secret."""

    overlap_ms: Annotated[int, Field(ge=0, le=OVERLAP_MS_MAX, strict=True)] = Field(
        86_400_000, description="How long requests are also signed with the old secret."
    )


class PushReplayInput(Request):
    """Entries to send again."""

    start: Annotated[str, Field(description="An id or a time; `(id` excludes the id.")]
    end: Annotated[str, Field(description="An id or a time; `(id` excludes the id.")] = "+"
    filter: Annotated[FilterForm | None, WithJsonSchema({})] = Field(
        None,
        title="Filter",
        description="A filter, as in reads: only matching entries are sent again.",
    )
    dry_run: bool = Field(False, strict=True, description="Only count the entries.")


class ReplayState(StrEnum):
    """The state of a replay."""

    COUNTED = "counted"  # of a dry run
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


class PushReplay(TypedDict):
    """A replay: entries of a range that a push sends again."""

    id: Annotated[str, Field(description="Value of `headgate-replay` in its requests.")]
    state: Annotated[
        ReplayState,
        Field(
            description="`counted`: a dry run. `running`, also while the push is paused. `done`. "
            "`cancelled`."
        ),
    ]
    start: str
    end: Annotated[str, Field(description="At most the last id that the group has read.")]
    entries: Annotated[int, Field(description="Number of entries when they were counted.")]
    at_least: Annotated[bool, Field(description="There may be more entries than were counted.")]
    sent: Annotated[int, Field(description="Entries that the receiver has acknowledged.")]
    failed: Annotated[int, Field(description="Entries that failed in all attempts.")]
    created_at_ms: int
    ended_at_ms: int | None


class PushAttempt(TypedDict):
    """A request of a push and its result."""

    at_ms: int
    took_ms: int
    webhook_id: str
    entry_count: int
    status: Annotated[
        int | None, Field(description="HTTP status of the answer; null if there was no answer.")
    ]
    error: Annotated[str | None, Field(description="Why the attempt failed; null if it succeeded.")]
    excerpt: Annotated[
        str | None, Field(description="Beginning of the answer; null if it was empty.")
    ]
    retry_after_s: Annotated[
        int | None,
        Field(description="How long the receiver asked the gateway to wait (429 and 503)."),
    ]
    stream: Annotated[str, Field(description="Stream of the entries.")]
    ids: Annotated[list[str], Field(description="Ids of the entries in the request.")]
    url: Annotated[
        str,
        Field(
            description="Scheme and host of the URL. Its path and query can be secrets, so they "
            "are not kept."
        ),
    ]
    headers: Annotated[
        dict[str, str],
        Field(
            description="Headers of the request. The signature and the headers of the push have "
            "`…` as their values."
        ),
    ]
    next_at_ms: Annotated[
        int | None,
        Field(description="When the entries are due again; null if this was the last attempt."),
    ]


class PushSummary(TypedDict):
    """A push and its state."""

    stream: Annotated[str, Field(description="Stream of the push. With `match`: its pattern.")]
    match: NotRequired[Annotated[str, Field(description="Pattern, for a push over a pattern.")]]
    weights: NotRequired[Annotated[Weights, Field(description="For a push over a pattern.")]]
    create: NotRequired[
        Annotated[MissingGroups | None, Field(description="For a push over a pattern.")]
    ]
    group: str
    url: Annotated[
        str | None, Field(description="Null if the key that encrypted the secrets is missing.")
    ]
    concurrency: Concurrency
    timeout_ms: Timeout
    body: Body
    batch_max: BatchMax
    signature: Signature
    disable_after_ms: DisableAfter
    attempts_days: AttemptsDays
    header_names: Annotated[
        list[str], Field(description="Names of `headers`. Their values are never shown.")
    ]
    state: Annotated[
        PushPhase,
        Field(
            description="`active`. `failing`: all requests fail, so the gateway only sends one "
            "request from time to time. `paused`. `disabled`: the push sends nothing until it is "
            "resumed. `unreadable`: the key that encrypted its secrets is missing; set the push "
            "again."
        ),
    ]
    failing_since_ms: int | None
    failure_count: Annotated[int, Field(description="Consecutive failed requests.")]
    disabled_at_ms: int | None
    disabled_reason: str | None
    public_key: Annotated[
        str | None, Field(description="Public key of the gateway, with `v1a`; null otherwise.")
    ]
    previous_secret_until_ms: Annotated[
        int | None, Field(description="Until when the previous secret is also used.")
    ]
    created_at_ms: int
    delivered_count: Annotated[
        int, Field(description="Entries that the receiver has acknowledged.")
    ]
    failed_count: Annotated[int, Field(description="Requests that failed.")]
    replay: Annotated[PushReplay | None, Field(description="The latest replay.")]


class Push(PushSummary):
    """A push, with the latest answers of its receiver."""

    secret: NotRequired[
        Annotated[
            str,
            Field(
                description="The secret. It is shown only once, when it is new.",
                examples=["whsec_…"],
            ),
        ]
    ]
    answers: Annotated[list[PushAttempt], Field(description="The last 50 attempts, newest first.")]


class Pushes(TypedDict):
    """A page of pushes."""

    pushes: list[PushSummary]
    next_cursor: NextCursor


class PushAttempts(TypedDict):
    """A page of attempts."""

    attempts: list[PushAttempt]
    next_cursor: NextCursor


class RetriedPush(BaseModel):
    """The entries that are retried at once."""

    entries: int = Field(
        description="Number of entries that were waiting after a failure and are now due."
    )
