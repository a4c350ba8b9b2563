"""The keys in `keys.json`, and when each key was used.

The file is `{"version": 1, "keys": [...]}`. We write each key on a line of its own, so that a diff
of two versions can be read. A file written by hand may have any layout.
"""

import errno
import re
import secrets
from base64 import b32encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from headgate.app.auth.grants import Grant, Grants, Right, UnboundClaim, UsageLimits, Verb
from headgate.app.auth.private_file import CredentialFault, lock_of, write_private
from headgate.app.auth.strict_json import object_of
from headgate.app.runtime.small_file import read_small
from headgate.app.wire.problems import Code

# Key: an API key as the keys file has it, which knows the hash of its secret only.
#
# The key itself is the text `hg_<id>_<secret>`. The id is no secret. The secret has 256 random
# bits, so its plain SHA-256 cannot be guessed, and checking it costs a microsecond.

PREFIX = "hg_"
"""Beginning of each key, so that a scanner of sources for secrets knows it."""

NAME_CHARACTERS_MAX = 256

_ID_BITS = 50
_SECRET_BITS = 256
_TOKEN = re.compile(r"hg_([a-z0-9]{1,32})_([a-z2-7]{52})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class KeyText(NamedTuple):
    id: str
    secret: str

    def __str__(self) -> str:
        return f"{PREFIX}{self.id}_{self.secret}"

    def __repr__(self) -> str:
        """Return the id of the key, without its secret."""
        return f"KeyText({self.id})"

    @property
    def sha256(self) -> str:
        return sha256(self.secret.encode()).hexdigest()


def make_key(key_id: str | None = None) -> KeyText:
    """Return a new key, or a new secret for an existing key id."""
    return KeyText(key_id or _random_text(_ID_BITS), _random_text(_SECRET_BITS))


def parse_key(token: str) -> KeyText | None:
    match = _TOKEN.fullmatch(token)
    return None if match is None else KeyText(*match.groups())


def is_key(token: str) -> bool:
    """Tell whether this looks like an API key rather than another token."""
    return token.startswith(PREFIX)


def _random_text(bit_count: int) -> str:
    character_count = -(-bit_count // 5)
    random_bytes = secrets.token_bytes(-(-character_count * 5 // 8))
    return b32encode(random_bytes).decode().lower()[:character_count]


def _check_name(name: str) -> str:
    if _CONTROL.search(name):
        raise ValueError("a name must not have control characters")
    return name


KeyName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=NAME_CHARACTERS_MAX,
        json_schema_extra={"pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$"},
    ),
    AfterValidator(_check_name),
]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Instant = Annotated[int, Field(ge=0, lt=2**53)]
KeyState = Literal["active", "expired", "revoked"]


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
        """Return the rights of the key, whose only claim is `sub`: its name."""
        return tuple(grant.bind({"sub": self.name}) for grant in self.grants)

    def expiry_of(self, sha256_text: str) -> int | None:
        """Return when a secret of this key expires, the current or the previous one."""
        if self.previous is None or sha256_text != self.previous.sha256:
            return self.expires_at_ms
        ends = (self.previous.expires_at_ms, self.expires_at_ms)
        return min(end for end in ends if end is not None)

    def state(self, now_ms: int) -> KeyState:
        if self.revoked_at_ms is not None:
            return "revoked"
        is_expired = self.expires_at_ms is not None and self.expires_at_ms <= now_ms
        return "expired" if is_expired else "active"

    @property
    def is_admin(self) -> bool:
        return any(Verb.ADMIN in grant.do for grant in self.grants)

    def revoked(self, now_ms: int) -> "ApiKey":
        """Return the key without its secrets; one that is revoked stays as it is."""
        if self.revoked_at_ms is not None:
            return self
        return self.model_copy(update={"revoked_at_ms": now_ms, "previous": None})

    def rotated(self, text: KeyText, overlap_ms: int | None, now_ms: int) -> "ApiKey":
        """Return the key with a new secret; the previous one stays valid for the overlap."""
        previous = None
        if overlap_ms is not None:
            previous = PreviousSecret(sha256=self.sha256, expires_at_ms=now_ms + overlap_ms)
        return self.model_copy(update={"sha256": text.sha256, "previous": previous})

    @property
    def hashes(self) -> tuple[str, ...]:
        if self.revoked_at_ms is not None:
            return ()
        if self.previous is None:
            return (self.sha256,)
        return (self.sha256, self.previous.sha256)


VERSION = 1
SIZE_BYTES_MAX = 16 * 2**20

Keys = Mapping[str, ApiKey]
"""Keys by their ids, in the order of the file."""


class KeyFileFault(CredentialFault):
    """The file cannot be read, is invalid or cannot be changed; the text names file and place."""

    def __init__(self, text: str, code: Code = "unavailable") -> None:
        """Take the reason, and the code of the problem for those who change keys over the API."""
        super().__init__(text)
        self.code: Code = code


_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


def read_keys(path: Path) -> Keys:
    """Return the keys of a file; raises KeyFileFault if it is missing, unreadable or invalid."""
    try:
        return _keys_of(read_small(path, SIZE_BYTES_MAX))
    except OSError as error:
        raise KeyFileFault(f"{path}: {error.strerror}") from None
    except ValidationError as error:
        raise KeyFileFault(f"{path}: {_fault(error.errors()[0])}") from None
    except ValueError as error:
        raise KeyFileFault(f"{path}: {error}") from None


def change_keys(path: Path, change: Callable[[dict[str, ApiKey]], None]) -> None:
    """Change the keys of a file under its lock; a missing file is created.

    If `change` raises, nothing changes. Raises KeyFileFault if the file is invalid, would be too
    large, or cannot be written.
    """
    try:
        with lock_of(path):
            keys = dict(read_keys(path)) if path.exists() else {}
            change(keys)
            _write(path, keys)
    except OSError as error:
        code: Code = "not_supported" if error.errno in _READ_ONLY else "unavailable"
        raise KeyFileFault(f"{path}: {error.strerror}", code) from None


def create_keys(path: Path, keys: Keys) -> bool:
    """Create a keys file unless it exists; return whether it was created."""
    try:
        with lock_of(path):
            if path.exists():
                return False
            _write(path, keys)
            return True
    except OSError as error:
        raise KeyFileFault(f"{path}: {error.strerror}") from None


def _write(path: Path, keys: Keys) -> None:
    text = _text_with(keys)
    if len(text) > SIZE_BYTES_MAX:
        fault = f"{path}: the file would be larger than {SIZE_BYTES_MAX} bytes"
        raise KeyFileFault(fault, "limit_reached")
    write_private(path, text)


class _KeysFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    version: int = Field(ge=VERSION, le=VERSION)
    keys: list[ApiKey] = Field(fail_fast=True)  # a fault for each key would take a lot of memory


def _keys_of(data: bytes) -> Keys:
    object_of(data)
    keys: dict[str, ApiKey] = {}
    for place, key in enumerate(_KeysFile.model_validate_json(data, strict=True).keys):
        if keys.setdefault(key.id, key) is not key:
            raise ValueError(f"keys[{place}]: the id {key.id!r} occurs twice")
    return keys


def _fault(error: ErrorDetails) -> str:
    """Return the fault of a file without the faulty value, which may be a secret."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"])
    text = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{path.removeprefix('.')}: {text}"


def _text_with(keys: Keys) -> bytes:
    lines = b",\n".join(
        key.model_dump_json(exclude_defaults=True).encode() for key in keys.values()
    )
    return b'{"version": %d, "keys": [\n%s\n]}\n' % (VERSION, lines)


FIRST_KEY = "first-key"
"""File of the data directory that has the key itself."""

_NAME = "admin"
_EVERYTHING = Grant(streams=["*"], do=list(Verb), create=True)


def first_key(data_dir: Path, keys_file: Path, now_ms: int) -> str | None:
    """Create a key that may do everything, unless there is a keys file.

    The key is also written to `first-key` in `data_dir`. Return None if there is a keys file.
    Raises KeyFileFault if a file cannot be written.
    """
    if keys_file.exists():
        return None
    text = make_key()
    key = ApiKey(
        id=text.id, name=_NAME, sha256=text.sha256, grants=[_EVERYTHING], created_at_ms=now_ms
    )
    place = data_dir / FIRST_KEY
    try:
        data_dir.mkdir(0o700, parents=True, exist_ok=True)
        write_private(place, f"{text}\n".encode())  # before the key works: a crash loses no key
    except OSError as error:
        raise KeyFileFault(f"{place}: {error.strerror}") from None
    return str(text) if create_keys(keys_file, {key.id: key}) else None


# Use: when keys were last used.
#
# It stands in a file of its own in the data directory, because a keys file may be read-only.

_FILE = "keys-used.json"


class _Used(BaseModel):
    version: int = 1
    used_at_ms: dict[str, int] = {}


def read_use(data_dir: Path) -> dict[str, int]:
    try:
        return _Used.model_validate_json((data_dir / _FILE).read_bytes()).used_at_ms
    except (OSError, ValidationError):  # nothing depends on it
        return {}


def write_use(data_dir: Path, used_at_ms: dict[str, int]) -> dict[str, int]:
    """Write when each key was last used, and return what was written; raises OSError.

    Other processes of the gateway write the file as well, so the latest time of each key wins.
    """
    path = data_dir / _FILE
    with lock_of(path):
        before = read_use(data_dir)
        latest = {key: max(at, before.get(key, 0)) for key, at in used_at_ms.items()}
        write_private(path, _Used(used_at_ms=latest).model_dump_json().encode())
    return latest
