"""A key is for the algorithms of its kind; a set has the usable ones, and knows those withdrawn."""

import json
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
from headgate.app.auth.tokens.compact import Algorithm
from headgate.app.auth.tokens.verifying_key import SIZE_BYTES_MAX, KeySetFault, parse_key_set
from tests.unit.app.auth.tokens.issuing import (
    ASYMMETRIC,
    SECRET,
    SYMMETRIC,
    jwk_of,
    key_set_of,
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
    ("secret", "names", "wanted"),
    [
        *((b"x" * size, [], {"HS256"}) for size in (32, 47)),
        *((b"x" * 48, [], {"HS256", "HS384"}), (b"x" * 64, [], set(SYMMETRIC))),
        (SECRET, ["HS384", "RS256"], {"HS384"}),
        *((b"x" * 31, names, "at least") for names in ([], ["HS256"])),
        (b"x" * 47, ["HS384"], "at least"),
        *(
            (b"x" * 63, ["HS256", "HS512"], "at least"),
            (SECRET, ["RS256"], "none of the algorithms of the key"),
        ),
    ],
)
def test_a_secret_is_for_the_algorithms_that_it_is_long_enough_for(
    secret: bytes, names: list[str], wanted: set[str] | str
) -> None:
    if isinstance(wanted, set):
        key = verifying_key.key_of_secret(secret, pinned(*names))
        assert key.algorithms == wanted
        assert secret.decode() not in repr(key)
        return
    with pytest.raises(verifying_key.KeyFault, match=wanted) as refused:
        verifying_key.key_of_secret(secret, pinned(*names))
    assert "xxx" not in str(refused.value)


@pytest.mark.parametrize("algorithm", ASYMMETRIC)
def test_a_public_key_is_for_the_algorithms_of_its_kind(tmp_path: Path, algorithm: str) -> None:
    text, kind = public_pem(private_key(algorithm)), RSA if algorithm in RSA else {algorithm}
    jwk = verifying_key.key_of_jwk(jwk_of(algorithm, "a"))

    assert jwk.algorithms == kind
    assert (jwk.kid, jwk.label) == ("a", "a")
    assert verifying_key.key_of_jwk(jwk_of(algorithm, alg=algorithm)).algorithms == {algorithm}
    assert of_file(tmp_path, text).algorithms == kind
    assert of_file(tmp_path, text, algorithm, "HS256").algorithms == {algorithm}
    with pytest.raises(verifying_key.KeyFault, match="none of the algorithms of the key"):
        of_file(tmp_path, text, "HS256")
    with pytest.raises(verifying_key.KeyFault, match="everybody may know it"):
        verifying_key.key_of_secret(text)


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
        (private_pem, "not the private key"),
        (lambda: public_pem(private_key("ES256")) * 2, "one public key or certificate"),
        (lambda: pem_of(rsa_key(1024).public_key()), "2048 to 8192 bits, not 1024"),
        (lambda: pem_of(ec.generate_private_key(ec.SECP256K1()).public_key()), "its curve is not"),
        (
            lambda: pem_of(ed448.Ed448PrivateKey.generate().public_key()),
            "not a public key of a known",
        ),
        (
            lambda: pem_of(dsa.generate_private_key(2048).public_key()),
            "not a public key of a known",
        ),
    ],
)
def test_a_file_without_a_good_public_key_is_refused(tmp_path: Path, make: Any, text: str) -> None:
    with pytest.raises(verifying_key.KeyFault, match=f"{tmp_path}.*{text}"):
        of_file(tmp_path, make())


OTHERS = [
    *(
        (7, "JSON object"),
        ({}, "not a public key of a known type"),
        ({"kty": "new"}, "not a public key"),
    ),
    *(({"kty": "oct", "k": "AAAA"} | alg, "it is a secret") for alg in ({}, {"alg": "RS256"})),
    ({"kty": "RSA", "n": "AQAB", "e": "AQAB"}, "not a public key|2048"),
    ({"kty": "RSA", "n": 5, "e": "AQAB"}, "not a public key"),
    ({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}, "not a public key"),
    *(
        ({"kty": "EC", "crv": ["P-256"]}, "not a public key"),
        ({"kty": ["RSA"]}, "not a public key"),
    ),
    ({"kty": "OKP", "crv": "X25519", "x": "AAAA"}, "not a public key"),
]
NOT_FOR_THIS: list[tuple[dict[str, Any], str]] = [
    *(({"use": use}, "its `use`") for use in ("enc", None)),
    *(({"key_ops": operations}, "its `key_ops`") for operations in (["sign"], "verify")),
    *(({"alg": alg}, "does not fit") for alg in ("RS256", "ES384", "HS256", "none", "", ["ES256"])),
    *(({"kid": kid}, "a kid must be a text") for kid in (7, "a" * 257)),
    ({"d": "AAAA"}, "it is a private key"),
]


