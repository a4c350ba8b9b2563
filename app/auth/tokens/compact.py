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
    """The parts of a token. Members of the header that bring or name a key are not looked at."""

    algorithm: str
    kid: str | None
    claims: dict[str, Any]


def parse_token(token: str) -> Compact:
    """Return the parts of a token.

    Raises:
        Malformed: it is none.
    """
    if len(token) > SIZE_BYTES_MAX or not token.isascii():
        raise Malformed
    parts = token.split(".")
    if len(parts) != 3:
        raise Malformed
    try:
        header, claims, _ = (_decoded(part) for part in parts)
        members = object_of(header)
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
        return Compact(str(algorithm), kid, object_of(claims))
    except ValueError:
        raise Malformed from None


def _decoded(part: str) -> bytes:
    """Return what a part is; there is one text for each, without padding."""
    if not _PART.fullmatch(part) or len(part) % 4 == 1:
        raise Malformed
    data = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    if urlsafe_b64encode(data).rstrip(b"=") != part.encode():
        raise Malformed
    return data
