"""The program that signs a token, as SECURITY.md shows it, signs one that the gateway takes."""

import re
import subprocess
import sys
import time
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.app.auth.tokens.claims import ClaimRules
from headgate.app.auth.tokens.verifier import TokenVerifier
from headgate.app.auth.tokens.verifying_key import key_of_file
from tests.unit.app.auth.tokens.issuing import private_key, public_pem

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