def test_a_key_of_a_set_that_is_none_or_not_for_this_is_refused() -> None:
    made = [(jwk_of("ES256", **more), text) for more, text in NOT_FOR_THIS]
    for jwk, text in [*OTHERS, *made]:
        with pytest.raises(verifying_key.KeyFault, match=text):
            verifying_key.key_of_jwk(jwk)


def test_a_key_that_may_verify_is_taken() -> None:
    key = jwk_of("ES256", use="sig", key_ops=["sign", "verify"], x5c=["A"], more=1)

    assert verifying_key.key_of_jwk(key).algorithms == {"ES256"}
    with pytest.raises(verifying_key.KeyFault, match="none of the algorithms of the key"):
        verifying_key.key_of_jwk(key, pinned("RS256"))


def test_keys_that_cannot_be_used_are_skipped_and_named(caplog: pytest.LogCaptureFixture) -> None:
    keys = parse_key_set(
        key_set_of(
            jwk_of("ES256", "good"),
            {"kty": "oct", "k": "c2VjcmV0", "kid": "secret"},
            jwk_of("ES256", "encrypts", use="enc"),
            jwk_of("ES256", "good", 1),
            {"kty": "future"},
        )
    )

    assert len(keys) == 1
    [record] = caplog.records
    assert record.__dict__["reasons"] == [
        "keys[1]: it is a secret, which must not be in a set of public keys",
        "keys[2]: its `use` is not to verify signatures",
        "keys[3]: an earlier key has the same kid",
        "keys[4]: it is not a public key of a known type",
    ]


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"<html>", b"[]", b"{}", b'{"keys": {}}', b'{"keys": [7]}'),
        *(b'{"keys": [{"kty": "oct", "k": "AAAA"}]}', b'{"keys": [], "keys": []}'),
        *(b'{"keys": ' + b"[" * 100_000, json.dumps({"keys": [{}] * 1001}).encode()),
        b" " * (SIZE_BYTES_MAX + 1),
    ],
)
def test_what_is_no_key_set_is_refused(data: bytes) -> None:
    with pytest.raises(KeySetFault, match="key set"):
        parse_key_set(data)


A, B, R = jwk_of("ES256", "a"), jwk_of("ES256", "b"), jwk_of("RS256", "r")


@pytest.mark.parametrize(
    ("before", "after", "withdrawn"),
    [
        *(([A], [], {"a"}), ([A, B], [B, A], set()), ([A, B], [A, B, R], set())),
        ([A, B], [A, jwk_of("ES256", "b", use="sig", x5t="x")], set()),
        *(([A, B], [A], {"b"}), ([A, B], [A, jwk_of("ES256", "b", 1)], {"b"})),
        ([A, B], [jwk_of("RS256", "a"), jwk_of("ES256", "c")], {"a", "b"}),
        ([R], [jwk_of("RS256", "r", alg="RS256")], {"r"}),  # for fewer algorithms
    ],
    ids=range(8),
)
def test_what_went_is_withdrawn(
    before: list[dict[str, Any]], after: list[dict[str, Any]], withdrawn: set[str]
) -> None:
    keys = parse_key_set(key_set_of(*before))

    assert keys.withdrawn_in(parse_key_set(key_set_of(*after))) == withdrawn


def test_a_key_without_an_id_is_withdrawn_by_its_fingerprint() -> None:
    before = parse_key_set(key_set_of(jwk_of("ES256"), R))
    after = parse_key_set(key_set_of(jwk_of("ES256", number=1), R))

    assert before.withdrawn_in(after) == {before.fitting("ES256")[0].fingerprint}
