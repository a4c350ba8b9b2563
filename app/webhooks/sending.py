"""A signed POST to a webhook target, within limits."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Mapping

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from headgate.app.runtime.telemetry import versions
from headgate.app.runtime.threads import WEBHOOKS
from headgate.app.webhooks.connections import TargetAnswer, TargetConnections
from headgate.app.webhooks.targets import LookUp, Places, Targets

SEED_BYTES = 32

NO_KEYS = b'{"keys":[]}'


class WebhookKey:
    def __init__(self, seed: bytes, prefix: str) -> None:
        """`seed` is 32 random bytes; the key's id begins with `prefix`."""
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        thumbprint = {"crv": "Ed25519", "kty": "OKP", "x": text_of_bytes(self.public)}
        digest = hashlib.sha256(msgspec.json.encode(thumbprint)).digest()
        self.kid = f"{prefix}_{text_of_bytes(digest)[:22]}"

    def jwks(self) -> bytes:
        key = {"kty": "OKP", "crv": "Ed25519", "kid": self.kid, "use": "sig", "alg": "EdDSA"}
        return msgspec.json.encode({"keys": [{**key, "x": text_of_bytes(self.public)}]})

    def sign(self, content: bytes) -> bytes:
        return self._private.sign(content)


def text_of_bytes(value: bytes) -> str:
    """Encode as base64url without padding."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


SENDS_MAX = 1_024
"""Requests at a time: each has a connection."""

LARGE_BYTES_MAX = 134_217_728
"""Bytes of large bodies at a time, before they are encoded."""

LARGE_UNIT_BYTES = 131_072
"""Bytes of a place for them. A body with fewer is none of them."""


class Sender:
    """Sends requests. Redirects are not followed, and no proxy of the environment is used."""

    def __init__(
        self, targets: Targets, identity: str | None = None, look_up: LookUp | None = None
    ) -> None:
        """`identity` is added to the `User-Agent`."""
        self.places = Places(SENDS_MAX)
        self.large_places = Places(LARGE_BYTES_MAX // LARGE_UNIT_BYTES)
        self._targets, self._look_up = targets, look_up
        self._agent, self._identity = "", f" ({identity})" if identity else ""
        self._connections: TargetConnections | None = None
        self._opening = asyncio.Lock()

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, within_s: float
    ) -> TargetAnswer:
        """Wait for a slot, send a request, and return the answer; see `send`."""
        host = self._targets.check(url).hostname
        async with asyncio.timeout(within_s), self.places.within(host):
            return await self.send(url, body, headers, within_s=within_s)

    async def send(
        self, url: str, body: bytes, headers: Mapping[str, str], *, within_s: float
    ) -> TargetAnswer:
        """Send a request, and return the answer. The caller must hold a slot.

        The URL was checked; the address of the connection is checked in any case. Raises
        TargetRefused, and OSError if nobody answers (TimeoutError: in time).
        """
        async with asyncio.timeout(within_s):
            connections = self._connections or await self._open()
            return await connections.post(url, body, {**headers, "User-Agent": self._agent})

    async def _open(self) -> TargetConnections:
        async with self._opening:
            if self._connections is None:
                version = await WEBHOOKS.call_if_awaited(_prepare)
                self._agent = f"Headgate/{version}{self._identity}"
                self._connections = TargetConnections(self._targets, self._look_up)
            return self._connections

    async def close(self) -> None:
        if self._connections is not None:
            await self._connections.close()


def _prepare() -> str:
    """Return the version of the gateway; loads what most gateways never need."""
    TargetConnections.prepare()
    return versions()[0]
