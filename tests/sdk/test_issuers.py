"""PyJWT and jose issue tokens, as the examples use them: the gateway takes these, and no others."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pydantic import SecretStr

from headgate.app.settings import Settings
from tests.api.conftest import running
from tests.sdk.workshop import ROOT, node_modules, npm_tool, output_of, tool

TOKENS = ROOT / "examples" / "tokens"
SECRET = "a secret of the issuer and the gateway, 48 bytes"
GRANTS = [{"streams": ["chat.{sub}.*"], "do": ["read", "append"], "create": True}]
SIGNED = ("RS256", "ES256", "EdDSA")


class Issuer:
    """An example, as a command, and the keys it signs with."""

    def __init__(self, folder: Path, *command: str) -> None:
        self._folder = folder
        self._command = command

    async def token(self, algorithm: str, *words: str, sub: str = "alice") -> str:
        return await self._output(algorithm, "--sub", sub, "--grants", json.dumps(GRANTS), *words)

    async def jwks(self) -> dict[str, list[dict[str, str]]]:
        """Return the public keys of all algorithms."""
        sets = [json.loads(await self._output(algorithm, "--jwks")) for algorithm in SIGNED]
        return {"keys": [key for each in sets for key in each["keys"]]}

    async def _output(self, algorithm: str, *words: str) -> str:
        key = self._folder / f"{algorithm}.key"
        words = ("--alg", algorithm, "--key", str(key), *words)
        return (await output_of(*self._command, *words, folder=self._folder)).strip()


@pytest.fixture
async def issuers(tmp_path: Path) -> dict[str, Issuer]:
    """Return both examples, the second one compiled, with the same keys."""
    private: dict[str, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | Ed25519PrivateKey] = {
        "RS256": rsa.generate_private_key(65537, 2048),
        "ES256": ec.generate_private_key(ec.SECP256R1()),
        "EdDSA": Ed25519PrivateKey.generate(),
    }
    for algorithm, key in private.items():
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (tmp_path / f"{algorithm}.key").write_bytes(pem)
    (tmp_path / "HS256.key").write_text(f"{SECRET}\n")
    for name in ("issue.ts", "package.json", "tsconfig.json"):
        shutil.copy(TOKENS / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(node_modules())
    await output_of(npm_tool("tsc"), "--project", ".", folder=tmp_path)
    return {
        "PyJWT": Issuer(tmp_path, sys.executable, str(TOKENS / "issue.py")),
        "jose": Issuer(tmp_path, tool("node"), "issue.js"),
    }


async def test_what_both_issue_is_taken_and_nothing_else(
    issuers: dict[str, Issuer], tmp_path: Path
) -> None:
    sets = {name: await issuer.jwks() for name, issuer in issuers.items()}
    assert sets["PyJWT"] == sets["jose"], "the same keys, under the same ids"
    (tmp_path / "jwks.json").write_text(json.dumps(sets["jose"]))
    settings = Settings(
        jwt_jwks=str(tmp_path / "jwks.json"),
        jwt_secret=SecretStr(SECRET),
        jwt_audience="chat",
        jwt_issuer="https://issuer.example",
    )
    right = ("--aud", "chat", "--iss", "https://issuer.example")
    async with running(settings) as live:

        async def status(token: str, stream: str = "chat.alice.1") -> int:
            answer = await live.http.post(
                f"/v1/streams/{stream}/entries",
                json={"fields": {"text": "hello"}},
                headers={"Authorization": f"Bearer {token}"},
            )
            return answer.status_code

        for name, issuer in issuers.items():
            for algorithm in ("HS256", *SIGNED):
                token = await issuer.token(algorithm, *right)
                assert await status(token) == 201, (name, algorithm)
                assert await status(token, "chat.bob.1") == 403, (name, algorithm)
                assert await status(f"{token[:-8]}AAAAAAAA") == 401, (name, algorithm)
            assert await status(await issuer.token("ES256")) == 401
            assert await status(await issuer.token("ES256", *right[:2])) == 401
            assert await status(await issuer.token("ES256", *right, "--ttl=-1")) == 401
            assert await status(await issuer.token("ES256", *right, sub="alice*")) in (401, 403)
