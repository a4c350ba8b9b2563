"""Issue tokens for a gateway with PyJWT, signed with HS256, RS256, ES256 or EdDSA.

    openssl genpkey -algorithm ed25519 -out key.pem
    .venv/bin/python examples/tokens/issue.py --alg EdDSA --key key.pem --jwks > jwks.json
    HEADGATE_JWT_JWKS=jwks.json make serve  # in another terminal
    export HEADGATE_TOKEN=$(.venv/bin/python examples/tokens/issue.py --alg EdDSA --key key.pem \
        --sub alice \
        --grants '[{"streams": ["chat.{sub}.*"], "do": ["read", "append"], "create": true}]')
    .venv/bin/headgate append chat.alice.todo text=hello

The key is a PEM file, or a file with the secret for HS256. A gateway that shares the secret takes
it from HEADGATE_JWT_SECRET. It needs the packages pyjwt and cryptography.
"""

import argparse
import base64
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.serialization import load_pem_private_key

ALGORITHMS = ("HS256", "RS256", "ES256", "EdDSA")
TTL_S = 300
# What identifies a key (RFC 7638), in the order of the alphabet.
IDENTIFYING = {"RSA": ("e", "kty", "n"), "EC": ("crv", "kty", "x", "y"), "OKP": ("crv", "kty", "x")}


def public_key(algorithm: str, pem: bytes) -> dict[str, Any]:
    """Return the public key as a member of a JWKS; its id says which key it is."""
    private: Any = load_pem_private_key(pem, password=None)
    jwk: dict[str, Any] = jwt.get_algorithm_by_name(algorithm).to_jwk(
        private.public_key(), as_dict=True
    )
    jwk = {name: value for name, value in jwk.items() if name != "key_ops"}
    members = {name: jwk[name] for name in IDENTIFYING[jwk["kty"]]}
    digest = hashlib.sha256(json.dumps(members, separators=(",", ":")).encode()).digest()
    thumbprint = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return {**jwk, "kid": thumbprint, "alg": algorithm, "use": "sig"}


def issue(algorithm: str, key: bytes, claims: dict[str, Any], *, ttl_s: int = TTL_S) -> str:
    """Return a token with these claims that ends in so many seconds."""
    now_s = int(time.time())
    headers = {} if algorithm == "HS256" else {"kid": public_key(algorithm, key)["kid"]}
    times = {"iat": now_s, "exp": now_s + ttl_s}
    return jwt.encode({**claims, **times}, key, algorithm, headers=headers)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--alg", choices=ALGORITHMS, required=True)
    parser.add_argument("--key", type=Path, required=True, help="PEM file, or file of the secret")
    parser.add_argument("--jwks", action="store_true", help="print the public key as a JWKS")
    parser.add_argument("--sub", help="who the token is for")
    parser.add_argument("--grants", type=json.loads, default=[], help="what it allows, as JSON")
    parser.add_argument("--ttl", type=int, default=TTL_S, help="how long, in seconds")
    parser.add_argument("--aud", help="which gateway it is for (HEADGATE_JWT_AUDIENCE)")
    parser.add_argument("--iss", help="who issues it (HEADGATE_JWT_ISSUER)")
    words = parser.parse_args()
    key = words.key.read_bytes()
    if words.alg == "HS256":
        key = key.strip()
    if words.jwks:
        if words.alg == "HS256":
            sys.exit("Error: a secret has no public key")
        print(json.dumps({"keys": [public_key(words.alg, key)]}))
        return
    named = {"sub": words.sub, "aud": words.aud, "iss": words.iss}
    claims = {name: value for name, value in named.items() if value is not None}
    print(issue(words.alg, key, {**claims, "headgate": words.grants}, ttl_s=words.ttl))


if __name__ == "__main__":
    main()
