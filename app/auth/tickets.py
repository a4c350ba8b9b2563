"""Short tokens for pages, which may stand in a URL where a browser can send no header.

A ticket allows one stream and one channel, and at most what its owner may do there. It is a JWT
signed with a secret of the gateway, so every gateway with this secret accepts it. It ends with the
key of its owner; the ticket of a token's owner ends no later than this token, and with the key that
signed it. A ticket of somebody without a credential allows what everybody may do.
"""

import re
import secrets
from typing import Any, NamedTuple, Protocol

import jwt
from pydantic import ValidationError

from headgate.app.auth.grants import OF_CHANNELS, Pattern, Right, UsageLimits, Verb
from headgate.app.auth.principal import Need, Principal, Unauthenticated
from headgate.engine.clock import Clock

_AUDIENCE = "headgate-ticket"
_ALGORITHM = "HS256"
_LENGTH_MAX = 8192
_HEADER = jwt.encode({}, bytes(32), _ALGORITHM).partition(".")[0]
_FORM = re.compile(rf"{_HEADER}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{{43}}")
"""Of our tickets. A library reads others, too, and does so before it looks at the signature."""

SECRET_BYTES = 32

INVALID = "The ticket is not valid."
_EXPIRED = "The ticket has expired."


class Owners(Protocol):
    def mark_of(self, principal: Principal) -> str | None:
        """Return an identifier of a principal's key and secret that hides it; None: no key."""
        ...

    def owner_of(self, mark: str, now_ms: int) -> Principal | None:
        """Return the principal with this mark, or None if its secret is no longer valid."""
        ...


class Scope(NamedTuple):
    """What a ticket allows: some verbs on a stream, some on a channel, or both."""

    verbs: frozenset[Verb]  # some of read, append, consume; publish, subscribe
    stream: bytes | None = None
    group: bytes | None = None
    consumer: bytes | None = None
    channel: bytes | None = None
    user: str | None = None  # whom presence shows

    def needs(self) -> list[Need]:
        needs = [
            Need((verb,), self.channel if verb in OF_CHANNELS else self.stream)
            for verb in sorted(self.verbs - {Verb.CONSUME})
        ]
        if Verb.CONSUME in self.verbs:
            needs.append(Need((Verb.CONSUME,), self.stream, self.group, self.consumer))
        return needs

    def rights(self) -> list[Right]:
        rights = []
        if self.channel is not None:
            rights.append(Right(self.verbs & OF_CHANNELS, (Pattern(self.channel),)))
        if self.stream is None:
            return rights
        streams = (Pattern(self.stream),)
        rights.append(Right(self.verbs - OF_CHANNELS - {Verb.CONSUME}, streams))
        if Verb.CONSUME in self.verbs and self.group is not None:
            consumer = None if self.consumer is None else Pattern(self.consumer)
            rights.append(
                Right(frozenset({Verb.CONSUME}), streams, (Pattern(self.group),), consumer)
            )
        return rights


class Tickets:
    def __init__(self, secret: bytes, owners: Owners, clock: Clock) -> None:
        """Use a secret of at least 32 bytes, shared by all gateways that accept these tickets."""
        self._secret = secret
        self._owners = owners
        self._clock = clock

    def issue(self, principal: Principal, scope: Scope, ttl_ms: int) -> tuple[str, int]:
        """Return a ticket and the unix time in milliseconds of its end; raises Forbidden."""
        principal.check_valid()
        for need in scope.needs():
            principal.check(need)
        expires_at_ms = self._clock.wall_ms() + ttl_ms
        if principal.expires_at_ms is not None:
            expires_at_ms = min(expires_at_ms, principal.expires_at_ms)
        claims: dict[str, Any] = {
            "aud": _AUDIENCE,
            "sub": principal.id,
            "exp": expires_at_ms // 1000 + 1,
            "end": expires_at_ms,
            "do": sorted(scope.verbs),
            "names": [_text(name) for name in scope[1:5]],
        }
        if scope.user is not None:
            claims["user"] = scope.user
        owner = principal.parent or principal
        mark = self._owners.mark_of(owner)
        if owner.is_anonymous:
            claims["anonymous"] = True
        elif mark is not None:
            claims["key"] = mark
        elif principal.key is not None:
            claims["signer"] = principal.key
        limits = principal.limits.model_dump(exclude_none=True)
        if limits:
            claims["limits"] = limits
        return jwt.encode(claims, self._secret, _ALGORITHM), expires_at_ms

    def knows(self, credential: str) -> bool:
        """Tell whether it is a ticket that was signed with our secret, whether or not it ended."""
        try:
            self._claims(credential)
        except jwt.InvalidTokenError:
            return False
        return True

    def _claims(self, ticket: str) -> dict[str, Any]:
        if len(ticket) > _LENGTH_MAX or not _FORM.fullmatch(ticket):
            raise jwt.InvalidTokenError
        required = ["exp", "sub", "aud"]
        return jwt.decode(
            ticket,
            self._secret,
            [_ALGORITHM],
            audience=_AUDIENCE,
            options={"require": required, "verify_exp": False},
        )

    def verify(self, ticket: str, anonymous: Principal) -> Principal:
        """Return the principal of a ticket: its owner's identity with fewer rights.

        Its parent is its owner, or None for a token, whose signer is its `key`. `anonymous` owns
        the tickets of those without a credential. Raises Unauthenticated if the ticket is not ours
        or has ended, or its owner's key has.
        """
        try:
            claims = self._claims(ticket)
            verbs = frozenset(map(Verb, claims["do"]))
            names = (*map(_name, claims["names"]), None)  # an older ticket names no channel
            stream, group, consumer, channel = names[:4]
            scope = Scope(verbs, stream, group, consumer, channel, claims.get("user"))
            limits = UsageLimits.model_validate(claims.get("limits", {}))
            expires_at_ms, mark = int(claims["end"]), claims.get("key")
            is_anonymous = claims.get("anonymous", False)
        except (
            jwt.InvalidTokenError,
            ValidationError,
            AttributeError,
            LookupError,
            ValueError,
            TypeError,
        ):
            raise Unauthenticated(INVALID) from None
        now_ms = self._clock.wall_ms()
        if expires_at_ms <= now_ms:  # by our clock; `exp` is in whole seconds
            raise Unauthenticated(_EXPIRED)
        owner = None if mark is None else self._owners.owner_of(mark, now_ms)
        if mark is not None and owner is None:
            raise Unauthenticated("The key that created the ticket is no longer valid.")
        if is_anonymous:
            owner = anonymous
            if not owner.verbs:
                raise Unauthenticated(
                    "The ticket was created without a credential, but the gateway now requires one."
                )
        principal = Principal(
            claims["sub"],
            scope.rights(),
            limits=limits,
            expires_at_ms=expires_at_ms,
            key=claims.get("signer") if owner is None else owner.key,
            parent=owner,
            user=scope.user,
        )
        if owner is not None:
            owner.own(principal)
        return principal


def new_secret() -> bytes:
    return secrets.token_bytes(SECRET_BYTES)


def _text(name: bytes | None) -> str | None:
    return None if name is None else name.decode()


def _name(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
