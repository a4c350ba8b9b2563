"""Files of credentials that are replaced: whatever is wrong with a new one, the last one stays."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from headgate.app.auth.key_ring import KeyWatch
from headgate.app.auth.private_file import WatchedFile
from headgate.app.auth.tokens.issuer import IssuerChoices, open_issuer
from headgate.app.auth.tokens.jwks import JwksFile
from headgate.app.auth.tokens.verifying_key import KeyFault, key_of_file
from tests.failures import each_failure
from tests.spoiled_files import make_folder, make_loop, make_pipe, remove, write_gigabyte

SECRETS = {"old": "0" * 64, "new": "1" * 64}


def keys_text(name: str) -> bytes:
    key: dict[str, Any] = {"id": name, "name": name, "sha256": SECRETS[name], "created_at_ms": 1}
    return json.dumps({"version": 1, "keys": [key | {"grants": []}]}).encode()


def jwks_text(name: str) -> bytes:
    public = ed25519.Ed25519PrivateKey.generate().public_key()
    key = json.loads(jwt.algorithms.OKPAlgorithm.to_jwk(public)) | {"kid": name}
    return json.dumps({"keys": [key]}).encode()


class KeysFile:
    """A file of API keys."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(keys_text("old"))
        watch = KeyWatch(path, data_dir=None, now_ms=lambda: 2)
        watch.load()
        self.file, self.watch, self.new = watch._file, watch, keys_text("new")

    def holds(self, name: str) -> bool:
        return name in self.watch.ring.keys


class JwksOfFile:
    """A key set of an issuer, in a file."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(jwks_text("old"))
        jwks = JwksFile(path, (), lambda _: None)
        self.file, self.jwks, self.new = jwks._file, jwks, jwks_text("new")

    def holds(self, name: str) -> bool:
        return self.jwks.keys.with_kid(name) is not None


def write_half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


TEXTS = {
    "binary": bytes(range(256)) * 10,
    "nothing": b"",
    "another encoding": "{}".encode("utf-16"),
    "deep": b"[" * 500_000,
    "deep objects": b'{"keys":' * 100_000,
    "a long number": b'{"version": 1' + b"0" * 10_000 + b', "keys": []}',
    "no object": b"[1]",
    "null": b'{"version": 1, "keys": [null]}',
    "no keys": b'{"version": 1, "keys": {}}',
    "a key that is no key": b'{"version": 1, "keys": [{"kty": "OKP", "crv": [], "x": {}}]}',
}


def writing(text: bytes) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        file.write_bytes(text)

    return write


SPOILING: dict[str, Callable[[Path], None]] = {
    each.__name__: each for each in (remove, make_folder, make_pipe, make_loop)
}
SPOILING |= {each.__name__: each for each in (write_half, write_gigabyte)}
SPOILING |= {name: writing(text) for name, text in TEXTS.items()}


def replace(path: Path, text: bytes) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    path.write_bytes(text)


@pytest.mark.parametrize("spoil", SPOILING.values(), ids=SPOILING)
@pytest.mark.parametrize("kind", [KeysFile, JwksOfFile])
async def test_the_last_good_file_stays(
    tmp_path: Path,
    kind: type[KeysFile | JwksOfFile],
    spoil: Callable[[Path], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "file"
    opened = kind(path)
    caplog.clear()

    spoil(path)
    for _ in range(3):
        await opened.file.look()
    assert opened.holds("old")
    assert opened.file.warning is not None
    assert str(path) in opened.file.warning
    assert [line.levelname for line in caplog.records if line.levelname != "INFO"] == ["ERROR"]

    replace(path, opened.new)
    await opened.file.look()
    assert (opened.holds("old"), opened.holds("new")) == (False, True)
    assert opened.file.warning is None


@each_failure
@pytest.mark.parametrize("where", ["read", "take"])
async def test_a_file_is_taken_later(tmp_path: Path, failure: Exception, where: str) -> None:
    """Although it looks the same by then: a key that was revoked must not stay."""
    path, causes, taken = tmp_path / "file", set[str](), list[str]()

    def read(path: Path) -> str:
        if "read" in causes:
            raise failure
        return path.read_text()

    def take(text: str) -> None:
        if "take" in causes:
            raise failure
        taken.append(text)

    path.write_text("old")
    file = WatchedFile(path, read, take)
    file.load()
    path.write_text("the new one")
    for now, expected in ({where}, ["old"]), (set[str](), ["old", "the new one"]):
        causes = now
        for _ in range(50):
            await file.look()
        assert taken == expected
    assert file.warning is None


@pytest.mark.parametrize("spoil", SPOILING.values(), ids=SPOILING)
def test_at_a_start_the_file_is_named(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    """Likewise for the files that are read once: the public key of an issuer."""
    for text in (keys_text("old"), jwks_text("old"), public_key()):
        path = tmp_path / "file"
        replace(path, text)
        spoil(path)
        with pytest.raises(ValueError, match=str(path)):
            open_any(path, text)


def public_key() -> bytes:
    private = ec.generate_private_key(ec.SECP256R1())
    return private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def open_any(path: Path, text: bytes) -> None:
    if text.startswith(b"-----"):
        key_of_file(path)
    elif b"version" in text:
        watch = KeyWatch(path, data_dir=None, now_ms=lambda: 2)
        watch.load()
        if not watch.ring.is_configured:
            raise KeyFault(f"{path}: there is none")
    else:
        open_issuer(IssuerChoices(jwks=str(path)), on_withdrawn=lambda _: None)
