"""Key: an API key as the keys file has it, which knows the hash of its secret only.

The key itself is the text `hg_<id>_<secret>`. The id is no secret. The secret has 256 random bits,
so its plain SHA-256 cannot be guessed, and checking it costs a microsecond.
"""

import re
import secrets
from base64 import b32encode
from hashlib import sha256
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from headgate.app.auth.grants import Grants, Right, UnboundClaim, UsageLimits

PREFIX = "hg_"
"""Beginning of each key, so that a scanner of sources for secrets knows it."""

NAME_CHARACTERS_MAX = 256

_ID_BITS = 50
_SECRET_BITS = 256
_TOKEN = re.compile(r"hg_([a-z0-9]{1,32})_([a-z2-7]{52})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class KeyText(NamedTuple):
    """The parts of a key as its owner has it."""

    id: str
    secret: str

    def __str__(self) -> str:
        """Return the key."""
        return f"{PREFIX}{self.id}_{self.secret}"

    def __repr__(self) -> str:
        """Return the id of the key, without its secret."""
        return f"KeyText({self.id})"

    @property
    def sha256(self) -> str:
        """Return the hash of the secret, as the keys file has it."""
        return sha256(self.secret.encode()).hexdigest()


def make_key(key_id: str | None = None) -> KeyText:
    """Return a new key, or a new secret for a key."""
    return KeyText(key_id or _random_text(_ID_BITS), _random_text(_SECRET_BITS))


def parse_key(token: str) -> KeyText | None:
    """Return the parts of a key; None: this is none."""
    match = _TOKEN.fullmatch(token)
    return None if match is None else KeyText(*match.groups())


def is_key(token: str) -> bool:
    """Tell whether this is meant to be an API key, and not another token."""
    return token.startswith(PREFIX)


def _random_text(bit_count: int) -> str:
    """Return random lower-case base32."""
    character_count = -(-bit_count // 5)
    random_bytes = secrets.token_bytes(-(-character_count * 5 // 8))
    return b32encode(random_bytes).decode().lower()[:character_count]


def _check_name(name: str) -> str:
    if _CONTROL.search(name):
        raise ValueError("a name has no control characters")
    return name


KeyName = Annotated[
    str, Field(min_length=1, max_length=NAME_CHARACTERS_MAX), AfterValidator(_check_name)
]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Instant = Annotated[int, Field(ge=0, lt=2**53)]


class PreviousSecret(BaseModel):
    """The secret that a key had before; it opens until the overlap ends."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: Sha256
    expires_at_ms: Instant


class ApiKey(BaseModel):
    """An API key; instants are unix time in milliseconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z0-9]{1,32}$")
    name: KeyName
    sha256: Sha256
    grants: Grants
    limits: UsageLimits = UsageLimits()
    created_at_ms: Instant
    expires_at_ms: Instant | None = None
    revoked_at_ms: Instant | None = None
    previous: PreviousSecret | None = None

    @model_validator(mode="after")
    def _check_claims(self) -> "ApiKey":
        try:
            self.rights()
        except UnboundClaim as error:
            raise ValueError(f"{error}; the only claim of a key is sub, its name") from None
        return self

    def rights(self) -> tuple[Right, ...]:
        """Return the rights of the key. The only claim of a key is `sub`: its name.

        Raises:
            UnboundClaim: a grant has another claim, or a name that widens it. A key that was
                validated has none.
        """
        return tuple(grant.bind({"sub": self.name}) for grant in self.grants)

    def expiry_of(self, sha256_text: str) -> int | None:
        """Return when a secret of this key ends, the present or the previous one."""
        if self.previous is None or sha256_text != self.previous.sha256:
            return self.expires_at_ms
        ends = (self.previous.expires_at_ms, self.expires_at_ms)
        return min(end for end in ends if end is not None)

    @property
    def hashes(self) -> tuple[str, ...]:
        """Return the hashes of its secrets; none of a key that was revoked."""
        if self.revoked_at_ms is not None:
            return ()
        if self.previous is None:
            return (self.sha256,)
        return (self.sha256, self.previous.sha256)
