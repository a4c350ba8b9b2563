"""Compact: takes a token apart (RFC 7515, 7.1). What comes out is not verified."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, NamedTuple

from headgate.app.auth.tokens.strict_json import object_of

SIZE_BYTES_MAX = 8192
KID_CHARACTERS_MAX = 256

_PART = re.compile(r"[A-Za-z0-9_-]+")


class Malformed(ValueError):
    """The text is no token that we read. There are no details: these are for attackers only."""


class Compact(NamedTuple):
    """A token whose header is read. Members that bring or name a key are not looked at.

    The rest is decoded when a key is there that may have signed it, and read when one has.
    """

    algorithm: str
    kid: str | None
    parts: tuple[str, str]  # claims and signature, encoded

    def payload(self) -> bytes:
        """Return the claims, decoded.

        Raises:
            Malformed: they or the signature are no base64url.
        """
        claims, _ = map(_decoded, self.parts)
        return claims


def parse_token(token: str) -> Compact:
    """Return the parts of a token.

    Raises:
        Malformed: it is none.
    """
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
    """Return the members of a part.

    Raises:
        Malformed: it is no JSON object, or not a sound one.
    """
    try:
        return object_of(part)
    except ValueError:
        raise Malformed from None


def _decoded(part: str) -> bytes:
    """Return the bytes of a part; there is one text for each, without padding."""
    if not _PART.fullmatch(part) or len(part) % 4 == 1:
        raise Malformed
    data = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    if urlsafe_b64encode(data).rstrip(b"=") != part.encode():
        raise Malformed
    return data
