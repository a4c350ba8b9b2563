"""A key of a signature with its only algorithms, alone or in a set (RFC 7517).

The kind of a key decides which algorithms it is for. So a public key can never be taken for the
secret of an HS algorithm.
"""

import logging
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate
from jwt.algorithms import HMACAlgorithm

from headgate.app.auth.private_file import CredentialFault
from headgate.app.auth.strict_json import object_of
from headgate.app.auth.tokens.compact import (
    BY_CURVE,
    ED25519,
    HMAC,
    KID_CHARACTERS_MAX,
    RSA,
    RSA_BITS_MAX,
    RSA_BITS_MIN,
    SECRET_BYTES_MIN,
    Algorithm,
)
from headgate.app.runtime.small_file import read_small

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey

_PEM_BYTES_MAX = 64 * 1024


class KeyFault(CredentialFault):
    """A key cannot verify tokens; the text says why, without the key."""


class VerifyingKey(NamedTuple):
    material: bytes | PublicKey
    algorithms: frozenset[Algorithm]
    kid: str | None = None
    label: str | None = None  # names a key of a key set: its kid, or else its fingerprint
    fingerprint: str = ""  # of a public key

    def __repr__(self) -> str:
        """Return the label of the key; its material may be a secret."""
        return f"VerifyingKey({self.label}, {sorted(self.algorithms)})"


def key_of_secret(secret: bytes, pinned: Collection[Algorithm] = ()) -> VerifyingKey:
    """Return the key of a secret shared with the issuer; KeyFault: too short or no secret."""
    try:
        HMACAlgorithm(HMACAlgorithm.SHA256).prepare_key(secret)
    except jwt.InvalidKeyError:
        raise KeyFault(
            "a public key or certificate is not a secret: everybody may know it"
        ) from None
    wanted = HMAC.intersection(pinned)
    for algorithm in sorted(wanted or {Algorithm.HS256}):
        if len(secret) < SECRET_BYTES_MIN[algorithm]:
            size = SECRET_BYTES_MIN[algorithm]
            raise KeyFault(
                f"a secret for {algorithm} must have at least {size} bytes, not {len(secret)}"
            )
    long_enough = {each for each in HMAC if len(secret) >= SECRET_BYTES_MIN[each]}
    return VerifyingKey(secret, _pinned(long_enough, pinned))


def key_of_file(path: Path, pinned: Collection[Algorithm] = ()) -> VerifyingKey:
    """Return the public key of a PEM file or of its certificate; raises KeyFault."""
    try:
        return _key_of_pem(read_small(path, _PEM_BYTES_MAX), pinned)
    except OSError as error:
        raise KeyFault(f"{path}: {error.strerror}") from None
    except KeyFault as error:
        raise KeyFault(f"{path}: {error}") from None


def key_of_jwk(jwk: Any, pinned: Collection[Algorithm] = ()) -> VerifyingKey:
    """Return the key of a member of a key set (RFC 7517); raises KeyFault."""
    if not isinstance(jwk, dict):
        raise KeyFault("a key must be a JSON object")
    kid = jwk.get("kid")
    if kid is not None and not (isinstance(kid, str) and len(kid) <= KID_CHARACTERS_MAX):
        raise KeyFault(f"a kid must be a text of at most {KID_CHARACTERS_MAX} characters")
    _check_purpose(jwk)
    try:
        material = jwt.PyJWK({**jwk, "alg": None}).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, UnsupportedAlgorithm):
        raise KeyFault("it is not a public key of a known type") from None
    key = _public(material, pinned)
    own = jwk.get("alg")
    algorithms = key.algorithms if own is None else key.algorithms & {str(own)}
    if not algorithms:
        raise KeyFault(f"its algorithm {own!r} does not fit the key or is not accepted")
    label = kid or key.fingerprint
    return key._replace(algorithms=algorithms, kid=kid, label=label)


def _check_purpose(jwk: dict[str, Any]) -> None:
    operations = jwk.get("key_ops", ["verify"])
    if jwk.get("kty") == "oct":
        raise KeyFault("it is a secret, which must not be in a set of public keys")
    if "d" in jwk:
        raise KeyFault("it is a private key, which is no longer private")
    if jwk.get("use", "sig") != "sig":
        raise KeyFault("its `use` is not to verify signatures")
    if not isinstance(operations, list) or "verify" not in operations:
        raise KeyFault("its `key_ops` are not to verify signatures")


