"""Issuer: puts together what verifies its tokens, as the settings say."""

from collections.abc import Collection
from pathlib import Path
from secrets import SystemRandom
from typing import NamedTuple

from headgate.app.auth.faults import CredentialFault
from headgate.app.auth.tokens.algorithms import HMAC, Algorithm
from headgate.app.auth.tokens.claims import ClaimRules
from headgate.app.auth.tokens.jwks import Jwks, JwksFile, JwksUrl, OnWithdrawn
from headgate.app.auth.tokens.key_set import KeySetFault
from headgate.app.auth.tokens.verifier import TokenVerifier
from headgate.app.auth.tokens.verifying_key import (
    KeyFault,
    VerifyingKey,
    key_of_file,
    key_of_secret,
)


class IssuerChoices(NamedTuple):
    """The settings of an issuer of tokens; see the settings `jwt_…`."""

    secret: bytes | None = None
    public_key_file: Path | None = None
    jwks: str | None = None  # a URL, or the path of a file
    algorithms: Collection[Algorithm] = ()
    rules: ClaimRules = ClaimRules()


class Issuer(NamedTuple):
    """The verifier of an issuer's tokens, and the source of its keys, if they may change."""

    verifier: TokenVerifier
    jwks: Jwks | None


def open_issuer(choices: IssuerChoices, *, on_withdrawn: OnWithdrawn) -> Issuer | None:
    """Open the verifier of an issuer's tokens; None: there is no issuer. It reads files.

    Args:
        choices: what the operator said.
        on_withdrawn: called with the labels of keys that are no longer good.

    Raises:
        CredentialFault: a key cannot be used, or an algorithm has no key.
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
    """Refuse algorithms without a key, and a key set without algorithms."""
    if has_jwks and pinned and HMAC.issuperset(pinned):
        text = "jwt_algorithms: a key set has public keys, and none of these algorithms is for one"
        raise CredentialFault(text)
    covered = frozenset[Algorithm]().union(*(key.algorithms for key in keys))
    if has_jwks:
        covered |= frozenset(Algorithm) - HMAC
    missing = [algorithm for algorithm in pinned if algorithm not in covered]
    if missing:
        raise CredentialFault(f"jwt_algorithms: there is no key for {missing[0]}")
