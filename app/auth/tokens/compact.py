"""The parts and claims of tokens in compact form (RFC 7515, 7.1), not yet verified."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from headgate.app.auth.grants import Grant, Grants, Right, UnboundClaim, UsageLimits
from headgate.app.auth.principal import Principal, Unauthenticated
from headgate.app.auth.strict_json import object_of


class Algorithm(StrEnum):
    """The algorithm of a token's signature (RFC 7518, RFC 8037)."""

    HS256 = "HS256"
    HS384 = "HS384"
    HS512 = "HS512"
    RS256 = "RS256"
    RS384 = "RS384"
    RS512 = "RS512"
    PS256 = "PS256"
    PS384 = "PS384"
    PS512 = "PS512"
    ES256 = "ES256"
    ES384 = "ES384"
    ES512 = "ES512"
    EDDSA = "EdDSA"


RSA = frozenset(algorithm for algorithm in Algorithm if algorithm.startswith(("RS", "PS")))
HMAC = frozenset(algorithm for algorithm in Algorithm if algorithm.startswith("HS"))
BY_CURVE = {
    "secp256r1": frozenset({Algorithm.ES256}),
    "secp384r1": frozenset({Algorithm.ES384}),
    "secp521r1": frozenset({Algorithm.ES512}),
}
ED25519 = frozenset({Algorithm.EDDSA})

SECRET_BYTES_MIN = {Algorithm.HS256: 32, Algorithm.HS384: 48, Algorithm.HS512: 64}
"""A secret is as long as the hash, or longer (RFC 7518, 3.2)."""

RSA_BITS_MIN = 2048
RSA_BITS_MAX = 8192
"""A larger key would make each forged token expensive."""


SIZE_BYTES_MAX = 8192
KID_CHARACTERS_MAX = 256

_PART = re.compile(r"[A-Za-z0-9_-]+")


class Malformed(ValueError):
    """The text is no token that we read; details would only help attackers."""


class Compact(NamedTuple):
    """A token with its parsed header; members that bring or name a key are ignored.

    The rest is decoded when a key may have signed it, and parsed once a key has verified it.
    """

    algorithm: str
    kid: str | None
    parts: tuple[str, str]  # claims and signature, encoded

    def payload(self) -> bytes:
        """Return the decoded claims; raises Malformed if they or the signature are no base64url."""
        claims, _ = map(_decoded, self.parts)
        return claims


def parse_token(token: str) -> Compact:
    if len(token) > SIZE_BYTES_MAX or not token.isascii():
        raise Malformed
    parts = token.split(".", 3)
    if len(parts) != 3:
        raise Malformed
    members = members_of(_decoded(parts[0]))
    algorithm, kid = members.get("alg"), members.get("kid")
    is_good = (
        isinstance(algorithm, str)
        and "crit" not in members  # we know no extension
        and "b64" not in members
        and ("kid" not in members or isinstance(kid, str))
        and len(kid or "") <= KID_CHARACTERS_MAX
    )
    if not is_good:
        raise Malformed
    return Compact(str(algorithm), kid, (parts[1], parts[2]))


def members_of(part: bytes) -> dict[str, Any]:
    """Return the members of a part; raises Malformed if it is no sound JSON object."""
    try:
        return object_of(part)
    except ValueError:
        raise Malformed from None


def _decoded(part: str) -> bytes:
    """Decode a part; each value has only one encoding, without padding."""
    if not _PART.fullmatch(part) or len(part) % 4 == 1:
        raise Malformed
    data = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    if urlsafe_b64encode(data).rstrip(b"=") != part.encode():
        raise Malformed
    return data


GRANTS = "headgate"
LIMITS = "headgate_limits"

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SUBJECT_CHARACTERS_MAX = 256
_INSTANT_S_MAX = 2**43

T = TypeVar("T")

_GRANTS: TypeAdapter[list[Grant]] = TypeAdapter(Grants)
_LIMITS: TypeAdapter[UsageLimits] = TypeAdapter(UsageLimits)


class ClaimRules(NamedTuple):
    audience: str | None = None
    issuer: str | None = None
    leeway_s: int = 0
    grants: Sequence[Grant] = ()  # of a token that has none of its own


def principal_of(
    claims: Mapping[str, Any], rules: ClaimRules, *, key: str | None, now_ms: int
) -> Principal:
    """Return the principal of claims; raises Unauthenticated."""
    expires_at_ms = _expiry(claims, rules, now_ms)
    _check_audience(claims, rules.audience)
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise Unauthenticated("The token is of another issuer (`iss`).")
    return Principal(
        _subject(claims),
        _rights(claims, rules.grants),
        limits=_valid(_LIMITS, LIMITS, claims[LIMITS]) if LIMITS in claims else UsageLimits(),
        expires_at_ms=expires_at_ms,
        key=key,
    )


def _expiry(claims: Mapping[str, Any], rules: ClaimRules, now_ms: int) -> int:
    """Return when the token ends, as unix time in milliseconds."""
    leeway_ms = rules.leeway_s * 1000
    expires_at_ms = _instant(claims, "exp")
    if expires_at_ms is None:
        raise Unauthenticated("The token has no expiry (`exp`).")
    expires_at_ms += leeway_ms
    if expires_at_ms <= now_ms:
        raise Unauthenticated("The token has expired.")
    for name in "nbf", "iat":
        starts_at_ms = _instant(claims, name)
        if starts_at_ms is not None and starts_at_ms > now_ms + leeway_ms:
            raise Unauthenticated(f"The token is not valid yet (`{name}`).")
    return expires_at_ms


def _instant(claims: Mapping[str, Any], name: str) -> int | None:
    """Return an instant as unix time in milliseconds; in a token it is in seconds."""
    if name not in claims:
        return None
    value = claims[name]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _INSTANT_S_MAX:
        raise Unauthenticated(f"The claim `{name}` should be a time in seconds.")
    return int(value * 1000)


def _check_audience(claims: Mapping[str, Any], audience: str | None) -> None:
    given = claims.get("aud")
    audiences = [given] if isinstance(given, str) else given
    if audience is None:
        if given:
            raise Unauthenticated(
                "The token is for an audience (`aud`), but this gateway has none."
            )
        return
    if not isinstance(audiences, list) or audience not in audiences:
        raise Unauthenticated("The token is for another audience (`aud`).")


def _subject(claims: Mapping[str, Any]) -> str:
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 1 <= len(subject) <= _SUBJECT_CHARACTERS_MAX:
        raise Unauthenticated(
            f"The claim `sub` should be a text of 1 to {_SUBJECT_CHARACTERS_MAX} characters."
        )
    if _CONTROL.search(subject):
        raise Unauthenticated("The claim `sub` has control characters.")
    return subject


def _rights(claims: Mapping[str, Any], defaults: Sequence[Grant]) -> tuple[Right, ...]:
    own = _valid(_GRANTS, GRANTS, claims[GRANTS]) if GRANTS in claims else None
    try:
        return tuple(grant.bind(claims) for grant in (defaults if own is None else own))
    except UnboundClaim as error:
        raise Unauthenticated(f"The claims of the token do not fit its grants: {error}.") from None


def _valid(adapter: TypeAdapter[T], name: str, value: Any) -> T:
    try:
        return adapter.validate_json(to_json(value), strict=True)
    except ValidationError as error:
        fault = error.errors()[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"])
    text = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
    raise Unauthenticated(f"The claim `{name}` is wrong at {name}{place}: {text}.")
