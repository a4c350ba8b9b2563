"""Definition: a push as it is set, and its state."""

from __future__ import annotations

import hashlib

import msgspec

from headgate.app.wire.pushes import (
    BATCH_MAX,
    CONCURRENCY,
    DISABLE_AFTER_MS,
    TIMEOUT_MS,
    PushBody,
    PushPhase,
    SignatureKind,
)

PREFIX = b"__push:"

PUSHES_MAX = 1_000
"""Pushes of a gateway, and of all gateways over the same servers."""


class PushDefinition(msgspec.Struct, frozen=True):
    """The definition of a push, but for its URL: that is among its secrets."""

    concurrency: int = CONCURRENCY  # requests at a time
    timeout_ms: int = TIMEOUT_MS  # of a request
    body: PushBody = PushBody.ENTRY
    batch_max: int = BATCH_MAX  # entries of a request that has several
    signature: SignatureKind = SignatureKind.HMAC
    disable_after_ms: int = DISABLE_AFTER_MS  # of nothing but failures

    @property
    def entries_max(self) -> int:
        """Return how many entries a request has at most."""
        return self.batch_max if self.body.is_batch else 1


class PushRecord(msgspec.Struct, frozen=True):
    """A push: its definition, its secrets, and its state."""

    stream: bytes
    group: bytes
    definition: PushDefinition
    sealed: str  # its `PushSecrets`, encrypted: another text whenever a user sets something
    created_at_ms: int
    retry_count: int = 0  # how often a user wanted what failed at once
    is_paused: bool = False
    failing_since_ms: int | None = None
    failures: int = 0  # requests, one after the other
    disabled_at_ms: int | None = None
    disabled_reason: str | None = None
    maker: str | None = None  # in whose share it is; None: in that of the operators

    @property
    def name(self) -> bytes:
        """Return the name of its stream."""
        return name_of(self.stream, self.group)

    @property
    def is_running(self) -> bool:
        """Tell whether it is to send anything."""
        return not self.is_paused and self.disabled_at_ms is None

    def is_set_anew(self, before: PushRecord) -> bool:
        """Tell whether those who deliver have to know of the difference."""
        facts = self.sealed, self.retry_count, self.is_running
        return facts != (before.sealed, before.retry_count, before.is_running)

    @property
    def phase(self) -> PushPhase:
        """Return the phase, as far as the push itself knows it."""
        if self.disabled_at_ms is not None:
            return PushPhase.DISABLED
        if self.is_paused:
            return PushPhase.PAUSED
        return PushPhase.ACTIVE if self.failing_since_ms is None else PushPhase.FAILING


class PushCounts(msgspec.Struct, frozen=True):
    """The counts of a push since it was made, a second old at most."""

    delivered: int = 0  # entries that were acknowledged
    failed: int = 0  # requests that were not


def name_of(stream: bytes, group: bytes) -> bytes:
    """Return the name of the stream of a push."""
    return PREFIX + digest_of(stream, group)[:32].encode()


def digest_of(*names: bytes) -> str:
    """Return a digest of names, in which none of them can stand for parts of others."""
    digest = hashlib.sha256()
    for name in names:
        digest.update(b"%d:%b" % (len(name), name))
    return digest.hexdigest()
