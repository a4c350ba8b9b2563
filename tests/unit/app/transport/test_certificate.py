"""A certificate is used as soon as its files are good, and says what is wrong with them."""

import errno
import logging
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from headgate.app.transport.certificate import Certificate, UnusableCertificate
from tests.spoiled_files import make_folder, make_loop, make_pipe, remove, write_gigabyte


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    write(certificate, key)
    return certificate, key


def write(certificate: Path | None, key: Path | None) -> None:
    """Put a new pair, or half of one, into files."""
    pair = trustme.CA().issue_cert("localhost")
    if certificate is not None:
        pair.cert_chain_pems[0].write_to_path(certificate)
    if key is not None:
        pair.private_key_pem.write_to_path(key)


def fault_of(files: tuple[Path, Path]) -> str:
    with pytest.raises(UnusableCertificate) as refused:
        Certificate(*files)
    return str(refused.value)


@pytest.mark.parametrize("text", ["", "not PEM", "\0\xff"])
def test_a_file_without_what_it_should_have_is_named(files: tuple[Path, Path], text: str) -> None:
    certificate, key = files
    good = key.read_text()
    key.write_text(text)
    assert fault_of(files) == f"{key}: there is no private key in it; it should be PEM text"

    key.write_text(good)
    certificate.write_text(text)
    assert fault_of(files) == f"{certificate}: there is no certificate in it; it should be PEM text"


def test_an_encrypted_key_is_refused_without_asking_for_its_passphrase(
    files: tuple[Path, Path],
) -> None:
    certificate, key = files
    encrypted = key.with_name("encrypted.pem")
    command = ["openssl", "pkey", "-in", str(key), "-aes256", "-passout", "pass:secret"]
    subprocess.run([*command, "-out", str(encrypted)], check=True, capture_output=True)

    assert fault_of((certificate, encrypted)).startswith(f"{encrypted}: the key is encrypted")


def test_a_new_pair_is_used_once_it_is_complete(
    files: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    certificate = Certificate(*files)
    first = certificate.context
    certificate.look()
    assert certificate.context is first

    write(files[0], None)  # as a program writes that replaces one after the other
    for _ in range(3):
        certificate.look()
    assert certificate.context is first
    [line] = caplog.records
    assert line.levelname == "ERROR"
    assert "does not belong" in line.reason  # type: ignore[attr-defined]

    write(*files)
    certificate.look()
    assert certificate.context is not first
    assert [line.levelname for line in caplog.records] == ["ERROR", "INFO"]


COMMENTS = {
    "UTF-8": "Stadtwerke Köln — 東京\n".encode(),
    "Latin-1": "Köln\n".encode("latin-1"),
    "UTF-8 with a mark": b"\xef\xbb\xbf\n",
    "of no text": bytes(range(1, 256)) + b"\n",
    "about PEM": b"# it begins with -----BEGIN CERTIFICATE-----\n",
}


@pytest.mark.parametrize("comment", COMMENTS.values(), ids=COMMENTS)
@pytest.mark.parametrize("number", [0, 1], ids=["certificate", "key"])
def test_a_comment_may_be_in_any_encoding(
    files: tuple[Path, Path], comment: bytes, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    file = files[number]
    file.write_bytes(comment + file.read_bytes() + comment)
    certificate = Certificate(*files)
    before = certificate.context

    write(*files)
    file.write_bytes(comment + file.read_bytes() + comment)
    certificate.look()

    assert certificate.context is not before
    assert [line.levelname for line in caplog.records if line.levelname == "ERROR"] == []


def write_half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: len(file.read_bytes()) // 2])


def write_binary(file: Path) -> None:
    file.write_bytes(bytes(range(256)) * 100)


def write_nothing(file: Path) -> None:
    file.write_bytes(b"")


def write_half_of_a_chain(file: Path) -> None:
    file.write_bytes(file.read_bytes() + file.read_bytes()[:-40])


def write_another_kind(file: Path) -> None:
    kind = ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
    made = subprocess.run(["openssl", "genpkey", *kind], check=True, capture_output=True)
    file.write_bytes(made.stdout)


def write_zeros(file: Path) -> None:
    file.write_bytes(b"\0" + file.read_bytes())


FAULTS = [remove, make_folder, make_pipe, make_loop, write_half, write_gigabyte, write_binary]
FAULTS += [write_nothing, write_zeros, write_another_kind]


@pytest.mark.parametrize(
    ("number", "spoil"),
    [(0, write_half_of_a_chain), *((number, spoil) for number in (0, 1) for spoil in FAULTS)],
)
def test_whatever_is_wrong_with_a_new_file_the_last_pair_stays(
    files: tuple[Path, Path],
    spoil: Callable[[Path], None],
    number: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    certificate, file = Certificate(*files), files[number]
    before = certificate.context

    spoil(file)
    for _ in range(3):
        certificate.look()
    assert certificate.context is before
    [line] = caplog.records
    assert str(file) in line.reason  # type: ignore[attr-defined]

    if file.is_dir() and not file.is_symlink():
        file.rmdir()
    else:
        file.unlink(missing_ok=True)
    write(*files)
    certificate.look()
    assert certificate.context is not before


def test_a_pair_that_could_not_be_read_for_want_of_a_descriptor_is_read_later(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = Certificate(*files)
    before = certificate.context
    write(*files)

    with monkeypatch.context() as without_descriptors:
        failure = OSError(errno.EMFILE, "Too many open files")
        without_descriptors.setattr(os, "open", raising(failure))
        certificate.look()
        assert certificate.context is before

    certificate.look()
    assert certificate.context is not before


def raising(failure: Exception) -> Callable[..., int]:
    def fail(*_: object, **__: object) -> int:
        raise failure

    return fail