def _key_of_pem(text: bytes, pinned: Collection[Algorithm]) -> VerifyingKey:
    if b"PRIVATE KEY" in text:
        raise KeyFault("give only the public key, not the private key")
    if text.count(b"-----BEGIN ") != 1:
        raise KeyFault("the file should have one public key or certificate in PEM")
    try:
        is_certificate = b"-----BEGIN CERTIFICATE" in text
        key: object = (
            load_pem_x509_certificate(text).public_key()
            if is_certificate
            else load_pem_public_key(text)
        )
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyFault("the file should have a public key or certificate in PEM") from None
    return _public(key, pinned)


def _public(key: object, pinned: Collection[Algorithm]) -> VerifyingKey:
    if isinstance(key, RSAPublicKey):
        if not RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
            bounds = f"{RSA_BITS_MIN} to {RSA_BITS_MAX} bits"
            raise KeyFault(f"an RSA key must have {bounds}, not {key.key_size}")
        algorithms = RSA
    elif isinstance(key, EllipticCurvePublicKey):
        algorithms = BY_CURVE.get(key.curve.name, frozenset())
    elif isinstance(key, Ed25519PublicKey):
        algorithms = ED25519
    else:
        raise KeyFault("it is not a public key of a known type")
    if not algorithms:
        raise KeyFault("its curve is not P-256, P-384, P-521 or Ed25519")
    data = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    fingerprint = sha256(data).hexdigest()
    return VerifyingKey(key, _pinned(algorithms, pinned), fingerprint=fingerprint)


def _pinned(
    algorithms: Collection[Algorithm], pinned: Collection[Algorithm]
) -> frozenset[Algorithm]:
    """Return a key's algorithms among `pinned` (empty: all); KeyFault if none is left."""
    remaining = frozenset(algorithms).intersection(pinned or algorithms)
    if not remaining:
        raise KeyFault(
            f"none of the algorithms of the key is accepted: {', '.join(sorted(algorithms))}"
        )
    return remaining


log = logging.getLogger("headgate")

SIZE_BYTES_MAX = 2**20
KEYS_MAX = 1000


class KeySetFault(CredentialFault):
    """The text is no key set, or none of its keys can verify tokens."""


class KeySet:
    def __init__(self, keys: Collection[VerifyingKey] = ()) -> None:
        """Take keys whose labels are distinct."""
        self._by_label = {key.label: key for key in keys}

    def __len__(self) -> int:
        return len(self._by_label)

    def with_kid(self, kid: str) -> VerifyingKey | None:
        key = self._by_label.get(kid)
        return key if key is not None and key.kid == kid else None

    def fitting(self, algorithm: str) -> list[VerifyingKey]:
        return [key for key in self._by_label.values() if algorithm in key.algorithms]

    def __getitem__(self, label: str) -> VerifyingKey | None:
        return self._by_label.get(label)

    def withdrawn_in(self, new: "KeySet") -> frozenset[str]:
        """Return the labels of keys that are missing or changed in another version of the set."""
        return frozenset(
            label
            for label, key in self._by_label.items()
            if label is not None and _identity(key) != _identity(new[label])
        )


def parse_key_set(data: bytes, pinned: Collection[Algorithm] = ()) -> KeySet:
    """Return the keys of a JWKS that can verify tokens; the others are logged.

    An empty set is valid: with it, an issuer withdraws all that it has signed. An empty `pinned`
    allows all algorithms that fit the keys. Raises KeySetFault if it is too large, no key set, or
    has no usable key.
    """
    if len(data) > SIZE_BYTES_MAX:
        raise KeySetFault(f"the key set is larger than {SIZE_BYTES_MAX} bytes")
    try:
        members: Any = object_of(data).get("keys")
    except ValueError:
        raise KeySetFault("not a key set: should be a valid JSON object") from None
    if not isinstance(members, list) or len(members) > KEYS_MAX:
        raise KeySetFault(f"a key set must have a member 'keys', a list of at most {KEYS_MAX} keys")
    keys: dict[str | None, VerifyingKey] = {}
    skipped: list[str] = []
    for number, member in enumerate(members):
        try:
            key = key_of_jwk(member, pinned)
        except KeyFault as fault:
            skipped.append(f"keys[{number}]: {fault}")
            continue
        if key.label in keys:
            skipped.append(f"keys[{number}]: an earlier key has the same kid")
        keys.setdefault(key.label, key)
    if skipped and not keys:
        raise KeySetFault(f"the key set has no key that can verify tokens: {skipped[0]}")
    if skipped:
        log.warning("keys of the key set skipped", extra={"reasons": skipped[:10]})
    return KeySet(keys.values())


def _identity(key: VerifyingKey | None) -> object:
    return None if key is None else (key.fingerprint, key.algorithms)
