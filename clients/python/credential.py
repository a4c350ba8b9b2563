"""Credential: the token, where it comes from, and the URLs that it may be sent to."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from headgate.client.address import is_loopback

TOKEN_VARIABLE = "HEADGATE_TOKEN"  # noqa: S105 - the name of a variable, not a token
FILE_VARIABLE = "HEADGATE_TOKEN_FILE"
INSECURE_VARIABLE = "HEADGATE_INSECURE"

TokenSource = str | Callable[[], str] | Callable[[], Awaitable[str]]
"""A token, or a function that returns one and is called again when the token has ended."""

_WORD = re.compile(r"[\x21-\x7e]+")


class CredentialError(ValueError):
    """The token is missing, is not valid in a header, or must not be sent to this URL."""


class TokenFile:
    """A token in a file, which is read again when the gateway refuses the token.

    A long-running program thus gets a new token without a restart. A pickled TokenFile does not
    contain the token: another machine reads its own file.

    Example:
        hg = headgate.AsyncClient(token=headgate.TokenFile("/run/secrets/headgate"))
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the file. Raises CredentialError if it has no token that is valid in a header."""
        self.path = os.fspath(path)
        self._token: str | None = self._read()

    def __repr__(self) -> str:
        return f"TokenFile({self.path!r})"

    def __getstate__(self) -> dict[str, object]:
        return {"path": self.path, "_token": None}

    def __call__(self) -> str:
        """Return the current token in the file, or the previous one if the file is unusable."""
        if self._token is not None:
            with suppress(CredentialError):
                self._token = self._read()
            return self._token
        self._token = self._read()
        return self._token

    def _read(self) -> str:
        try:
            return checked(Path(self.path).read_text("utf-8").strip(), self.path)
        except UnicodeDecodeError:
            raise CredentialError(f"{self.path} is not text") from None
        except OSError as error:
            raise CredentialError(
                f"{self.path}: {error.strerror}. Each machine that uses the gateway needs the file"
            ) from None


class Credential:
    """The token of a client, never in a repr or log. `origin` is None if there is no token."""

    def __init__(
        self, urls: Sequence[str], token: TokenSource | None, *, insecure: bool | None = None
    ) -> None:
        """Take a token. Raises CredentialError if others could read it on the network."""
        source = _of_variables() if token is None else token
        self.origin = _origin(source, is_given=token is not None)
        self.source: TokenSource = source
        if insecure is None:
            insecure = is_insecure()
        plain = [url for url in urls if url.startswith("http:") and not is_loopback(url)]
        if self.origin is not None and plain and not insecure:
            raise CredentialError(
                f"the token was not sent: {plain[0]} is plain http, and others on the network "
                f"could read the token. Use https, or set {INSECURE_VARIABLE}=1 if you trust the "
                "network"
            )
        self._token: str | None = None
        if isinstance(source, str) and source:
            self._token = checked(source, self.origin)

    def __repr__(self) -> str:
        return f"Credential({self.origin!r})"

    def __getstate__(self) -> dict[str, object]:
        kept = None if callable(self.source) else self._token
        return {**self.__dict__, "_token": kept}

    @property
    def is_renewable(self) -> bool:
        return callable(self.source)

    @property
    def hint(self) -> str:
        """Return a hint about the source of the token, for the text of a refusal."""
        if self.origin is None:
            return f"No token was sent. Set {TOKEN_VARIABLE}."
        return f"The token was that of {self.origin}."

    async def token(self, *, ended: str | None = None) -> str | None:
        """Return the token, or None. If it is still `ended`, renew it first."""
        if callable(self.source) and self._token == ended:
            token = self.source()
            token = await token if inspect.isawaitable(token) else token
            self._token = checked(token, self.origin)
        return self._token


class Bearer:
    """The token of one request or connection. It is renewed once if the gateway refuses it."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential
        self._token: str | None = None
        self._is_renewed = False  # since the last accepted token

    @property
    def is_renewable(self) -> bool:
        return self._credential.is_renewable

    async def token(self) -> str | None:
        self._token = await self._credential.token()
        return self._token

    async def next_token(self) -> str | None:
        self._token = await self._credential.token(ended=self._token)
        return self._token

    async def renew(self) -> bool:
        """Renew the token after a refusal. Return whether to try again."""
        if self._is_renewed:
            return False
        self._is_renewed = True
        refused = self._token
        return await self.next_token() != refused

    def was_accepted(self) -> None:
        self._is_renewed = False


def is_insecure() -> bool:
    return os.environ.get(INSECURE_VARIABLE, "").lower() in {"1", "true", "yes", "on"}


def checked(token: str, origin: str | None) -> str:
    """Return the token if it is valid in a header. The CredentialError does not contain it."""
    if not token:
        raise CredentialError(f"{origin} has no token")
    if _WORD.fullmatch(token) is None:
        raise CredentialError(
            f"the token of {origin} is not one word of ASCII characters; it was not sent"
        )
    return token


def _of_variables() -> TokenSource:
    file = os.environ.get(FILE_VARIABLE)
    return TokenFile(file) if file else os.environ.get(TOKEN_VARIABLE, "")


def _origin(source: TokenSource, *, is_given: bool) -> str | None:
    if not source:
        return None
    if isinstance(source, TokenFile):
        return source.path
    return "the argument token" if is_given else TOKEN_VARIABLE
