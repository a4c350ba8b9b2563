"""Tickets: short tokens for URLs, where a browser can send no header.

A ticket allows one stream, and at most what its owner may do there. It is a JWT signed with a
secret of the gateway, so every gateway with this secret takes it. It ends with the key of its
owner; the ticket of the owner of a token ends no later than this token, and with the key that
signed it. A ticket of somebody without a credential allows what everybody may do.
"""

import re
import secrets
from typing import Any, NamedTuple, Protocol

import jwt
from pydantic import ValidationError

from headgate.app.auth.grants import Pattern, Right, UsageLimits, Verb
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
    """The principals of keys, to whom tickets belong."""

    def mark_of(self, principal: Principal) -> str | None:
        """Return a mark of a principal's key and secret, without the secret; None: no key."""
        ...

    def owner_of(self, mark: str, now_ms: int) -> Principal | None:
        """Return the principal with this mark; None if its secret opens nothing any more."""
        ...


class Scope(NamedTuple):
    """The rights of a ticket."""

    verbs: frozenset[Verb]  # some of read, append, consume
    stream: bytes
    group: bytes | None = None
    consumer: bytes | None = None

    def needs(self) -> list[Need]:
        """Return the needs that the owner itself must be allowed."""
        needs = [Need((verb,), self.stream) for verb in sorted(self.verbs - {Verb.CONSUME})]
        if Verb.CONSUME in self.verbs:
            needs.append(Need((Verb.CONSUME,), self.stream, self.group, self.consumer))
        return needs

    def rights(self) -> list[Right]:
        """Return the rights of the ticket's bearer."""
        streams = (Pattern(self.stream),)
        rights = [Right(self.verbs - {Verb.CONSUME}, streams)]
        if Verb.CONSUME in self.verbs and self.group is not None:
            consumer = None if self.consumer is None else Pattern(self.consumer)
            rights.append(
                Right(frozenset({Verb.CONSUME}), streams, (Pattern(self.group),), consumer)
            )
        return rights


class Tickets:
    """Signs and verifies tickets."""

    def __init__(self, secret: bytes, owners: Owners, clock: Clock) -> None:
        """Use a secret of 32 bytes or more.

        Args:
            secret: shared by all gateways that take each other's tickets.
            owners: who may have made a ticket with a key.
            clock: tells when a ticket ends.
        """
        self._secret = secret
        self._owners = owners
        self._clock = clock

    def issue(self, principal: Principal, scope: Scope, ttl_ms: int) -> tuple[str, int]:
        """Return a ticket, and the unix time in milliseconds at which it ends.

        Raises:
            Forbidden: the principal may not do this itself.
        """
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
            "names": [_text(name) for name in scope[1:]],
        }
        mark = self._owners.mark_of(principal.parent or principal)
        if principal.is_anonymous:
            claims["anonymous"] = True
        elif mark is not None:
            claims["key"] = mark
        elif principal.key is not None:
            claims["signer"] = principal.key
        limits = principal.limits.model_dump(exclude_none=True)
        if limits:
            claims["limits"] = limits
        return jwt.encode(claims, self._secret, _ALGORITHM), expires_at_ms

    def verify(self, ticket: str, anonymous: Principal) -> Principal:
        """Return the principal of a ticket: the same as its owner, with fewer rights.

        Its parent is its owner; None: a token, whose signer is its `key`.

        Args:
            ticket: as it stands in the URL.
            anonymous: the owner of tickets of those without a credential.

        Raises:
            Unauthenticated: it is not one of ours, or has ended, or its owner's key has.
        """
        if len(ticket) > _LENGTH_MAX or not _FORM.fullmatch(ticket):
            raise Unauthenticated(INVALID)
        try:
            claims = jwt.decode(
                ticket,
                self._secret,
                [_ALGORITHM],
                audience=_AUDIENCE,
                options={"require": ["exp", "sub", "aud"], "verify_exp": False},
            )
            stream, group, consumer = claims["names"]
            verbs = frozenset(map(Verb, claims["do"]))
            scope = Scope(verbs, stream.encode(), _name(group), _name(consumer))
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
            raise Unauthenticated("The key that made the ticket has ended.")
        if is_anonymous:
            owner = anonymous
            if not owner.verbs:
                raise Unauthenticated("The ticket was made without a credential: one is needed.")
        principal = Principal(
            claims["sub"],
            scope.rights(),
            limits=limits,
            expires_at_ms=expires_at_ms,
            key=claims.get("signer") if owner is None else owner.key,
            parent=owner,
        )
        if owner is not None:
            owner.own(principal)
        return principal


def new_secret() -> bytes:
    """Return a secret for tickets."""
    return secrets.token_bytes(SECRET_BYTES)


def _text(name: bytes | None) -> str | None:
    return None if name is None else name.decode()


def _name(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
