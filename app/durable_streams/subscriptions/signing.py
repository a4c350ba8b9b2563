"""The key of webhooks, and the tokens of those who work on a wake.

The key is an attribute of the stream `__ds`, so all gateways over the same streams have it. Whoever
can read a whole data directory, or the keys of a Redis server, can read it.
"""

import hashlib
import secrets
from contextlib import suppress
from typing import Any, NamedTuple

import jwt
from jwt.types import Options

from headgate.app.automation.records import attributes_of
from headgate.app.automation.webhooks import SEED_BYTES, WebhookKey, text_of_bytes
from headgate.app.backends.port import Perform
from headgate.app.durable_streams.protocol import CONTROL
from headgate.app.durable_streams.subscriptions.definition import SubscriptionFault
from headgate.engine.errors import StreamExists
from headgate.engine.requests.streams import AttributeChange, CreateStream

KEYS = CONTROL.encode()
_ATTRIBUTE = b"signing-key"
_TOKEN_S_MAX = 86_400
_TOKEN_LENGTH_MAX = 2_048
_ALGORITHM = "HS256"
_OPTIONS: Options = {"verify_exp": False, "require": ["exp", "sub", "gen"]}


class TokenClaim(NamedTuple):
    subscription: str
    generation: int


class SigningKey:
    def __init__(self, seed: bytes) -> None:
        """Use 32 random bytes."""
        self._key = WebhookKey(seed, "ds")
        self._secret = hashlib.sha256(b"tokens of subscriptions" + seed).digest()

    @property
    def kid(self) -> str:
        return self._key.kid

    def jwks(self) -> bytes:
        return self._key.jwks()

    def signature(self, body: bytes, at_s: int) -> str:
        """Return the header `Webhook-Signature` of a body sent at a unix time."""
        signed = self._key.sign(b"%d.%b" % (at_s, body))
        return f"t={at_s},kid={self._key.kid},ed25519={text_of_bytes(signed)}"

    def token(self, claim: TokenClaim, at_s: int) -> str:
        facts = {"sub": claim.subscription, "gen": claim.generation, "exp": at_s + _TOKEN_S_MAX}
        return jwt.encode(facts, self._secret, _ALGORITHM)

    def check(self, token: str | None, claim: TokenClaim, at_s: int) -> None:
        """Raise SubscriptionFault unless a token belongs to a wake."""
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
    seed = (await attributes_of(perform, KEYS, [_ATTRIBUTE])).get(_ATTRIBUTE)
    return None if seed is None else SigningKey(seed)


async def signing_key(perform: Perform) -> SigningKey:
    """Return the key of all gateways over these streams; create it if needed."""
    key = await known_key(perform)
    if key is None:
        change = AttributeChange({_ATTRIBUTE: secrets.token_bytes(SEED_BYTES)})
        with suppress(StreamExists):  # with other settings than new streams have
            await perform(CreateStream(KEYS, attributes=change))
        key = await known_key(perform)
    if key is None:
        raise SubscriptionFault(409, "INVALID_REQUEST", "the stream `__ds` belongs to others")
    return key
