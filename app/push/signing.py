"""Signing: the headers by which a receiver knows the gateway (Standard Webhooks 1.0)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from headgate.app.push.sealing import Sealing
from headgate.app.push.store import CHANGES
from headgate.app.scheduling.runner import Perform
from headgate.app.webhooks.signing import SEED_BYTES, WebhookKey
from headgate.app.wire.pushes import SignatureKind
from headgate.engine.errors import StreamExists, StreamNotFound, StreamsChanged
from headgate.engine.requests.attributes import AttributeChange, ChangeAttributes, GetAttributes
from headgate.engine.requests.streams import CreateStream

_ATTRIBUTE = b"signing-key"
_SECRET_BYTES = 32
_SECRET_PREFIX = "whsec_"  # noqa: S105 what secrets begin with
_PUBLIC_PREFIX = "whpk_"


class PushSecrets(msgspec.Struct, frozen=True):
    """The secrets of a push. They say to which push they belong: they are good for no other."""

    stream: bytes
    group: bytes
    url: str  # it may have a key in it
    secret: str
    headers: dict[str, str] = {}
    previous: str | None = None
    previous_until_ms: int = 0

    def rotated(self, now_ms: int, overlap_ms: int) -> PushSecrets:
        """Return secrets of which the newest is new; the one before is good for a while."""
        until_ms = now_ms + overlap_ms
        return replace(self, secret=new_secret(), previous=self.secret, previous_until_ms=until_ms)


def new_secret() -> str:
    """Return a new secret."""
    return _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


class Signer:
    """Signs the requests of a push."""

    def __init__(self, kind: SignatureKind, held: PushSecrets, key: WebhookKey | None) -> None:
        """Sign in some way.

        Args:
            kind: the signature.
            held: the secrets of the push.
            key: of the gateway; only signatures by it need it.
        """
        self._key = key if kind is SignatureKind.ED25519 else None
        self._previous_until_ms = held.previous_until_ms
        self._secret = _bytes_of(held.secret)
        self._previous = None if held.previous is None else _bytes_of(held.previous)

    def headers(self, webhook_id: str, now_ms: int, body: bytes) -> dict[str, str]:
        """Return the headers of a request that is sent now.

        Args:
            webhook_id: of the request; it stays the same when that is sent again.
            now_ms: unix time.
            body: of the request.
        """
        at_s = now_ms // 1000
        signed = b"%b.%d.%b" % (webhook_id.encode(), at_s, body)
        if self._key is not None:
            signatures = [f"v1a,{base64.b64encode(self._key.sign(signed)).decode()}"]
        else:
            signatures = [_hmac(self._secret, signed)]
            if self._previous is not None and now_ms < self._previous_until_ms:
                signatures.append(_hmac(self._previous, signed))
        return {
            "webhook-id": webhook_id,
            "webhook-timestamp": str(at_s),
            "webhook-signature": " ".join(signatures),
        }


def _hmac(secret: bytes, signed: bytes) -> str:
    return f"v1,{base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()}"


def _bytes_of(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(_SECRET_PREFIX))


def public_text(key: WebhookKey) -> str:
    """Return the public key as Standard Webhooks writes it."""
    return _PUBLIC_PREFIX + base64.b64encode(key.public).decode()


class _Seed(msgspec.Struct):
    seed: bytes


async def known_key(perform: Perform, sealing: Sealing) -> WebhookKey | None:
    """Return the key of all gateways over these streams; None: there is none, or none to read."""
    try:
        there: dict[bytes, Any] = await perform(GetAttributes(CHANGES, [_ATTRIBUTE]))
    except StreamNotFound:
        return None
    sealed = there.get(_ATTRIBUTE)
    seed = None if sealed is None else await sealing.unseal(sealed.decode(), _Seed)
    return None if seed is None else WebhookKey(seed.seed, "push")


async def signing_key(perform: Perform, sealing: Sealing) -> WebhookKey | None:
    """Return the key of all gateways over these streams, made if there is none yet.

    Returns:
        None: there is one, and it was encrypted with a key that is not there.

    Raises:
        KeyMissing: nothing can be kept as a secret.
    """
    key = await known_key(perform, sealing)
    if key is None:
        sealed = await sealing.seal(_Seed(secrets.token_bytes(SEED_BYTES)))
        change = AttributeChange({_ATTRIBUTE: sealed.encode()}, {_ATTRIBUTE: None})
        with suppress(StreamsChanged, StreamExists, StreamNotFound):
            if not (await perform(CreateStream(CHANGES, attributes=change))).is_new:
                await perform(ChangeAttributes(CHANGES, change))
        key = await known_key(perform, sealing)
    return key
