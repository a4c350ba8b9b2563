"""Certificate: what TLS needs, from two files that may be replaced at any time.

A certificate lives for weeks, and a gateway for months. So the files are looked at every second. A
new pair is loaded as a whole, and only connections that begin later use it. A pair that cannot be
used changes nothing: the last good one stays.
"""

import asyncio
import logging
import re
import ssl
from os import stat_result
from pathlib import Path
from typing import Never

log = logging.getLogger("headgate")

LOOK_EVERY_S = 1.0

_CERTIFICATE = re.compile(r"-----BEGIN (TRUSTED )?CERTIFICATE-----")
_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")


class UnusableCertificate(Exception):
    """A certificate or its key cannot be used; the text names the file and the fault."""


class Certificate:
    """A certificate with its key, as the files have them now."""

    def __init__(self, certificate_file: Path, key_file: Path) -> None:
        """Load both.

        Args:
            certificate_file: the certificate and then its chain, as PEM.
            key_file: its key, as PEM.

        Raises:
            UnusableCertificate: a file cannot be read, or they do not fit.
        """
        self._files = certificate_file, key_file
        self._seen = self._look_of_files()
        self.context = _context(*self._files)

    async def watch(self) -> Never:
        """Take a new pair whenever the files have changed."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Take a new pair if the files have changed; one that cannot be used is logged once."""
        seen = self._look_of_files()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self.context = _context(*self._files)
        except UnusableCertificate as error:
            facts = {"reason": str(error)}
            log.error("new certificate not used, the last one stays", extra=facts)  # noqa: TRY400
        else:
            log.info("new certificate used", extra={"file": str(self._files[0])})

    def _look_of_files(self) -> list[tuple[int, ...] | None]:
        """Return what changes when a file, or the link to it, is replaced."""
        return [_look_of(file) for file in self._files]


def _look_of(file: Path) -> tuple[int, ...] | None:
    try:
        status: stat_result = file.stat()
    except OSError:
        return None
    times_ns = status.st_mtime_ns, status.st_ctime_ns
    return status.st_dev, status.st_ino, status.st_size, *times_ns


def _context(certificate_file: Path, key_file: Path) -> ssl.SSLContext:
    """Return what new connections begin with.

    Raises:
        UnusableCertificate: naming the file and the fault.
    """
    chain = _text_of(certificate_file, _CERTIFICATE, "certificate")
    _text_of(key_file, _KEY, "private key")
    try:  # by itself, because the fault of a pair does not say in which file it is
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=chain)
    except ssl.SSLError:
        raise UnusableCertificate(f"{certificate_file}: the certificate is damaged") from None

    def refuse() -> str:
        raise UnusableCertificate(
            f"{key_file}: the key is encrypted, and nobody is there to type its passphrase; "
            "write it without one: openssl pkey -in encrypted.pem -out key.pem"
        )

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate_file, key_file, refuse)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            fault = f"this key does not belong to the certificate in {certificate_file}"
        else:
            fault = f"the key cannot be used ({error.reason or error})"
        raise UnusableCertificate(f"{key_file}: {fault}") from None
    except OSError as error:  # it was there a moment ago
        raise UnusableCertificate(f"{key_file}: {error.strerror}") from None
    return context


def _text_of(file: Path, begin: re.Pattern[str], what: str) -> str:
    try:
        text = file.read_text("latin-1")
    except OSError as error:
        raise UnusableCertificate(f"{file}: {error.strerror}") from None
    if begin.search(text) is None:
        raise UnusableCertificate(f"{file}: there is no {what} in it; it should be PEM text")
    return text
