"""Address: where the gateway is, as people write it."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

URL = "http://127.0.0.1:8080"
URL_VARIABLE = "HEADGATE_URL"


def url_of(text: str | None) -> str:
    """Return the base URL that a text says; `localhost:8080` is enough.

    Args:
        text: None: it is what `HEADGATE_URL` says, or else the usual port of this machine.

    Raises:
        ValueError: it is no URL of HTTP.
    """
    given = (text or os.environ.get(URL_VARIABLE) or URL).strip()
    url = given if "://" in given else f"http://{given}"
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
        has_name = "@" in parts.netloc
    except ValueError:
        is_good = has_name = False
    if has_name:
        raise ValueError("a URL has no name and password; the token is an argument of its own")
    if not is_good:
        raise ValueError(f"{given!r} is no URL such as {URL}")
    return url.rstrip("/")


def is_loopback(url: str) -> bool:
    """Tell whether a URL names this machine: what goes there crosses no network."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
