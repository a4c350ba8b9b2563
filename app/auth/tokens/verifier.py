"""Verifier: makes a principal of a token, if its signature is that of a key we know."""

from collections.abc import Sequence
from typing import Protocol

import jwt

from headgate.app.auth.principal import Principal, Unauthenticated
from headgate.app.auth.tokens.algorithms import HMAC, Algorithm
from headgate.app.auth.tokens.claims import ClaimRules, principal_of
from headgate.app.auth.tokens.compact import Compact, Malformed, members_of, parse_token
from headgate.app.auth.tokens.key_set import KeySet
from headgate.app.auth.tokens.verifying_key import VerifyingKey
from headgate.app.wire.problems import GatewayError

_INVALID = "The token is not valid."
"""Whatever is wrong before the signature is verified: details would be for attackers only."""

_PUBLIC = frozenset(Algorithm) - HMAC

_JWS = jwt.PyJWS(algorithms=list(Algorithm))


class KeySource(Protocol):
    """The source of an issuer's keys. They change, and are fetched beside the requests."""

    @property
    def keys(self) -> KeySet:
        """Return the present keys."""
        ...

    @property
    def is_known(self) -> bool:
        """Tell whether the keys were ever fetched."""
        ...

    def ask_for_refresh(self) -> None:
        """Say that a token has a key that is unknown. The keys are fetched soon, if need be."""
        ...


class TokenVerifier:
    """Verifies tokens of an issuer.

    Each key knows by which algorithms it verifies, and these depend on its kind. A token chooses
    among these keys, and it cannot bring one.
    """

    def __init__(
        self,
        keys: Sequence[VerifyingKey] = (),
        source: KeySource | None = None,
        rules: ClaimRules = ClaimRules(),  # noqa: B008 it is a value
    ) -> None:
        """Verify by these keys.

        Args:
            keys: that do not change: a secret, a public key. They have no ids.
            source: keys that may change, with ids.
            rules: what a token must say.
        """
        self._keys = tuple(keys)
        self._source = source
        self._rules = rules

    @property
    def is_configured(self) -> bool:
        """Tell whether there may be tokens at all."""
        return bool(self._keys) or self._source is not None

    def verify(self, token: str, now_ms: int) -> Principal:
        """Return the principal of a token.

        Args:
            token: as its bearer has it.
            now_ms: unix time.

        Raises:
            Unauthenticated: it is not valid. There are reasons for a token whose signature is good.
            GatewayError: nobody can say yet, as the keys were not fetched.
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
        """Tell whether tokens are verified with a key of this label; None: one without a label.

        Raises:
            GatewayError: there are no keys of the issuer yet.
        """
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
        """Ask for a refresh if the token may be of a key that the issuer has made meanwhile.

        Raises:
            GatewayError: there are no keys of the issuer yet.
        """
        if self._source is None or parts.algorithm not in _PUBLIC:
            return
        known = _known_keys(self._source)
        if parts.kid is None or known.with_kid(parts.kid) is None:
            self._source.ask_for_refresh()


def _known_keys(source: KeySource) -> KeySet:
    if not source.is_known:
        raise GatewayError("unavailable", "The keys that verify tokens were not fetched yet.")
    return source.keys


def _is_signed(token: str, algorithm: str, key: VerifyingKey) -> bool:
    try:
        _JWS.decode(token, key.material, [algorithm])
    except jwt.PyJWTError:
        return False
    return True
