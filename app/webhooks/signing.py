"""Signing: a key of the gateway whose public part everybody may have."""

import base64
import hashlib

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

SEED_BYTES = 32

NO_KEYS = b'{"keys":[]}'


class WebhookKey:
    """A key of Ed25519."""

    def __init__(self, seed: bytes, prefix: str) -> None:
        """Use 32 bytes of chance; the names of such keys begin with a prefix."""
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        thumbprint = {"crv": "Ed25519", "kty": "OKP", "x": text_of_bytes(self.public)}
        digest = hashlib.sha256(msgspec.json.encode(thumbprint)).digest()
        self.kid = f"{prefix}_{text_of_bytes(digest)[:22]}"

    def jwks(self) -> bytes:
        """Return the public keys as a JWK Set (RFC 7517, RFC 8037)."""
        key = {"kty": "OKP", "crv": "Ed25519", "kid": self.kid, "use": "sig", "alg": "EdDSA"}
        return msgspec.json.encode({"keys": [{**key, "x": text_of_bytes(self.public)}]})

    def sign(self, content: bytes) -> bytes:
        """Return the signature of some bytes."""
        return self._private.sign(content)


def text_of_bytes(value: bytes) -> str:
    """Return bytes as base64 of URLs, without padding."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
