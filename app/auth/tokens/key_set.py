"""Key set: the public keys of an issuer (JWKS), by their ids."""

import logging
from collections.abc import Collection
from typing import Any

from headgate.app.auth.faults import CredentialFault
from headgate.app.auth.tokens.algorithms import Algorithm
from headgate.app.auth.tokens.strict_json import object_of
from headgate.app.auth.tokens.verifying_key import KeyFault, VerifyingKey, key_of_jwk

log = logging.getLogger("headgate")

SIZE_BYTES_MAX = 2**20
KEYS_MAX = 1000


class KeySetFault(CredentialFault):
    """The text is no key set, or none of its keys can verify tokens."""


class KeySet:
    """Keys of one version of a set."""

    def __init__(self, keys: Collection[VerifyingKey] = ()) -> None:
        """Keep keys, of which no two have the same label."""
        self._by_label = {key.label: key for key in keys}

    def __len__(self) -> int:
        """Return how many keys there are."""
        return len(self._by_label)

    def with_kid(self, kid: str) -> VerifyingKey | None:
        """Return the key of this id; None if there is none."""
        key = self._by_label.get(kid)
        return key if key is not None and key.kid == kid else None

    def fitting(self, algorithm: str) -> list[VerifyingKey]:
        """Return all keys for an algorithm."""
        return [key for key in self._by_label.values() if algorithm in key.algorithms]

    def __getitem__(self, label: str) -> VerifyingKey | None:
        """Return the key of this label; None if there is none."""
        return self._by_label.get(label)

    def withdrawn_in(self, new: "KeySet") -> frozenset[str]:
        """Return the labels of keys that another version of the set has not, or has changed."""
        return frozenset(
            label
            for label, key in self._by_label.items()
            if label is not None and _identity(key) != _identity(new[label])
        )


def parse_key_set(data: bytes, pinned: Collection[Algorithm] = ()) -> KeySet:
    """Return the keys of a JWKS that can verify tokens; the others are named in the log.

    An empty set is good: so an issuer withdraws all that it has signed.

    Args:
        data: the JSON.
        pinned: the only algorithms to accept; all that fit the keys if empty.

    Raises:
        KeySetFault: it is too large, is no key set, or none of its keys is good.
    """
    if len(data) > SIZE_BYTES_MAX:
        raise KeySetFault(f"the key set is larger than {SIZE_BYTES_MAX} bytes")
    try:
        members: Any = object_of(data).get("keys")
    except ValueError:
        raise KeySetFault("this is no key set: it is no JSON object, or not a sound one") from None
    if not isinstance(members, list) or len(members) > KEYS_MAX:
        raise KeySetFault(f"a key set has a member 'keys', a list of up to {KEYS_MAX}")
    keys: dict[str | None, VerifyingKey] = {}
    skipped: list[str] = []
    for number, member in enumerate(members):
        try:
            key = key_of_jwk(member, pinned)
        except KeyFault as fault:
            skipped.append(f"keys[{number}]: {fault}")
            continue
        if key.label in keys:
            skipped.append(f"keys[{number}]: a key before it has the same kid")
        keys.setdefault(key.label, key)
    if skipped and not keys:
        raise KeySetFault(f"the key set has no key that can verify tokens: {skipped[0]}")
    if skipped:
        log.warning("keys of the key set skipped", extra={"reasons": skipped[:10]})
    return KeySet(keys.values())


def _identity(key: VerifyingKey | None) -> object:
    return None if key is None else (key.fingerprint, key.algorithms)
