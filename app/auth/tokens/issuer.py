"""Verify tokens of one issuer, and turn them into principals."""

from collections.abc import Collection, Sequence
from pathlib import Path
from secrets import SystemRandom
from typing import NamedTuple, Protocol

import jwt

from headgate.app.auth.principal import Principal, Unauthenticated
from headgate.app.auth.private_file import CredentialFault
from headgate.app.auth.tokens.compact import (
    HMAC,
    Algorithm,
    ClaimRules,
    Compact,
    Malformed,
    members_of,
    parse_token,
    principal_of,
)
from headgate.app.auth.tokens.jwks import Jwks, JwksFile, JwksUrl, OnWithdrawn
from headgate.app.auth.tokens.verifying_key import (
    KeyFault,
    KeySet,
    KeySetFault,
    VerifyingKey,
    key_of_file,
    key_of_secret,
)
from headgate.app.wire.problems import GatewayError

_INVALID = "The token is not valid."
"""Whatever is wrong before the signature is verified: details would be for attackers only."""

_PUBLIC = frozenset(Algorithm) - HMAC

_JWS = jwt.PyJWS(algorithms=list(Algorithm))


class KeySource(Protocol):
    """The source of an issuer's changing keys, which are fetched outside of requests."""

    @property
    def keys(self) -> KeySet: ...

    @property
    def is_known(self) -> bool: ...

    def ask_for_refresh(self) -> None:
        """Report that a token has an unknown key; the keys are fetched soon if need be."""
        ...


class TokenVerifier:
    """Verifies tokens of an issuer.

    The kind of a key decides by which algorithms it verifies. A token chooses among these keys, and
    cannot bring one.
    """

    def __init__(
        self,
        keys: Sequence[VerifyingKey] = (),
        source: KeySource | None = None,
        rules: ClaimRules = ClaimRules(),  # noqa: B008 it is a value
    ) -> None:
        """Take fixed keys, which have no ids, and a source of changing keys with ids."""
        self._keys = tuple(keys)
        self._source = source
        self._rules = rules

    @property
    def is_configured(self) -> bool:
        return bool(self._keys) or self._source is not None

    def verify(self, token: str, now_ms: int) -> Principal:
        """Return the principal of a token.

        Raises Unauthenticated if it is not valid, with reasons only if the signature is good, and
        GatewayError if the keys were not fetched yet.
        """
        try:
            parts = parse_token(token)
            key = self._key_for(parts)
            payload = b"" if key is None else parts.payload()
            if key is None or not _is_signed(token, parts.algorithm, key):
                self._note_unknown(parts)
                raise Unauthenticated(_INVALID)
            claims = members_of(payload)  # what is not signed is not worth reading: it may be long
        except Malformed:
            raise Unauthenticated(_INVALID) from None
        return principal_of(claims, self._rules, key=key.label, now_ms=now_ms)

    def knows(self, key: str | None) -> bool:
        """Tell whether tokens are verified with a key of this label; None: one without label."""
        if key is None:
            return bool(self._keys)
        return self._source is not None and _known_keys(self._source)[key] is not None

    def _key_for(self, parts: Compact) -> VerifyingKey | None:
        """Return the only key that may have signed a token.

        1. A key that has the id that the token names, if it is for the algorithm.
        2. The fixed key for the algorithm: it has no id, whatever the token names.
        3. Without an id in the token: the key of the source, if only one is for the algorithm.

        Where several would do, none is tried.
        """
        changing = KeySet() if self._source is None else self._source.keys
        named = None if parts.kid is None else changing.with_kid(parts.kid)
        if named is not None:
            return named if parts.algorithm in named.algorithms else None
        candidates = [key for key in self._keys if parts.algorithm in key.algorithms]
        if parts.kid is None:
            candidates += changing.fitting(parts.algorithm)
        return candidates[0] if len(candidates) == 1 else None

    def _note_unknown(self, parts: Compact) -> None:
        """Ask for a refresh if the issuer may have added the token's key; raises GatewayError."""
        if self._source is None or parts.algorithm not in _PUBLIC:
            return
        known = _known_keys(self._source)
        if parts.kid is None or known.with_kid(parts.kid) is None:
            self._source.ask_for_refresh()


def _known_keys(source: KeySource) -> KeySet:
    if not source.is_known:
        raise GatewayError("unavailable", "The keys that verify tokens could not be fetched yet.")
    return source.keys


def _is_signed(token: str, algorithm: str, key: VerifyingKey) -> bool:
    try:
        _JWS.decode(token, key.material, [algorithm])
    except jwt.PyJWTError:
        return False
    return True


class IssuerChoices(NamedTuple):
    secret: bytes | None = None
    public_key_file: Path | None = None
    jwks: str | None = None  # a URL, or the path of a file
    algorithms: Collection[Algorithm] = ()
    rules: ClaimRules = ClaimRules()


class Issuer(NamedTuple):
    verifier: TokenVerifier
    jwks: Jwks | None


def open_issuer(choices: IssuerChoices, *, on_withdrawn: OnWithdrawn) -> Issuer | None:
    """Open the verifier of an issuer's tokens, reading files; None: there is no issuer.

    `on_withdrawn` gets the labels of keys that are no longer valid. Raises CredentialFault if a key
    cannot be used, or an algorithm has no key.
    """
    pinned = choices.algorithms
    keys: list[VerifyingKey] = []
    if choices.secret is not None:
        keys.append(_key_of_secret(choices.secret, pinned))
    if choices.public_key_file is not None:
        keys.append(key_of_file(choices.public_key_file, pinned))
    jwks = None
    if choices.jwks is not None:
        jwks = _open_jwks(choices.jwks, pinned, on_withdrawn)
    _check_algorithms(pinned, keys, has_jwks=jwks is not None)
    if not keys and jwks is None:
        return None
    return Issuer(TokenVerifier(keys, jwks, choices.rules), jwks)


def _key_of_secret(secret: bytes, pinned: Collection[Algorithm]) -> VerifyingKey:
    try:
        return key_of_secret(secret, pinned)
    except KeyFault as fault:  # it has no path that would tell which setting this is
        raise CredentialFault(f"jwt_secret: {fault}") from None


def _open_jwks(place: str, pinned: Collection[Algorithm], on_withdrawn: OnWithdrawn) -> Jwks:
    if "://" in place:
        # Only who fetches needs httpx, with all that it imports.
        from headgate.app.auth.tokens.fetching import Fetcher, shown  # noqa: PLC0415

        try:
            fetch = Fetcher(place)
        except KeySetFault as fault:
            raise CredentialFault(f"jwt_jwks: {fault}") from None
        jitter = SystemRandom().random
        return JwksUrl(shown(place), fetch, pinned, on_withdrawn, jitter=jitter)
    return JwksFile(Path(place), pinned, on_withdrawn)


def _check_algorithms(
    pinned: Collection[Algorithm], keys: Collection[VerifyingKey], *, has_jwks: bool
) -> None:
    if has_jwks and pinned and HMAC.issuperset(pinned):
        text = "jwt_algorithms: a key set has public keys, but none of these algorithms uses one"
        raise CredentialFault(text)
    covered = frozenset[Algorithm]().union(*(key.algorithms for key in keys))
    if has_jwks:
        covered |= frozenset(Algorithm) - HMAC
    missing = [algorithm for algorithm in pinned if algorithm not in covered]
    if missing:
        raise CredentialFault(f"jwt_algorithms: there is no key for {missing[0]}")
