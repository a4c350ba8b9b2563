"""The token that a command sends: where it comes from, and where it may go."""

import os
from contextlib import suppress
from pathlib import Path

import click

from headgate.client.address import is_loopback
from headgate.client.credential import (
    TOKEN_VARIABLE,
    CredentialError,
    TokenSource,
    checked,
)


class Credential:
    """A token. Nothing shows it.

    A token of a file is read again when the gateway refuses it. So a command that goes on for long
    takes a new token without a restart.
    """

    def __init__(self, token: str, file: Path | None = None) -> None:
        """Take a token.

        Args:
            token: as it was given.
            file: where it comes from; None: from the variable.

        Raises:
            click.ClickException: no header can hold it.
        """
        self.origin = TOKEN_VARIABLE if file is None else str(file)
        self._file = file
        self._token = self._checked(token)

    @classmethod
    def chosen(cls, file: Path | None) -> "Credential | None":
        """Return the token of a file, or without one that of the variable; None: there is none.

        Raises:
            click.ClickException: the file cannot be read, or no header can hold the token.
        """
        if file is not None:
            return cls(_text_of(file), file)
        token = os.environ.get(TOKEN_VARIABLE)
        return cls(token) if token else None

    def __repr__(self) -> str:
        """Say where the token comes from."""
        return f"Credential({self.origin!r})"

    @property
    def source(self) -> TokenSource:
        """Return where a client gets the token: it asks again when a token is refused."""
        return self._token if self._file is None else self._read

    def _read(self) -> str:
        """Return the token, as the file has it now; a file that is no good changes nothing."""
        assert self._file is not None
        with suppress(click.ClickException):
            self._token = self._checked(_text_of(self._file))
        return self._token

    def _checked(self, token: str) -> str:
        try:
            return checked(token, self.origin)
        except CredentialError as error:
            raise click.ClickException(str(error)) from None


def check_way(url: str) -> None:
    """Refuse to send a token where others on the network can read it.

    Raises:
        click.ClickException: the URL is plain http to another machine.
    """
    if url.startswith("http:") and not is_loopback(url):
        raise click.ClickException(
            f"the token was not sent: {url} is plain http, and others on the network could read "
            "the token. Use https; or --insecure, if nobody else is on the way."
        )


def _text_of(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except UnicodeDecodeError:
        raise click.ClickException(f"{file} is no text") from None
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None
