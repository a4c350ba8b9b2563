"""Key ring: the keys of the file in memory; makes a principal of the text of a key."""

from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import NamedTuple

from headgate.app.auth.keys.key import ApiKey, parse_key
from headgate.app.auth.principal import Principal, Unauthenticated

_NO_KEY = "0" * 64
"""Compared in place of a missing key, so that the check takes as long."""

_MARK_LENGTH = 16
"""Characters of the hash of a secret that tell it from others of its key."""

_INVALID = "The API key is not valid."
_EXPIRED = "The API key has expired."


class _Secret(NamedTuple):
    """A secret of a key; it has one principal, so that ending this ends all that it opened."""

    key: str
    sha256: str


class KeyRing:
    """All keys.

    A principal is made when a key is first used, so that taking a file with many keys costs the
    event loop next to nothing.
    """

    def __init__(self, keys: Mapping[str, ApiKey] | None = None) -> None:
        """Make a ring of the keys by their ids; None: there is no keys file."""
        self._keys: Mapping[str, ApiKey] = keys or {}
        self.is_configured = keys is not None  # then requests need a credential
        self._principals: dict[_Secret, Principal] = {}
        self.used_at_ms: dict[str, int] = {}  # by id of the key

    @property
    def keys(self) -> Mapping[str, ApiKey]:
        """Return all keys by their ids."""
        return self._keys

    def verify(self, token: str, now_ms: int) -> Principal:
        """Return the principal of a key: the same object each time.

        Args:
            token: the key, as its owner has it.
            now_ms: unix time.

        Raises:
            Unauthenticated: it is no key, is wrong, was revoked or has expired.
        """
        given = parse_key(token)
        key = None if given is None else self._keys.get(given.id)
        hashes = () if key is None else key.hashes
        digest = _NO_KEY if given is None else sha256(given.secret.encode()).hexdigest()
        matching = [each for each in hashes or (_NO_KEY,) if compare_digest(each, digest)]
        if key is None or not hashes or not matching:
            raise Unauthenticated(_INVALID)
        expires_at_ms = key.expiry_of(matching[0])
        if expires_at_ms is not None and expires_at_ms <= now_ms:
            raise Unauthenticated(_EXPIRED)
        self.used_at_ms[key.id] = now_ms
        return self._principal(key, matching[0])

    def mark_of(self, principal: Principal) -> str | None:
        """Return a mark of a principal's key and secret, without the secret; None: no key."""
        return next(
            (
                f"{secret.key}.{secret.sha256[:_MARK_LENGTH]}"
                for secret, known in self._principals.items()
                if known is principal
            ),
            None,
        )

    def owner_of(self, mark: str, now_ms: int) -> Principal | None:
        """Return the principal with this mark; None if its secret opens nothing any more."""
        key_id, _, beginning = mark.partition(".")
        key = self._keys.get(key_id)
        for each in () if key is None else key.hashes:
            if key is not None and each[:_MARK_LENGTH] == beginning:
                expires_at_ms = key.expiry_of(each)
                if expires_at_ms is None or expires_at_ms > now_ms:
                    return self._principal(key, each)
        return None

    def replace(self, keys: Mapping[str, ApiKey]) -> None:
        """Take the keys of a file that has changed.

        The principal of an unchanged key stays the same object. So does that of a secret that may
        be used for longer or shorter than before. All others end.
        """
        before, self._keys = self._keys, keys
        self.is_configured = True
        for secret, principal in list(self._principals.items()):
            key = keys.get(secret.key)
            if key is before[secret.key]:
                continue
            reason = _ending(secret, before[secret.key], key)
            if key is not None and reason is None:
                principal.expires_at_ms = key.expiry_of(secret.sha256)
            else:
                del self._principals[secret]
                principal.end(reason or "The API key was revoked.")
        for key_id in self.used_at_ms.keys() - keys.keys():
            del self.used_at_ms[key_id]

    def end_expired(self, now_ms: int) -> None:
        """End the principals whose time is over.

        A connection that waits for the end of its principal needs no clock, then. An expiry that
        came later, as that of a secret that was replaced, is noticed as well.
        """
        for secret, principal in list(self._principals.items()):
            if principal.expires_at_ms is not None and principal.expires_at_ms <= now_ms:
                del self._principals[secret]
                principal.end(_EXPIRED)

    def _principal(self, key: ApiKey, sha256_text: str) -> Principal:
        secret = _Secret(key.id, sha256_text)
        principal = self._principals.get(secret)
        if principal is None or principal.ending is not None:
            principal = Principal(
                key.name,
                key.rights(),
                limits=key.limits,
                expires_at_ms=key.expiry_of(sha256_text),
                key=key.id,
            )
            self._principals[secret] = principal
        return principal


def _ending(secret: _Secret, before: ApiKey, key: ApiKey | None) -> str | None:
    """Return why a secret of a key does not open any more what it opened; None: it does."""
    if key is None or key.revoked_at_ms is not None:
        return "The API key was revoked."
    if secret.sha256 not in key.hashes:
        return "The API key was replaced by a new one."
    if (key.name, key.grants, key.limits) != (before.name, before.grants, before.limits):
        return "The API key was changed."
    return None
