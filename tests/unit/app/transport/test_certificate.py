"""A certificate is used as soon as its files are good, and says what is wrong with them."""

import logging
import subprocess
from pathlib import Path

import pytest
import trustme

from headgate.app.transport.certificate import Certificate, UnusableCertificate


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


def test_a_file_that_is_missing_is_named(files: tuple[Path, Path]) -> None:
    for file in files:
        file.rename(file.with_suffix(".away"))
        assert fault_of(files) == f"{file}: No such file or directory"
        file.with_suffix(".away").rename(file)


@pytest.mark.parametrize("text", ["", "not PEM", "\0\xff"])
def test_a_file_without_what_it_should_have_is_named(files: tuple[Path, Path], text: str) -> None:
    certificate, key = files
    good = key.read_text()
    key.write_text(text)
    assert fault_of(files) == f"{key}: there is no private key in it; it should be PEM text"

    key.write_text(good)
    certificate.write_text(text)
    assert fault_of(files) == f"{certificate}: there is no certificate in it; it should be PEM text"


def test_files_that_were_mixed_up_are_named(files: tuple[Path, Path]) -> None:
    certificate, key = files

    assert fault_of((key, certificate)).startswith(f"{key}: there is no certificate in it")


def test_a_damaged_file_is_named(files: tuple[Path, Path]) -> None:
    for file in files:
        good = file.read_text()
        lines = good.splitlines()
        file.write_text("\n".join([lines[0], lines[1][::-1], *lines[2:]]))
        assert fault_of(files).startswith(f"{file}: the ")
        file.write_text(good)


def test_a_key_of_another_certificate_is_named(files: tuple[Path, Path]) -> None:
    certificate, key = files
    write(None, key)

    expected = f"{key}: this key does not belong to the certificate in {certificate}"
    assert fault_of(files) == expected


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


def test_files_that_are_gone_for_a_while_change_nothing(
    files: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    certificate = Certificate(*files)
    first, text = certificate.context, files[1].read_text()
    files[1].unlink()
    for _ in range(3):
        certificate.look()
    assert certificate.context is first
    assert len(caplog.records) == 1

    files[1].write_text(text)
    certificate.look()
    assert certificate.context is not first


def test_a_link_to_another_folder_is_a_new_pair(files: tuple[Path, Path], tmp_path: Path) -> None:
    """Kubernetes replaces a secret by pointing a link elsewhere."""
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "cert.pem", tmp_path / folder / "key.pem")
    link = tmp_path / "current"
    link.symlink_to("first")
    certificate = Certificate(link / "cert.pem", link / "key.pem")
    before = certificate.context

    (tmp_path / "next").symlink_to("second")
    (tmp_path / "next").rename(link)
    certificate.look()

    assert certificate.context is not before
