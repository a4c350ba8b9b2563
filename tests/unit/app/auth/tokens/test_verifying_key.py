"""A key is for the algorithms of its kind, and a weak or misplaced one stops the start."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from headgate.app.auth.tokens import verifying_key
from headgate.app.auth.tokens.algorithms import Algorithm
from tests.unit.app.auth.tokens.issuing import (
    ASYMMETRIC,
    SECRET,
    SYMMETRIC,
    jwk_of,
    private_key,
    public_pem,
    rsa_key,
)

RSA = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}


def pinned(*names: str) -> list[Algorithm]:
    return [Algorithm(name) for name in names]


def of_file(tmp_path: Path, text: bytes, *names: str) -> verifying_key.VerifyingKey:
    path = tmp_path / "key.pem"
    path.write_bytes(text)
    return verifying_key.key_of_file(path, pinned(*names))


@pytest.mark.parametrize(
    ("size", "names"),
    [(32, {"HS256"}), (47, {"HS256"}), (48, {"HS256", "HS384"}), (64, set(SYMMETRIC))],
)
def test_a_secret_is_for_the_algorithms_that_it_is_long_enough_for(
    size: int, names: set[str]
) -> None:
    assert verifying_key.key_of_secret(b"x" * size).algorithms == names


@pytest.mark.parametrize(
    ("size", "names"), [(31, []), (31, ["HS256"]), (47, ["HS384"]), (63, ["HS256", "HS512"])]
)
def test_a_secret_that_is_too_short_is_refused(size: int, names: list[str]) -> None:
    with pytest.raises(verifying_key.KeyFault, match="bytes or more") as refused:
        verifying_key.key_of_secret(b"x" * size, pinned(*names))
    assert "xxx" not in str(refused.value)


def test_a_secret_is_for_no_other_algorithm() -> None:
    assert verifying_key.key_of_secret(SECRET, pinned("HS384", "RS256")).algorithms == {"HS384"}
    with pytest.raises(verifying_key.KeyFault, match="none of the key"):
        verifying_key.key_of_secret(SECRET, pinned("RS256"))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_public_key_is_no_secret(algorithm: str) -> None:
    with pytest.raises(verifying_key.KeyFault, match="everybody may know it"):
        verifying_key.key_of_secret(public_pem(private_key(algorithm)))


@pytest.mark.parametrize("algorithm", ASYMMETRIC)
def test_a_public_key_is_for_the_algorithms_of_its_kind(tmp_path: Path, algorithm: str) -> None:
    text = public_pem(private_key(algorithm))

    key = of_file(tmp_path, text)

    assert key.algorithms == (RSA if algorithm in RSA else {algorithm})
    assert of_file(tmp_path, text, algorithm, "HS256").algorithms == {algorithm}
    with pytest.raises(verifying_key.KeyFault, match="none of the key"):
        of_file(tmp_path, text, "HS256")


def test_the_key_of_a_certificate_is_taken(tmp_path: Path) -> None:
    key = private_key("ES256")
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "issuer")])
    start = datetime(2026, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, start, start.replace(year=2027))
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.PEM)
    )

    assert of_file(tmp_path, certificate) == of_file(tmp_path, public_pem(key))


def private_pem() -> bytes:
    private = private_key("ES256")
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def pem_of(public: Any) -> bytes:
    text: bytes = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return text


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: b"", "one public key or certificate"),
        (lambda: b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "should have a"),
        (lambda: b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "should have a"),
        (private_pem, "a private key has no place here"),
        (lambda: public_pem(private_key("ES256")) * 2, "one public key or certificate"),
        (lambda: pem_of(rsa_key(1024).public_key()), "2048 to 8192 bits, not 1024"),
        (lambda: pem_of(ec.generate_private_key(ec.SECP256K1()).public_key()), "its curve is not"),
        (lambda: pem_of(ed448.Ed448PrivateKey.generate().public_key()), "no public key that we"),
        (lambda: pem_of(dsa.generate_private_key(2048).public_key()), "no public key that we"),
    ],
)
def test_a_file_without_a_good_public_key_is_refused(tmp_path: Path, make: Any, text: str) -> None:
    with pytest.raises(verifying_key.KeyFault, match=text) as refused:
        of_file(tmp_path, make())
    assert str(refused.value).startswith(str(tmp_path))


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(verifying_key.KeyFault, match=r"none\.pem: No such file"):
        verifying_key.key_of_file(tmp_path / "none.pem")


@pytest.mark.parametrize("algorithm", ASYMMETRIC)
def test_a_key_of_a_set_is_for_the_algorithms_of_its_kind(algorithm: str) -> None:
    key = verifying_key.key_of_jwk(jwk_of(algorithm, "a"))

    assert key.algorithms == (RSA if algorithm in RSA else {algorithm})
    assert (key.kid, key.label) == ("a", "a")
    assert verifying_key.key_of_jwk(jwk_of(algorithm, "a", alg=algorithm)).algorithms == {algorithm}


@pytest.mark.parametrize(
    ("jwk", "text"),
    [
        (7, "JSON object"),
        ({}, "no public key that we know"),
        ({"kty": "oct", "k": "AAAA"}, "it is a secret"),
        ({"kty": "oct", "k": "AAAA", "alg": "RS256"}, "it is a secret"),
        ({"kty": "RSA", "n": "AQAB", "e": "AQAB"}, "no public key|2048"),
        ({"kty": "RSA", "n": 5, "e": "AQAB"}, "no public key"),
        ({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}, "no public key"),
        ({"kty": "EC", "crv": ["P-256"]}, "no public key"),
        ({"kty": "OKP", "crv": "X25519", "x": "AAAA"}, "no public key"),
        ({"kty": ["RSA"]}, "no public key"),
        ({"kty": "new"}, "no public key"),
    ],
)
def test_what_is_no_public_key_is_refused(jwk: Any, text: str) -> None:
    with pytest.raises(verifying_key.KeyFault, match=text):
        verifying_key.key_of_jwk(jwk)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        *(({"use": "enc"}, "its use"), ({"use": None}, "its use")),
        *(({"key_ops": ["sign"]}, "its operations"), ({"key_ops": "verify"}, "its operations")),
        *(({"alg": "RS256"}, "does not fit"), ({"alg": "ES384"}, "does not fit")),
        *(({"alg": "HS256"}, "does not fit"), ({"alg": "none"}, "does not fit")),
        *(({"alg": ""}, "does not fit"), ({"alg": ["ES256"]}, "does not fit")),
        *(({"kid": 7}, "a kid is a text"), ({"kid": "a" * 257}, "a kid is a text")),
        ({"d": "AAAA"}, "it is a private key"),
    ],
)
def test_a_key_that_is_not_for_this_is_refused(more: dict[str, Any], text: str) -> None:
    with pytest.raises(verifying_key.KeyFault, match=text):
        verifying_key.key_of_jwk(jwk_of("ES256", **more))


def test_a_key_that_may_verify_is_taken() -> None:
    key = jwk_of("ES256", use="sig", key_ops=["sign", "verify"], x5c=["A"], more=1)

    assert verifying_key.key_of_jwk(key).algorithms == {"ES256"}
    with pytest.raises(verifying_key.KeyFault, match="none of the key"):
        verifying_key.key_of_jwk(key, pinned("RS256"))


def test_a_secret_does_not_stand_in_a_repr() -> None:
    assert SECRET.decode() not in repr(verifying_key.key_of_secret(SECRET))
