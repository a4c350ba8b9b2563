"""The settings of an issuer fit together, or stop the start; the page signs a token as it says."""

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from headgate.app.auth.faults import CredentialFault
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.app.auth.tokens.algorithms import Algorithm
from headgate.app.auth.tokens.claims import ClaimRules
from headgate.app.auth.tokens.issuer import Issuer, IssuerChoices, open_issuer
from headgate.app.auth.tokens.verifier import TokenVerifier
from headgate.app.auth.tokens.verifying_key import key_of_file
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


def test_a_url_is_not_fetched_at_the_start() -> None:
    issuer = opened(jwks="https://issuer.example/keys?token=s3cret")

    assert issuer is not None
    assert issuer.jwks is not None
    assert not issuer.jwks.is_known
    assert issuer.jwks.warning == "https://issuer.example/keys: the keys are not fetched yet"
    with pytest.raises(CredentialFault, match=r"jwt_jwks: http://10\.0\.0\.1 is not") as refused:
        opened(jwks="http://10.0.0.1/keys?token=s3cret")
    assert "s3cret" not in str(refused.value)


def test_algorithms_that_do_not_fit_a_key_stop_the_start(pem: Path, jwks: Path) -> None:
    no_key, none_fits = "jwt_algorithms: there is no key for", "have none of the key"
    cases: list[tuple[list[str], dict[str, Any], str]] = [
        *((names, {}, no_key) for names in (["HS256"], ["ES256"], ["HS256", "ES256", "RS256"])),
        *(([name], {"public_key_file": pem}, none_fits) for name in ("HS256", "RS256", "ES384")),
        (["ES256", "RS256"], {"public_key_file": pem}, f"{no_key} RS256"),
        (["ES256"], {"secret": SECRET, "public_key_file": pem}, none_fits),
        (["ES256"], {"jwks": str(jwks)}, none_fits),
        (["HS256"], {"secret": SECRET, "jwks": "https://a.example/"}, "none of these algorithms"),
        ([], {"secret": pem.read_bytes()}, r"jwt_secret: .* everybody may know it"),
    ]
    for names, choices, text in cases:
        with pytest.raises(CredentialFault, match=text):
            opened(*names, **choices)
    assert opened() is None


PAGE = Path(__file__).parents[5] / "app" / "SECURITY.md"
_PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_token_of_the_page_opens_what_it_says(tmp_path: Path) -> None:
    private = private_key("ES256")
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (tmp_path / "private.pem").write_bytes(pem)
    (tmp_path / "public.pem").write_bytes(public_pem(private))
    [program] = (text for text in _PROGRAM.findall(PAGE.read_text("utf-8")) if "jwt" in text)

    words = [sys.executable, "-c", program]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)

    keys = [key_of_file(tmp_path / "public.pem")]
    verifier = TokenVerifier(keys, rules=ClaimRules(audience="headgate"))
    principal = verifier.verify(ended.stdout.strip(), int(time.time() * 1000))
    assert principal.may_create(b"chat.ann.1")
    assert principal.may(Need((Verb.CONSUME,), b"jobs", b"workers", b"ann"))
    assert not principal.may(Need((Verb.CONSUME,), b"jobs", b"workers", b"bob"))
