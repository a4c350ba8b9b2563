"""Certificates for tests: an authority of their own, and pairs of files."""

import ssl
from functools import cached_property
from pathlib import Path
from typing import Any

import trustme

from headgate.app.settings import Settings


class Authority:
    """An authority that signs certificates for this machine, in two files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self.certificate = folder / "cert.pem"
        self.key = folder / "key.pem"
        self.root = folder / "ca.pem"  # for programs that want a file of what they trust
        self._authority.cert_pem.write_to_path(self.root)
        self.renew()

    def renew(self) -> bytes:
        """Replace both files; returns the new certificate, as DER."""
        pair = self._authority.issue_cert("127.0.0.1", "localhost")
        self.certificate.write_bytes(b"".join(blob.bytes() for blob in pair.cert_chain_pems))
        pair.private_key_pem.write_to_path(self.key)
        return ssl.PEM_cert_to_DER_cert(pair.cert_chain_pems[0].bytes().decode())

    @cached_property
    def trust(self) -> ssl.SSLContext:
        """Return the context of a client that trusts the certificate."""
        context = ssl.create_default_context()
        self._authority.configure_trust(context)
        return context

    def settings(self, **others: Any) -> Settings:
        return Settings(tls_cert=self.certificate, tls_key=self.key, **others)
