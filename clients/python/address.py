"""Addresses: the URLs of the gateways, and the current one, which requests go to."""

from __future__ import annotations

import ipaddress
import os
import random
from collections.abc import Sequence
from urllib.parse import urlsplit

BACKOFF_S_MIN = 0.1
BACKOFF_S_MAX = 10.0


def backoff_s(attempt: int) -> float:
    """Return the pause before the next attempt, in seconds. `attempt` counts from 0."""
    longest_s = min(BACKOFF_S_MAX, BACKOFF_S_MIN * 2.0 ** min(attempt, 10))
    return longest_s * random.uniform(0.5, 1.0)


URL = "http://127.0.0.1:8080"
URL_VARIABLE = "HEADGATE_URL"

_ROUND_MAX = 4
"""After this many rounds through the list, pauses no longer grow: a standby soon leads."""


class Addresses:
    """The URLs of the gateways on one bucket. Requests go to the current one.

    The credential is sent only to these URLs: a leader that is not in the list is not followed.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = tuple(urls)
        self.current = self.urls[0]
        self._named = ""  # the leader that was named last

    @property
    def are_local(self) -> bool:
        return all(map(is_loopback, self.urls))

    @property
    def are_several(self) -> bool:
        return len(self.urls) > 1

    def leave(self, url: str, leader: str | None = None) -> None:
        """Switch to the leader or the next URL, unless another call has already left `url`.

        A standby may name a leader that is gone, so each named leader is followed only once.
        """
        if url != self.current:
            return
        named = next((each for each in self.urls if f"{leader}/".startswith(f"{each}/")), "")
        if named and named not in (self._named, url):
            self.current = self._named = named
        else:
            self.current = self.urls[(self.urls.index(url) + 1) % len(self.urls)]

    def pause_s(self, attempt: int) -> float:
        """Return the pause after an attempt in seconds: 0 until all URLs were tried."""
        rounds, place = divmod(attempt + 1, len(self.urls))
        if place:
            return 0.0
        return backoff_s(min(rounds - 1, _ROUND_MAX) if self.are_several else attempt)


def urls_of(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the base URLs. None means `HEADGATE_URL`, or the default port of this machine."""
    if given is None or isinstance(given, str):
        given = [given or os.environ.get(URL_VARIABLE) or URL]
    urls = [_url_of(part.strip()) for text in given for part in text.split(",") if part.strip()]
    if not urls:
        raise ValueError(f"no URL is given, such as {URL}")
    return tuple(dict.fromkeys(urls))


def _url_of(given: str) -> str:
    url = given if "://" in given else f"http://{given}"
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
        has_name = "@" in parts.netloc
    except ValueError:
        is_good = has_name = False
    if has_name:
        raise ValueError("a URL must not contain a user name or password: use HEADGATE_TOKEN")
    if not is_good:
        raise ValueError(f"{given!r} is not a URL such as {URL}")
    return url.rstrip("/")


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
