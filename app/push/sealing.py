"""Sealing: secrets of pushes are encrypted wherever they are kept, and so in each copy of that.

The keys are in a file of their own (Fernet: AES-128-CBC and HMAC-SHA-256), one a line. The first
one encrypts; the others are those of before. Lines may be added in front while gateways run.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import TypeVar

import msgspec
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from headgate.app.auth.private_file import lock_of, write_private
from headgate.app.runtime.threads import WEBHOOKS

T = TypeVar("T")

_FILE_BYTES_MAX = 65_536


class KeyMissing(Exception):
    """There is no key, so nothing can be kept as a secret."""


class Sealing:
    """The keys of a gateway."""

    def __init__(
        self, path: Path | None, *, may_create: bool = False, secret: bytes | None = None
    ) -> None:
        """Use the keys of a file, or a secret.

        Args:
            path: the file; it is read when it is needed.
            may_create: the file is made when it is needed.
            secret: of all processes of this gateway, in place of a file; it lasts as long as they.
        """
        self._path, self._may_create, self._secret = path, may_create, secret

    async def seal(self, value: object) -> str:
        """Return a value, encrypted.

        Raises:
            KeyMissing: there is no key.
        """
        keys = await WEBHOOKS.call_if_awaited(self._writable)
        return keys.encrypt(msgspec.json.encode(value)).decode()

    async def unseal(self, sealed: str, kind: type[T]) -> T | None:
        """Return a value that was encrypted; None: it was with a key that is not there."""
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
            raise KeyMissing("this gateway needs `push_key_file`")
        try:
            with self._path.open("rb") as file:
                lines = file.read(_FILE_BYTES_MAX).split()
            return MultiFernet([Fernet(line) for line in lines])
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "a line has 32 bytes, base64"
            raise KeyMissing(f"{self._path.name}: {reason}") from error
