"""Signing: the key of webhooks, and the tokens of those who work on a wake.

The key is made once, and is an attribute of the stream `__ds`: all gateways over the same streams
have it. Whoever can read all of a data directory, or the keys of a Redis server, can read it.
"""

import base64
import hashlib
import secrets
from contextlib import suppress
from typing import Any, NamedTuple

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.types import Options

from headgate.app.durable_streams.paths import CONTROL
from headgate.app.durable_streams.subscriptions.definition import SubscriptionFault
from headgate.app.scheduling.runner import Perform
from headgate.engine.errors import StreamExists, StreamNotFound
from headgate.engine.requests.attributes import AttributeChange, GetAttributes
from headgate.engine.requests.streams import CreateStream

KEYS = CONTROL.encode()
_ATTRIBUTE = b"signing-key"
_SEED_BYTES = 32
_TOKEN_S_MAX = 86_400
_TOKEN_LENGTH_MAX = 2_048
_ALGORITHM = "HS256"
_OPTIONS: Options = {"verify_exp": False, "require": ["exp", "sub", "gen"]}


NO_KEYS = b'{"keys":[]}'


class TokenClaim(NamedTuple):
    """The wake to which a token belongs."""

    subscription: str
    generation: int


class SigningKey:
    """A private key, and what follows from it."""

    def __init__(self, seed: bytes) -> None:
        """Use 32 bytes of chance."""
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self._public = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self._secret = hashlib.sha256(b"tokens of subscriptions" + seed).digest()
        thumbprint = {"crv": "Ed25519", "kty": "OKP", "x": _text(self._public)}
        digest = hashlib.sha256(msgspec.json.encode(thumbprint)).digest()
        self.kid = f"ds_{_text(digest)[:22]}"

    def jwks(self) -> bytes:
        """Return the public keys as a JWK Set (RFC 7517, RFC 8037)."""
        key = {"kty": "OKP", "crv": "Ed25519", "kid": self.kid, "use": "sig", "alg": "EdDSA"}
        return msgspec.json.encode({"keys": [{**key, "x": _text(self._public)}]})

    def signature(self, body: bytes, at_s: int) -> str:
        """Return the header `Webhook-Signature` of a body that is sent at a unix time."""
        signed = self._private.sign(b"%d.%b" % (at_s, body))
        return f"t={at_s},kid={self.kid},ed25519={_text(signed)}"

    def token(self, claim: TokenClaim, at_s: int) -> str:
        """Return the token for the one who works on a wake."""
        facts = {"sub": claim.subscription, "gen": claim.generation, "exp": at_s + _TOKEN_S_MAX}
        return jwt.encode(facts, self._secret, _ALGORITHM)

    def check(self, token: str | None, claim: TokenClaim, at_s: int) -> None:
        """Check that a token belongs to a wake.

        Raises:
            SubscriptionFault: it does not, or it is none.
        """
        facts = self._facts(token)
        if facts is None or facts["sub"] != claim.subscription:
            raise SubscriptionFault(401, "TOKEN_INVALID", "the token is not valid here")
        if facts["exp"] < at_s:
            raise SubscriptionFault(401, "TOKEN_EXPIRED", "the token has expired")
        if facts["gen"] != claim.generation:
            raise SubscriptionFault(409, "FENCED", "the wake of the token is over")

    def _facts(self, token: str | None) -> dict[str, Any] | None:
        if token is None or len(token) > _TOKEN_LENGTH_MAX:
            return None
        try:
            return jwt.decode(token, self._secret, algorithms=[_ALGORITHM], options=_OPTIONS)
        except jwt.InvalidTokenError:
            return None


async def known_key(perform: Perform) -> SigningKey | None:
    """Return the key of all gateways over these streams, if there is one."""
    try:
        there = await perform(GetAttributes(KEYS, [_ATTRIBUTE]))
    except StreamNotFound:
        return None
    seed = there.get(_ATTRIBUTE)
    return None if seed is None else SigningKey(seed)


async def signing_key(perform: Perform) -> SigningKey:
    """Return the key of all gateways over these streams; it is made if there is none yet.

    Raises:
        SubscriptionFault: somebody has made the stream where it belongs.
    """
    key = await known_key(perform)
    if key is None:
        change = AttributeChange({_ATTRIBUTE: secrets.token_bytes(_SEED_BYTES)})
        with suppress(StreamExists):  # with other settings than new streams have
            await perform(CreateStream(KEYS, attributes=change))
        key = await known_key(perform)
    if key is None:
        raise SubscriptionFault(409, "INVALID_REQUEST", "the stream `__ds` belongs to others")
    return key


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
