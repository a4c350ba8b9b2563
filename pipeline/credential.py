"""The token that is sent to a gateway: where it comes from, and where it may go.

Spark writes down much of what it is told: plans, offsets, events, logs. The token is in none of
that. It travels to tasks inside the pickled reader or writer, which Spark keeps in memory; a token
of a file does not travel at all, as each machine reads the file itself.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import httpx

from headgate.pipeline.address import is_loopback, is_plain

TOKEN_VARIABLE = "HEADGATE_TOKEN"  # noqa: S105 - its name, not itself
FILE_VARIABLE = "HEADGATE_TOKEN_FILE"
INSECURE_VARIABLE = "HEADGATE_INSECURE"
_CONNECT_TIMEOUT_S = 5.0
_WORD = re.compile(r"[\x21-\x7e]+")


class CredentialError(ValueError):
    """There is no token where one should be, or it cannot be sent."""


class Credential(httpx.Auth):
    """A token, as httpx sends it. Nothing shows it.

    A token of a file is read again when the gateway refuses it. So a query that goes on for long
    takes a new token without a restart.

    Args:
        token: as it was given; None: that of the file.
        file: which one.

    Raises:
        CredentialError: there is no token, or no header can hold it.
    """

    def __init__(self, token: str | None = None, *, file: str | None = None) -> None:
        self.origin = f"the option token or {TOKEN_VARIABLE}" if file is None else file
        self._file = file
        self._token = token
        self._text()

    def __repr__(self) -> str:
        return f"Credential({self.origin!r})"

    def __getstate__(self) -> dict[str, object]:
        """Leave behind what was read of a file: another machine reads its own."""
        return {**self.__dict__, "_token": None if self._file is not None else self._token}

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send the token; once more if the file has another one by now."""
        sent = self._text()
        request.headers["Authorization"] = f"Bearer {sent}"
        answer = yield request
        if answer.status_code == httpx.codes.UNAUTHORIZED and self._read_again() != sent:
            request.headers["Authorization"] = f"Bearer {self._text()}"
            yield request

    def _text(self) -> str:
        if self._token is None:
            self._token = self._text_of_file()
        if not self._token:
            raise CredentialError(f"{self.origin} has no token")
        if _WORD.fullmatch(self._token) is None:
            self._token = None  # the next traceback has none of it, either
            raise CredentialError(
                f"the token of {self.origin} is not one word of ASCII characters; it was not sent"
            )
        return self._token

    def _read_again(self) -> str:
        """Return the token, as the file has it now; a file that is no good changes nothing."""
        before = self._text()
        if self._file is not None:
            with suppress(CredentialError):
                self._token = None
                return self._text()
            self._token = before
        return before

    def _text_of_file(self) -> str:
        try:
            return Path(self._file or "").read_text("utf-8").strip()
        except UnicodeDecodeError:
            raise CredentialError(f"{self._file} is no text") from None
        except OSError as error:
            raise CredentialError(
                f"{self._file}: {error.strerror}. Each machine that asks the gateway needs the file"
            ) from None


def credential_of(token: str | None = None, file: str | None = None) -> Credential | None:
    """Return the credential that was given, else that of the variables; None: there is none.

    Raises:
        CredentialError: there is no token in it, or no header can hold it.
    """
    if token is not None:
        return Credential(token)
    file = file or os.environ.get(FILE_VARIABLE)
    if file:
        return Credential(file=file)
    token = os.environ.get(TOKEN_VARIABLE)
    return Credential(token) if token else None


def is_insecure(given: bool | None = None) -> bool:
    """Tell whether a token may go over plain http to another machine.

    Args:
        given: what was said; None: what the variable says.
    """
    if given is not None:
        return given
    return os.environ.get(INSECURE_VARIABLE, "").lower() in {"1", "true", "yes", "on"}


def check_way(url: str) -> None:
    """Refuse to send a token where others on the network can read it.

    Raises:
        CredentialError: the URL is plain http to another machine.
    """
    if is_plain(url):
        raise CredentialError(
            f"the token was not sent: {url} is plain http, and others on the network could read "
            "the token. Use https; or --insecure (option insecure=true), if nobody else is on the "
            "way"
        )


def http(
    url: str, credential: Credential | None, *, ca: str | None, timeout_s: float
) -> httpx.Client:
    """Return a client of HTTP that sends the token.

    Raises:
        CredentialError: there are no certificates in `ca`.
    """
    # Each task makes a client, and reading the certificates that are trusted takes 40 ms.
    needs_certificates = not url.startswith("http:")
    return httpx.Client(
        base_url=url,
        auth=credential,
        timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S)),
        verify=_trusting(ca) if ca and url.startswith("https") else needs_certificates,
        # A proxy of the network has no part in what goes to this machine.
        trust_env=not is_loopback(url),
    )


def _trusting(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (ssl.SSLError, OSError) as error:
        raise CredentialError(f"{ca} has no certificates: {error.strerror}") from None
