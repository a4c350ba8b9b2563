"""Gateway place: the gateway that a command uses, and what goes wrong there, in one line."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from headgate.app.cli.words import one_line
from headgate.client.address import urls_of
from headgate.client.blocking import Client
from headgate.client.client import AsyncClient
from headgate.client.credential import TOKEN_VARIABLE, Credential, CredentialError, TokenFile
from headgate.client.live import Refused
from headgate.client.problems import HeadgateError, Problem, UnexpectedAnswer, Unreachable
from headgate.client.tables import PackageMissing

_ANSWER_S = 60.0
_UNAUTHENTICATED = 4401


def chosen_credential(url: str, token_file: Path | None, *, insecure: bool) -> Credential:
    """Return the token of a file, or without one that of the variable, which may be empty.

    Args:
        url: where it is sent; with commas between several.
        token_file: it is read again when the gateway refuses the token.
        insecure: send the token over plain http to another machine, too.

    Raises:
        click.ClickException: the file cannot be read, no header can hold the token, or others on
            the network could read it.
    """
    try:
        token = None if token_file is None else TokenFile(token_file)
        return Credential(urls_of(url), token, insecure=insecure)
    except CredentialError as error:
        raise click.ClickException(str(error)) from None


class GatewayPlace:
    """The URL of the gateway, and the caller's credential. Clients connect when they are used."""

    def __init__(
        self,
        url: str,
        credential: Credential | None = None,
        *,
        ca: Path | None = None,
        verifies: bool = True,
        answer_s: float = _ANSWER_S,
        retry_s: float = 0.0,
    ) -> None:
        """Get ready to call it.

        Args:
            url: where it is; with commas between those of several gateways on one bucket.
            credential: who calls; None: nobody in particular.
            ca: file of certificates to trust instead of the usual ones.
            verifies: whether its certificate must be good, if it has one.
            answer_s: how long an answer may take, in seconds.
            retry_s: how long requests are tried again, if the gateway is not there.

        Raises:
            click.ClickException: `ca` has no certificates.
        """
        self.url = url
        self._credential = credential
        self._how: dict[str, Any] = {
            "token": "" if credential is None else credential.source,
            "insecure": True,  # it was checked
            "retry_s": retry_s,
            "answer_s": answer_s,
            "tls": _tls(ca, verifies=verifies) if "https:" in url else None,
        }

    def client(self) -> Client:
        """Return a client whose methods wait."""
        return Client(self.url, **self._how)

    def async_client(self) -> AsyncClient:
        """Return a client for a command that does several things at once."""
        producer = "headgate" if self._how["retry_s"] else None
        return AsyncClient(self.url, producer=producer, **self._how)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say in one line what went wrong with the gateway.

        Raises:
            click.ClickException: something did.
        """
        try:
            yield
        except HeadgateError as error:
            raise click.ClickException(self._text(error)) from None

    def _text(self, error: HeadgateError) -> str:
        if isinstance(error, Problem):
            status = f"{error.status} " if error.status else ""
            return one_line(f"{error.detail} ({status}{error.code}){self._hint(error)}")
        if isinstance(error, PackageMissing):
            return str(error)
        if isinstance(error, UnexpectedAnswer):
            return f"{self.url} answers {error.status}, but is no gateway."
        text = one_line(str(error))
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return (
                f"the certificate of {self.url} is not trusted: {text}. "
                "--ca or SSL_CERT_FILE names a file of certificates to trust."
            )
        if isinstance(error, Unreachable):
            return (
                f"{text}. Start one with `headgate serve`, or say where it is with --url or "
                "HEADGATE_URL."
            )
        return f"{self.url}: {text}{self._hint(error)}"

    def _hint(self, error: HeadgateError) -> str:
        """Return a hint about the refused credential, if an error is about that."""
        code = getattr(error, "code", "")
        is_closed = isinstance(error, Refused) and error.close_code == _UNAUTHENTICATED
        if code not in ("unauthenticated", "forbidden") and not is_closed:
            return ""
        if self._credential is None or self._credential.origin is None:
            return f". No token was sent: {TOKEN_VARIABLE} or --token-file gives one."
        if self._credential.origin == TOKEN_VARIABLE:
            return f". The token was that of {TOKEN_VARIABLE}."
        return f". The token was that of {self._credential.origin}, before {TOKEN_VARIABLE}."


def _tls(ca: Path | None, *, verifies: bool) -> ssl.SSLContext | None:
    """Return the trust in certificates; None: the usual one."""
    if not verifies:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if ca is None:
        return None
    try:
        return ssl.create_default_context(cafile=ca)
    except (ssl.SSLError, OSError) as error:
        raise click.ClickException(f"{ca} has no certificates: {error.strerror}") from None
