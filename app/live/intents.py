"""Intents: what a conversation asks its connection to do."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, Self

from pydantic import BaseModel, SecretStr

from headgate.app.wire.schemas.commits import CommitInput
from headgate.engine.config import OnDisconnect
from headgate.engine.entry import Draft, EntryId
from headgate.engine.patterns import PatternCursor
from headgate.engine.requests.commits import CommitSteps
from headgate.engine.requests.deliveries import MissingGroups, NackMode
from headgate.engine.requests.entries import From


class SubscriptionChoices(NamedTuple):
    """Options of a subscription."""

    frame_bytes_max: int | None = None  # that the client takes; None: it does not say it
    filters: str | None = None  # of a stream, as JSON: only entries come for which they hold
    # Of groups:
    claim_idle_ms: int | None = None  # also take entries pending and idle for so long
    on_disconnect: OnDisconnect | None = None  # None: as the policy of the group says
    ack: Literal["explicit", "none"] = "explicit"  # none: entries are settled as they are sent
    auto_credit: bool = False  # what is settled gives its credit back
    max_pending: int | None = None  # unacknowledged entries
    weights: Mapping[bytes, int] | None = None  # with a pattern: by stream
    create: MissingGroups | None = None  # with a pattern: where there is no such group
    # Of tables:
    view: Literal["entries", "table"] = "entries"
    prefix: bytes = b""  # of the keys
    conflate_ms: int | None = None  # changes are sent after so long, only the newest of a row

    @classmethod
    def of(cls, form: BaseModel) -> Self:
        names = set(cls._fields) & set(type(form).model_fields) - {"weights", "create", "prefix"}
        return cls(**{name: getattr(form, name) for name in names})


class PatternAfter(NamedTuple):
    """The cursor after which matching streams are read; None means from now on."""

    cursor: PatternCursor | None


class PresenceWish(NamedTuple):
    """What a client wants of presence: to be there, and in any case to know who is."""

    data: bytes = b"{}"  # what it says of itself, as JSON
    key: str | None = None  # its name for its connection; None: that of the connection
    is_hidden: bool = False  # it only looks


class SubscribeIntent(NamedTuple):
    """Open a subscription, and follow it after the answer is sent."""

    rid: str | None
    sub: str
    stream: bytes  # its name, or the pattern
    group: bytes | None
    consumer: bytes | None
    after: EntryId | From | PatternAfter
    credit: int
    choices: SubscriptionChoices
    presence: PresenceWish | None = None


class ListenIntent(NamedTuple):
    """Follow a channel, after the answer is sent."""

    rid: str | None
    sub: str
    channel: bytes
    presence: PresenceWish | None


class PublishIntent(NamedTuple):
    rid: str | None
    channel: bytes
    data: bytes


class PresenceIntent(NamedTuple):
    """Say something else of a connection that is present."""

    rid: str | None
    sub: str
    data: bytes


class UnsubscribeIntent(NamedTuple):
    rid: str | None
    sub: str


class CreditIntent(NamedTuple):
    sub: str
    entries: int


class AppendIntent(NamedTuple):
    rid: str | None
    stream: bytes
    drafts: list[Draft]


class CommitIntent(NamedTuple):
    rid: str | None
    form: CommitInput  # knows the place of each step
    request: CommitSteps


class AckIntent(NamedTuple):
    rid: str | None
    sub: str
    ids: list[EntryId]
    stream: bytes | None = None  # None: the only one of the subscription


class NackIntent(NamedTuple):
    rid: str | None
    sub: str
    ids: list[EntryId]
    mode: NackMode
    delay_ms: int | None
    error: bytes | None
    stream: bytes | None = None


class ExtendIntent(NamedTuple):
    rid: str | None
    sub: str
    ids: list[EntryId]
    stream: bytes | None = None


class AuthIntent(NamedTuple):
    rid: str | None
    token: SecretStr


Settlement = AckIntent | NackIntent | ExtendIntent
Intent = (
    SubscribeIntent
    | ListenIntent
    | PublishIntent
    | PresenceIntent
    | UnsubscribeIntent
    | CreditIntent
    | AppendIntent
    | CommitIntent
    | AuthIntent
    | Settlement
)
