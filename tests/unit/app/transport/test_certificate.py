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
def test_a_file_that_does_not_do_is_named(files: tuple[Path, Path], text: str) -> None:
    certificate, key = files
    for file, what in zip(files, ("certificate", "private key"), strict=True):
        good = file.read_text()
        file.write_text(text)
        assert fault_of(files) == f"{file} has no {what}; it should be PEM text"
        file.write_text(good)
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
    assert "does not match" in line.reason  # type: ignore[attr-defined]

    write(*files)
    certificate.look()
    assert certificate.context is not first
    assert [line.levelname for line in caplog.records] == ["ERROR", "INFO"]


COMMENTS = ["Stadtwerke Köln — 東京\n".encode(), "Köln\n".encode("latin-1"), b"\xef\xbb\xbf\n"]
COMMENTS += [bytes(range(1, 256)) + b"\n", b"# it begins with -----BEGIN CERTIFICATE-----\n"]


@pytest.mark.parametrize("comment", COMMENTS, ids=range(5))
@pytest.mark.parametrize("number", [0, 1], ids=["certificate", "key"])
def test_any_comment_is_taken(files: tuple[Path, Path], comment: bytes, number: int) -> None:
    files[number].write_bytes(comment + files[number].read_bytes() + comment)
    before = (certificate := Certificate(*files)).context

    write(*files)
    files[number].write_bytes(comment + files[number].read_bytes() + comment)
    certificate.look()

    assert certificate.context is not before


def changing(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        file.write_bytes(change(file.read_bytes()))

    return write


def write_another_kind(file: Path) -> None:
    kind = ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
    made = subprocess.run(["openssl", "genpkey", *kind], check=True, capture_output=True)
    file.write_bytes(made.stdout)


FAULTS: list[Callable[[Path], None]] = [
    *(remove, make_folder, make_pipe, make_loop, write_gigabyte, write_another_kind)
]
FAULTS += [
    *(changing(lambda old: old[: len(old) // 2]), changing(lambda _: bytes(range(256)) * 100)),
    *(changing(lambda _: b""), changing(lambda old: b"\0" + old)),
]
HALF_A_CHAIN = changing(lambda old: old + old[:-40])


@pytest.mark.parametrize(
    ("number", "spoil"),
    [(0, HALF_A_CHAIN), *((number, spoil) for number in (0, 1) for spoil in FAULTS)],
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
    def fail(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    certificate = Certificate(*files)
    before = certificate.context
    write(*files)
    with monkeypatch.context() as without_descriptors:
        without_descriptors.setattr(os, "open", fail)
        certificate.look()
        assert certificate.context is before

    certificate.look()
    assert certificate.context is not before
