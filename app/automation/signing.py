"""Signatures of push requests (Standard Webhooks 1.0), and the keys."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from msgspec.structs import replace

from headgate.app.auth.private_file import lock_of, write_private
from headgate.app.automation.pushes import CHANGES, PushRecord
from headgate.app.automation.records import attributes_of, create_with
from headgate.app.automation.webhooks import SEED_BYTES, WebhookKey
from headgate.app.backends.port import Perform
from headgate.app.runtime.threads import WEBHOOKS
from headgate.app.wire.pushes import SignatureKind
from headgate.engine.errors import StreamExists, StreamNotFound, StreamsChanged
from headgate.engine.requests.streams import AttributeChange

# Sealing: secrets of pushes are encrypted wherever they are kept, and so in each copy of that.
#
# The keys are in a file of their own (Fernet: AES-128-CBC and HMAC-SHA-256), one a line. The first
# one encrypts; the others are those of before. Lines may be added in front while gateways run.

T = TypeVar("T")

_FILE_BYTES_MAX = 65_536


class KeyMissing(Exception):
    """There is no key, so no secret can be stored."""


class Sealing:
    def __init__(
        self, path: Path | None, *, may_create: bool = False, secret: bytes | None = None
    ) -> None:
        """Use the keys of a file, which is read when needed, or a secret.

        `secret` is shared by all processes of this gateway, and lasts only as long as they do.
        """
        self._path, self._may_create, self._secret = path, may_create, secret

    async def seal(self, value: object) -> str:
        keys = await WEBHOOKS.call_if_awaited(self._writable)
        return keys.encrypt(msgspec.json.encode(value)).decode()

    async def unseal(self, sealed: str, kind: type[T]) -> T | None:
        """Decrypt a value; None if the key that encrypted it is missing."""
        try:
            keys = await WEBHOOKS.call_if_awaited(self._keys)
            return msgspec.json.decode(keys.decrypt(sealed), type=kind)
        except (KeyMissing, InvalidToken, ValueError):
            return None

    def _writable(self) -> MultiFernet:
        try:
            return self._keys()
        except KeyMissing:
            if self._path is None or not self._may_create:
                raise
            try:
                with lock_of(self._path):
                    if not self._path.exists():
                        write_private(self._path, Fernet.generate_key() + b"\n")
            except OSError as error:
                raise KeyMissing(f"{self._path.name}: {error.strerror}") from error
            return self._keys()

    def _keys(self) -> MultiFernet:
        if self._secret is not None:
            digest = hashlib.sha256(b"secrets of pushes" + self._secret).digest()
            return MultiFernet([Fernet(base64.urlsafe_b64encode(digest))])
        if self._path is None:
            raise KeyMissing("set `push_key_file` for this gateway")
        try:
            with self._path.open("rb") as file:
                lines = file.read(_FILE_BYTES_MAX).split()
            return MultiFernet([Fernet(line) for line in lines])
        except (OSError, ValueError) as error:
            reason = (
                error.strerror
                if isinstance(error, OSError)
                else "each line must have 32 bytes in base64"
            )
            raise KeyMissing(f"{self._path.name}: {reason}") from error


_ATTRIBUTE = b"signing-key"
_SECRET_BYTES = 32
_SECRET_PREFIX = "whsec_"  # noqa: S105 what secrets begin with
_PUBLIC_PREFIX = "whpk_"


class PushSecrets(msgspec.Struct, frozen=True):
    """The secrets of a push. They name their push, so they cannot be used for another."""

    stream: bytes  # or a pattern
    group: bytes
    url: str  # it may have a key in it
    secret: str
    headers: dict[str, str] = {}
    previous: str | None = None
    previous_until_ms: int = 0
    is_pattern: bool = False

    def rotated(self, now_ms: int, overlap_ms: int) -> PushSecrets:
        """Return secrets with a new one; the previous one stays valid for `overlap_ms`."""
        until_ms = now_ms + overlap_ms
        return replace(self, secret=new_secret(), previous=self.secret, previous_until_ms=until_ms)


def new_secret() -> str:
    return _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


class Signer:
    def __init__(self, kind: SignatureKind, held: PushSecrets, key: WebhookKey | None) -> None:
        self._key = key if kind is SignatureKind.ED25519 else None
        self._previous_until_ms = held.previous_until_ms
        self._secret = _bytes_of(held.secret)
        self._previous = None if held.previous is None else _bytes_of(held.previous)

    def headers(self, webhook_id: str, now_ms: int, body: bytes) -> dict[str, str]:
        """Return the headers of a request; `webhook_id` stays the same when it is retried."""
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
    return _PUBLIC_PREFIX + base64.b64encode(key.public).decode()


class _Seed(msgspec.Struct):
    seed: bytes


async def known_key(perform: Perform, sealing: Sealing) -> WebhookKey | None:
    """Return the key shared by all gateways over these streams; None if missing or unreadable."""
    sealed = (await attributes_of(perform, CHANGES, [_ATTRIBUTE])).get(_ATTRIBUTE)
    seed = None if sealed is None else await sealing.unseal(sealed.decode(), _Seed)
    return None if seed is None else WebhookKey(seed.seed, "push")


async def signing_key(perform: Perform, sealing: Sealing) -> WebhookKey | None:
    """Return the shared key, or create it; None if it cannot be decrypted. Raises KeyMissing."""
    key = await known_key(perform, sealing)
    if key is None:
        sealed = await sealing.seal(_Seed(secrets.token_bytes(SEED_BYTES)))
        change = AttributeChange({_ATTRIBUTE: sealed.encode()}, {_ATTRIBUTE: None})
        with suppress(StreamsChanged, StreamExists, StreamNotFound):
            await create_with(perform, CHANGES, change)
        key = await known_key(perform, sealing)
    return key


async def opened_push(
    perform: Perform, sealing: Sealing, push: PushRecord
) -> tuple[PushSecrets, Signer] | None:
    """Return the secrets of a push and its signer; None if the key for them is missing."""
    held = await sealing.unseal(push.sealed, PushSecrets)
    if held is None or (held.stream, held.group, held.is_pattern) != push.place:
        return None
    kind = push.definition.signature
    if kind is not SignatureKind.ED25519:
        return held, Signer(kind, held, None)
    key = await known_key(perform, sealing)
    return None if key is None else (held, Signer(kind, held, key))
