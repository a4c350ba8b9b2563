"""The token that a command sends: where it comes from, and where it may go."""

import ipaddress
import re
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import click
import httpx

TOKEN_VARIABLE = "HEADGATE_TOKEN"  # noqa: S105 its name, not itself
_WORD = re.compile(r"[\x21-\x7e]+")


class Credential(httpx.Auth):
    """A token, as httpx sends it. Nothing shows it.

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
    def of_file(cls, file: Path) -> "Credential":
        """Read the token of a file.

        Raises:
            click.ClickException: the file cannot be read, or has no token.
        """
        return cls(_text_of(file), file)

    def __repr__(self) -> str:
        """Say where the token comes from."""
        return f"Credential({self.origin!r})"

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Send the token; once more if the file has another one by now."""
        sent = self._token
        request.headers["Authorization"] = f"Bearer {sent}"
        answer = yield request
        if answer.status_code == httpx.codes.UNAUTHORIZED and self._read_again() != sent:
            request.headers["Authorization"] = f"Bearer {self._token}"
            yield request

    def _read_again(self) -> str:
        """Return the token, as the file has it now; a file that is no good changes nothing."""
        if self._file is not None:
            with suppress(click.ClickException):
                self._token = self._checked(_text_of(self._file))
        return self._token

    def _checked(self, token: str) -> str:
        if not token:
            raise click.ClickException(f"{self.origin} has no token")
        if _WORD.fullmatch(token) is None:
            raise click.ClickException(
                f"the token of {self.origin} is not one word of ASCII characters; it was not sent"
            )
        return token


def check_way(url: str) -> None:
    """Refuse to send a token where others on the network can read it.

    Raises:
        click.ClickException: the URL is plain http to another machine.
    """
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise click.ClickException(
            f"the token was not sent: {url} is plain http, and others on the network could read "
            "the token. Use https; or --insecure, if nobody else is on the way."
        )


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine by its name or address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _text_of(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except UnicodeDecodeError:
        raise click.ClickException(f"{file} is no text") from None
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None
