"""The settings of an issuer fit together, or stop the start."""

from pathlib import Path
from typing import Any

import pytest

from headgate.app.auth.faults import CredentialFault
from headgate.app.auth.tokens.algorithms import Algorithm
from headgate.app.auth.tokens.issuer import Issuer, IssuerChoices, open_issuer
from tests.unit.app.auth.tokens.issuing import (
    NOW_MS,
    SECRET,
    jwk_of,
    key_set_of,
    private_key,
    public_pem,
    sign,
)


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    path = tmp_path / "key.pem"
    path.write_bytes(public_pem(private_key("ES256")))
    return path


@pytest.fixture
def jwks(tmp_path: Path) -> Path:
    path = tmp_path / "jwks.json"
    path.write_bytes(key_set_of(jwk_of("RS256", "r")))
    return path


def opened(*algorithms: str, **choices: Any) -> Issuer | None:
    names = [Algorithm(name) for name in algorithms]
    return open_issuer(IssuerChoices(algorithms=names, **choices), on_withdrawn=lambda _: None)


def test_all_sources_may_be_used_at_once(pem: Path, jwks: Path) -> None:
    issuer = opened(secret=SECRET, public_key_file=pem, jwks=str(jwks))

    assert issuer is not None
    tokens = sign("HS256"), sign("ES256"), sign("RS256", header={"kid": "r"})
    assert [issuer.verifier.verify(token, NOW_MS).key for token in tokens] == [None, None, "r"]


def test_without_a_key_there_are_no_tokens() -> None:
    assert opened() is None


def test_a_url_is_not_fetched_at_the_start() -> None:
    issuer = opened(jwks="https://issuer.example/keys?token=s3cret")

    assert issuer is not None
    assert issuer.jwks is not None
    assert not issuer.jwks.is_known
    assert issuer.jwks.warning == "https://issuer.example/keys: the keys are not fetched yet"
    with pytest.raises(CredentialFault, match=r"jwt_jwks: http://10\.0\.0\.1 is not") as refused:
        opened(jwks="http://10.0.0.1/keys?token=s3cret")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("names", [["HS256"], ["ES256"], ["RS256"], ["HS256", "ES256", "RS256"]])
def test_an_algorithm_without_a_key_stops_the_start(names: list[str]) -> None:
    with pytest.raises(CredentialFault, match="jwt_algorithms: there is no key for"):
        opened(*names)


def test_algorithms_that_do_not_fit_a_key_stop_the_start(pem: Path, jwks: Path) -> None:
    for names in ["HS256"], ["RS256"], ["ES384"]:
        with pytest.raises(CredentialFault, match="have none of the key"):
            opened(*names, public_key_file=pem)
    with pytest.raises(CredentialFault, match="jwt_algorithms: there is no key for RS256"):
        opened("ES256", "RS256", public_key_file=pem)
    with pytest.raises(CredentialFault, match="have none of the key"):
        opened("ES256", secret=SECRET, public_key_file=pem)
    with pytest.raises(CredentialFault, match="have none of the key"):
        opened("ES256", jwks=str(jwks))
    with pytest.raises(CredentialFault, match="none of these algorithms is for one"):
        opened("HS256", secret=SECRET, jwks="https://issuer.example/keys")


def test_a_public_key_as_secret_stops_the_start(pem: Path) -> None:
    with pytest.raises(CredentialFault, match=r"jwt_secret: .* everybody may know it"):
        opened(secret=pem.read_bytes())
