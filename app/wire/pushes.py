"""Pushes as they are set and described."""

import re
from enum import StrEnum
from typing import Annotated, NotRequired

from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict

from headgate.app.wire.schemas.entries import NextCursor, Request
from headgate.app.wire.schemas.pattern_groups import NewGroups, Weights

CONCURRENCY, CONCURRENCY_MAX = 10, 256
BATCH_MAX = 100
TIMEOUT_MS, TIMEOUT_MS_MIN, TIMEOUT_MS_MAX = 10_000, 100, 60_000
DISABLE_AFTER_MS = 432_000_000
"""5 days."""
DISABLE_AFTER_MS_MIN, DISABLE_AFTER_MS_MAX = 1_000, 7_776_000_000
OVERLAP_MS_MAX = 2_592_000_000

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
    """The form of what is sent."""

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
    """The phases of a push."""

    ACTIVE = "active"
    FAILING = "failing"  # nothing but failures: it is tried with one entry now and then
    PAUSED = "paused"
    DISABLED = "disabled"  # it failed for too long, or the receiver said that it is gone
    UNREADABLE = "unreadable"  # its secrets were encrypted with a key that is not there


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    lower = [name.lower() for name in headers]
    if len(set(lower)) < len(lower):
        raise ValueError("a header has one value")
    for name, value in headers.items():
        if len(name) > _HEADER_NAME_MAX or not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"a name of a header has up to {_HEADER_NAME_MAX} letters and digits")
        if name.lower() in _OWN or name.lower().startswith(_OWN_PREFIXES):
            raise ValueError(f"the gateway sets {name} by itself")
        if len(value) > _HEADER_VALUE_MAX or not _HEADER_VALUE.fullmatch(value):
            text = f"the value of {name} should have up to {_HEADER_VALUE_MAX} characters of ASCII"
            raise ValueError(text)
    return headers


Url = Annotated[
    str,
    Field(
        max_length=2048,
        description="Where requests go: https, to a public address, unless the operator allows "
        "others. It is kept as a secret.",
        examples=["https://hooks.example/orders"],
    ),
]
Concurrency = Annotated[
    int, Field(ge=1, le=CONCURRENCY_MAX, strict=True, description="Requests at a time, at most.")
]
Timeout = Annotated[
    int,
    Field(
        ge=TIMEOUT_MS_MIN,
        le=TIMEOUT_MS_MAX,
        strict=True,
        description="Time for one request, with its answer.",
    ),
]
Body = Annotated[
    PushBody,
    Field(
        description="`entry`: one entry, as a read of the group has it. `batch`: up to `batch_max` "
        "of them. `cloudevents`, `cloudevents_binary`, `cloudevents_batch`: events."
    ),
]
BatchMax = Annotated[
    int, Field(ge=1, le=BATCH_MAX, strict=True, description="Entries of a batch, at most.")
]
Signature = Annotated[
    SignatureKind,
    Field(
        description="Of Standard Webhooks. `v1`: HMAC-SHA256 by the secret. `v1a`: Ed25519 by the "
        "gateway; the key is at `/v1/push/jwks.json`."
    ),
]
DisableAfter = Annotated[
    int,
    Field(
        ge=DISABLE_AFTER_MS_MIN,
        le=DISABLE_AFTER_MS_MAX,
        strict=True,
        description="Behind nothing but failures for so long, the push is disabled.",
    ),
]


class PushInput(Request):
    """A push to set."""

    url: Url
    concurrency: Concurrency = CONCURRENCY
    timeout_ms: Timeout = TIMEOUT_MS
    body: Body = PushBody.ENTRY
    batch_max: BatchMax = BATCH_MAX
    signature: Signature = SignatureKind.HMAC
    disable_after_ms: DisableAfter = DISABLE_AFTER_MS
    headers: Annotated[
        dict[str, str], Field(max_length=_HEADERS_MAX), AfterValidator(_check_headers)
    ] = Field({}, description="Headers of each request. Their values are kept as secrets.")


class PatternPushInput(PushInput):
    """A push over a pattern to set."""

    weights: Weights = Field({})
    create: NewGroups | None = Field(
        None, description="The groups that are created where there is none."
    )


class SecretRotation(Request):
    """The replacement of a secret."""

    overlap_ms: Annotated[int, Field(ge=0, le=OVERLAP_MS_MAX, strict=True)] = Field(
        86_400_000, description="Requests are signed with the old secret as well for so long."
    )


class PushAttempt(TypedDict):
    """A request of a push, and what came of it."""

    at_ms: int
    took_ms: int
    webhook_id: str
    entry_count: int
    status: Annotated[int | None, Field(description="Of the answer; null: there was none.")]
    error: Annotated[str | None, Field(description="Why it does not acknowledge; null: it does.")]
    excerpt: Annotated[
        str | None, Field(description="The beginning of an answer that does not acknowledge.")
    ]
    retry_after_s: Annotated[
        int | None, Field(description="The receiver wanted nothing for so long (429 and 503).")
    ]


class PushSummary(TypedDict):
    """A push, and how it goes."""

    stream: Annotated[str, Field(description="Its stream; or its pattern, if `match` is there.")]
    match: NotRequired[Annotated[str, Field(description="The pattern of a push over one.")]]
    weights: NotRequired[Annotated[Weights, Field(description="Of a push over a pattern.")]]
    create: NotRequired[Annotated[NewGroups | None, Field(description="Of a push over a pattern.")]]
    group: str
    url: Annotated[
        str | None, Field(description="Null: the key is missing that encrypted the secrets.")
    ]
    concurrency: Concurrency
    timeout_ms: Timeout
    body: Body
    batch_max: BatchMax
    signature: Signature
    disable_after_ms: DisableAfter
    header_names: Annotated[list[str], Field(description="Of `headers`; no one is told values.")]
    state: Annotated[
        PushPhase,
        Field(
            description="`active`. `failing`: nothing but failures, so it is tried with one "
            "request now and then. `paused`. `disabled`: it sends nothing until it is resumed. "
            "`unreadable`: the key is missing that encrypted its secrets; set it anew."
        ),
    ]
    failing_since_ms: int | None
    failure_count: Annotated[int, Field(description="Requests that failed, one after the other.")]
    disabled_at_ms: int | None
    disabled_reason: str | None
    public_key: Annotated[
        str | None,
        Field(description="Of the gateway, for `v1a`; null: requests are not signed with it."),
    ]
    previous_secret_until_ms: Annotated[
        int | None, Field(description="Until then the secret before this one is good as well.")
    ]
    created_at_ms: int
    delivered_count: Annotated[int, Field(description="Entries that were acknowledged.")]
    failed_count: Annotated[int, Field(description="Requests that were not.")]


class Push(PushSummary):
    """A push, with the answers of its receiver."""

    secret: NotRequired[
        Annotated[str, Field(description="Shown once: when it is new.", examples=["whsec_…"])]
    ]
    answers: Annotated[list[PushAttempt], Field(description="The last 50, the newest first.")]


class Pushes(TypedDict):
    """A page of pushes."""

    pushes: list[PushSummary]
    next_cursor: NextCursor


class RetriedPush(BaseModel):
    """The entries that are tried again at once."""

    entries: int = Field(description="Entries that had to wait after a failure, and are due now.")
