"""An issuer of tokens for tests: PyJWT signs the good ones, and we forge the bad ones."""

import json
from base64 import urlsafe_b64encode
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

NOW_S = 1_800_000_000
NOW_MS = NOW_S * 1000
SECRET = b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
READ_NEWS = [{"streams": ["news.{sub}"], "do": ["read"]}]

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

_CURVES: dict[str, ec.EllipticCurve] = {
    "ES256": ec.SECP256R1(),
    "ES384": ec.SECP384R1(),
    "ES512": ec.SECP521R1(),
}

ASYMMETRIC = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", *_CURVES, "EdDSA"]
SYMMETRIC = ["HS256", "HS384", "HS512"]


def private_key(algorithm: str, number: int = 0) -> PrivateKey:
    """Return the key of an algorithm, or another one of that kind; the same each time."""
    return _made_key(algorithm, number)


@cache
def _made_key(algorithm: str, number: int) -> PrivateKey:
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm in _CURVES:
        return ec.generate_private_key(_CURVES[algorithm])
    return rsa_key(2048, number)


@cache
def rsa_key(size: int, number: int = 0) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, size)


def public_pem(key: PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def jwk_of(algorithm: str, kid: str | None = None, number: int = 0, **more: Any) -> dict[str, Any]:
    public: Any = private_key(algorithm, number).public_key()
    encoder: Any = jwt.get_algorithm_by_name(algorithm)
    jwk = json.loads(encoder.to_jwk(public))
    return {**jwk, **({} if kid is None else {"kid": kid}), **more}


def key_set_of(*jwks: dict[str, Any]) -> bytes:
    return json.dumps({"keys": jwks}).encode()


def claims(**changes: Any) -> dict[str, Any]:
    """Return the claims of a good token; None leaves one out."""
    given = {"sub": "ann", "exp": NOW_S + 60, "headgate": READ_NEWS, **changes}
    return {name: value for name, value in given.items() if value is not None}


def sign(
    algorithm: str,
    *,
    number: int = 0,
    key: Any = None,
    header: dict[str, Any] | None = None,
    **changes: Any,
) -> str:
    """Return a token that PyJWT has signed."""
    if key is None:
        key = SECRET if algorithm in SYMMETRIC else private_key(algorithm, number)
    return jwt.encode(claims(**changes), key, algorithm, headers=header)


def sign_text(algorithm: str, header: bytes | str, payload: bytes | str) -> str:
    """Return a token with a good signature over what need not be a header and claims."""
    key: Any = SECRET if algorithm in SYMMETRIC else private_key(algorithm)
    signer: Any = jwt.get_algorithm_by_name(algorithm)
    signing_input = f"{encoded(header)}.{encoded(payload)}"
    signature = signer.sign(signing_input.encode(), signer.prepare_key(key))
    return f"{signing_input}.{encoded(signature)}"


def encoded(part: bytes | str) -> str:
    data = part.encode() if isinstance(part, str) else part
    return urlsafe_b64encode(data).rstrip(b"=").decode()
