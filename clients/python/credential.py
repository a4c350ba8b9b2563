"""Credential: the token sent to a gateway, where it comes from, and the URLs it may go to."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from headgate.client.address import is_loopback

TOKEN_VARIABLE = "HEADGATE_TOKEN"  # noqa: S105 - its name, not itself
FILE_VARIABLE = "HEADGATE_TOKEN_FILE"
INSECURE_VARIABLE = "HEADGATE_INSECURE"

TokenSource = str | Callable[[], str] | Callable[[], Awaitable[str]]
"""A token, or what returns one: it is called again when the token has ended."""

_WORD = re.compile(r"[\x21-\x7e]+")


class CredentialError(ValueError):
    """The token is missing, or must not or cannot be sent."""


class TokenFile:
    """A token in a file, which is read again when the gateway refuses the token.

    So a long-running program takes a new token without a restart. It can be pickled: the token
    stays behind, and another machine reads a file of its own.

    Example:
        hg = headgate.AsyncClient(token=headgate.TokenFile("/run/secrets/headgate"))
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the file; raises CredentialError if it has no token that a header can hold."""
        self.path = os.fspath(path)
        self._token: str | None = self._read()

    def __repr__(self) -> str:
        return f"TokenFile({self.path!r})"

    def __getstate__(self) -> dict[str, object]:
        return {"path": self.path, "_token": None}

    def __call__(self) -> str:
        """Return the token in the file now; if the file is unusable, the token known before."""
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
            raise CredentialError(f"{self.path} is no text") from None
        except OSError as error:
            raise CredentialError(
                f"{self.path}: {error.strerror}. Each machine that asks the gateway needs the file"
            ) from None


class Credential:
    """The token of a client, which no repr or log shows; `origin` None means there is none."""

    def __init__(
        self, urls: Sequence[str], token: TokenSource | None, *, insecure: bool | None = None
    ) -> None:
        """Take a token; raises CredentialError if others could read it on the network."""
        source = _of_variables() if token is None else token
        self.origin = _origin(source, is_given=token is not None)
        self.source: TokenSource = source
        if insecure is None:
            insecure = is_insecure()
        plain = [url for url in urls if url.startswith("http:") and not is_loopback(url)]
        if self.origin is not None and plain and not insecure:
            raise CredentialError(
                f"the token was not sent: {plain[0]} is plain http, and others on the network "
                f"could read the token. Use https; or set {INSECURE_VARIABLE}=1, if nobody else "
                "is on the way"
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
        """Return a hint at where the token comes from, for the text of a refusal."""
        if self.origin is None:
            return f"No token was sent: {TOKEN_VARIABLE} gives one."
        return f"The token was that of {self.origin}."

    async def token(self, *, ended: str | None = None) -> str | None:
        """Return the token, or None; if it is still `ended`, renew it first."""
        if callable(self.source) and self._token == ended:
            token = self.source()
            token = await token if inspect.isawaitable(token) else token
            self._token = checked(token, self.origin)
        return self._token


class Bearer:
    """The token of one request or one connection: renewed once if the gateway refuses it."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential
        self._token: str | None = None
        self._is_renewed = False  # as the one before was refused

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
        """Take another token after a refusal; tell whether to try again with it."""
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
    """Return a token that a header can hold; the CredentialError does not show the token."""
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
