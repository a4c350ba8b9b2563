"""Algorithms: how a token may be signed. The configuration pins them, never a token."""

from enum import StrEnum


class Algorithm(StrEnum):
    """The algorithm of a token's signature (RFC 7518, RFC 8037)."""

    HS256 = "HS256"
    HS384 = "HS384"
    HS512 = "HS512"
    RS256 = "RS256"
    RS384 = "RS384"
    RS512 = "RS512"
    PS256 = "PS256"
    PS384 = "PS384"
    PS512 = "PS512"
    ES256 = "ES256"
    ES384 = "ES384"
    ES512 = "ES512"
    EDDSA = "EdDSA"


RSA = frozenset(algorithm for algorithm in Algorithm if algorithm.startswith(("RS", "PS")))
HMAC = frozenset(algorithm for algorithm in Algorithm if algorithm.startswith("HS"))
BY_CURVE = {
    "secp256r1": frozenset({Algorithm.ES256}),
    "secp384r1": frozenset({Algorithm.ES384}),
    "secp521r1": frozenset({Algorithm.ES512}),
}
ED25519 = frozenset({Algorithm.EDDSA})

SECRET_BYTES_MIN = {Algorithm.HS256: 32, Algorithm.HS384: 48, Algorithm.HS512: 64}
"""A secret is as long as the hash, or longer (RFC 7518, 3.2)."""

RSA_BITS_MIN = 2048
RSA_BITS_MAX = 8192
"""A larger key would make each forged token expensive."""
