"""Address: where the gateway is, and the token that is sent there."""

from __future__ import annotations

import inspect
import ipaddress
import os
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

URL = "http://127.0.0.1:8080"

TokenSource = str | Callable[[], str] | Callable[[], Awaitable[str]]
"""A token, or what returns one: it is called again when the token has ended."""


def url_of(text: str | None) -> str:
    """Return the base URL that a text says; `localhost:8080` is enough.

    Args:
        text: None: it is what `HEADGATE_URL` says, or else the usual port of this machine.

    Raises:
        ValueError: it is no URL of HTTP.
    """
    given = (text or os.environ.get("HEADGATE_URL") or URL).strip()
    parts = urlsplit(given if "://" in given else f"http://{given}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{given!r} is no URL such as {URL}")
    if "@" in parts.netloc:
        raise ValueError("a URL has no name and password; give the token as `token`")
    return parts.geturl().rstrip("/")


class Credential:
    """The token of a client. Nothing shows it."""

    def __init__(
        self, url: str, token: TokenSource | None, *, insecure: bool | None = None
    ) -> None:
        """Take a token, or that of `HEADGATE_TOKEN`; see `AsyncClient`.

        Raises:
            ValueError: others on the network could read it.
        """
        source = os.environ.get("HEADGATE_TOKEN") if token is None else token
        self._source = source or None
        if insecure is None:
            insecure = bool(os.environ.get("HEADGATE_INSECURE"))
        is_plain = url.startswith("http:") and not is_loopback(url)
        if self._source is not None and is_plain and not insecure:
            raise ValueError(
                f"the token would be sent to {url} for everyone on the network to read: "
                "use https, or set HEADGATE_INSECURE=1"
            )
        self._token: str | None = self._source if isinstance(self._source, str) else None

    def __repr__(self) -> str:
        return f"Credential({'none' if self._source is None else '…'})"

    @property
    def is_renewable(self) -> bool:
        """Tell whether there is another token once this one has ended."""
        return callable(self._source)

    async def token(self, *, is_refused: bool = False) -> str | None:
        """Return the token, a new one if the one before was refused; None: there is none."""
        if callable(self._source) and (self._token is None or is_refused):
            token = self._source()
            self._token = await token if inspect.isawaitable(token) else token
        return self._token


def is_loopback(url: str) -> bool:
    """Tell whether a URL names this machine: what goes there crosses no network."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
