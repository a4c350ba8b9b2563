"""Claims: the content of a verified token, and the principal made of it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from headgate.app.auth.grants import Grant, Grants, Right, UnboundClaim, UsageLimits
from headgate.app.auth.principal import Principal, Unauthenticated

GRANTS = "headgate"
LIMITS = "headgate_limits"

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SUBJECT_CHARACTERS_MAX = 256
_INSTANT_S_MAX = 2**43

T = TypeVar("T")

_GRANTS: TypeAdapter[list[Grant]] = TypeAdapter(Grants)
_LIMITS: TypeAdapter[UsageLimits] = TypeAdapter(UsageLimits)


class ClaimRules(NamedTuple):
    """The required and optional claims of a token."""

    audience: str | None = None
    issuer: str | None = None
    leeway_s: int = 0
    grants: Sequence[Grant] = ()  # of a token that has none of its own


def principal_of(
    claims: Mapping[str, Any], rules: ClaimRules, *, key: str | None, now_ms: int
) -> Principal:
    """Return the principal of claims.

    Raises:
        Unauthenticated: the token is not valid now, or not for this gateway, or a claim is wrong.
    """
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
                "The token is for an audience (`aud`), and this gateway has none."
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
        raise Unauthenticated(f"The token does not fit its grants: {error}.") from None


def _valid(adapter: TypeAdapter[T], name: str, value: Any) -> T:
    """Return a claim in its type, or raise with the place of its fault."""
    try:
        return adapter.validate_json(to_json(value), strict=True)
    except ValidationError as error:
        fault = error.errors()[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault["loc"])
    text = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
    raise Unauthenticated(f"The claim `{name}` is wrong at {name}{place}: {text}.")
