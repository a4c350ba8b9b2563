"""Intents: what a conversation asks its connection to do."""

from typing import NamedTuple

from pydantic import SecretStr

from headgate.app.live.choices import SubscriptionChoices
from headgate.engine.entry import Draft, EntryId
from headgate.engine.patterns.cursor import PatternCursor
from headgate.engine.requests.deliveries import NackMode
from headgate.engine.requests.entries import From


class PatternAfter(NamedTuple):
    """The place behind which all streams that match are read; None: from now on."""

    cursor: PatternCursor | None


class SubscribeIntent(NamedTuple):
    """Open a subscription, and follow it after the answer."""

    rid: str | None
    sub: str
    stream: bytes  # its name, or the pattern
    group: bytes | None
    consumer: bytes | None
    after: EntryId | From | PatternAfter
    credit: int
    choices: SubscriptionChoices


class UnsubscribeIntent(NamedTuple):
    """End a subscription."""

    rid: str | None
    sub: str


class CreditIntent(NamedTuple):
    """Let more entries come."""

    sub: str
    entries: int


class AppendIntent(NamedTuple):
    """Append entries."""

    rid: str | None
    stream: bytes
    drafts: list[Draft]


class AckIntent(NamedTuple):
    """Acknowledge entries of a subscription."""

    rid: str | None
    sub: str
    ids: list[EntryId]


class NackIntent(NamedTuple):
    """Give entries of a subscription back."""

    rid: str | None
    sub: str
    ids: list[EntryId]
    mode: NackMode
    delay_ms: int | None
    error: bytes | None


class ExtendIntent(NamedTuple):
    """Restart the idle clock of entries of a subscription."""

    rid: str | None
    sub: str
    ids: list[EntryId]


class AuthIntent(NamedTuple):
    """Verify a credential, and go on as its principal."""

    rid: str | None
    token: SecretStr


Settlement = AckIntent | NackIntent | ExtendIntent
Intent = SubscribeIntent | UnsubscribeIntent | CreditIntent | AppendIntent | AuthIntent | Settlement
