"""The TLS certificate, from two files that may be replaced at any time.

A certificate lives for weeks, and a gateway for months. So the files are checked every second. A
new pair is loaded as a whole, and used only for new connections. A pair that cannot be used changes
nothing: the last good one stays.
"""

import asyncio
import logging
import re
import ssl
from pathlib import Path
from typing import Never

from headgate.app.runtime import periodic
from headgate.app.runtime.small_file import read_small, stamp_of
from headgate.app.runtime.threads import GUARDS

log = logging.getLogger("headgate")

LOOK_EVERY_S = 1.0

PEM_BYTES_MAX = 2**20
"""A chain of a hundred certificates takes a fifth of it."""

_CERTIFICATE = re.compile(
    rb"^-----BEGIN ((?:TRUSTED |X509 )?CERTIFICATE)-----[\sA-Za-z0-9+/=]+-----END \1-----",
    re.MULTILINE,
)
_CERTIFICATE_BEGIN = re.compile(rb"^-----BEGIN (TRUSTED |X509 )?CERTIFICATE-----", re.MULTILINE)
_KEY_BEGIN = re.compile(rb"^-----BEGIN [A-Z ]*PRIVATE KEY-----", re.MULTILINE)


class UnusableCertificate(Exception):
    """A certificate or its key cannot be used; the text names the file and the fault."""


class Certificate:
    """A certificate with its key, as the files have them now."""

    def __init__(self, certificate_file: Path, key_file: Path) -> None:
        """Both files are PEM; the chain follows the certificate. Raises UnusableCertificate."""
        self._files = certificate_file, key_file
        self._fault: str | None = None  # of what is in the files now
        self._seen = [*map(stamp_of, self._files)]
        self.context = _context(*self._files)

    async def watch(self) -> Never:
        await periodic.repeat("certificate", self._look_later)

    async def _look_later(self) -> None:
        await asyncio.sleep(LOOK_EVERY_S)
        await self.look_beside()

    async def look_beside(self) -> None:
        """Load a new pair if the files have changed, without blocking the event loop."""
        await GUARDS.call(self.look)

    def look(self) -> None:
        """Load a new pair if the files have changed; a bad pair is logged once and retried."""
        seen = [*map(stamp_of, self._files)]
        if seen == self._seen:
            self._fault = None
            return
        try:
            self.context = _context(*self._files)
        except Exception as error:  # noqa: BLE001  whatever it is, the last one is good
            self._warn(str(error) or type(error).__name__)
            return
        self._seen, self._fault = seen, None
        log.info("new certificate used", extra={"file": str(self._files[0])})

    def _warn(self, fault: str) -> None:
        if fault != self._fault:
            self._fault = fault
            log.error(
                "new certificate could not be used; the previous one stays in use",
                extra={"reason": fault},
            )


def _context(certificate_file: Path, key_file: Path) -> ssl.SSLContext:
    chain = _pem_of(certificate_file, _CERTIFICATE_BEGIN, "certificate")
    _pem_of(key_file, _KEY_BEGIN, "private key")
    # Around the certificates stands what people like, in any encoding.
    blocks = [match.group().decode("ascii") for match in _CERTIFICATE.finditer(chain)]
    try:  # by itself, because the fault of a pair does not say in which file it is
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata="\n".join(blocks))
        is_whole = len(blocks) == len(_CERTIFICATE_BEGIN.findall(chain))
    except (ssl.SSLError, ValueError):
        is_whole = False
    if not is_whole:
        raise UnusableCertificate(f"{certificate_file}: the certificate is damaged")

    def refuse() -> str:
        raise UnusableCertificate(
            f"{key_file}: the key is encrypted, and nobody can type its passphrase; save it "
            "without one: openssl pkey -in encrypted.pem -out key.pem"
        )

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate_file, key_file, refuse)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            fault = f"this key does not match the certificate in {certificate_file}"
        else:
            fault = f"the key cannot be used ({error.reason or error})"
        raise UnusableCertificate(f"{key_file}: {fault}") from None
    except OSError as error:  # it was there a moment ago
        raise UnusableCertificate(f"{key_file}: {error.strerror}") from None
    return context


def _pem_of(file: Path, begin: re.Pattern[bytes], what: str) -> bytes:
    try:
        data = read_small(file, PEM_BYTES_MAX)
    except OSError as error:
        raise UnusableCertificate(f"{file}: {error.strerror}") from None
    if begin.search(data) is None:
        raise UnusableCertificate(f"{file} has no {what}; it should be PEM text")
    if b"\0" in data:  # OpenSSL reads no further
        raise UnusableCertificate(f"{file} has zero bytes; it should be PEM text")
    return data
