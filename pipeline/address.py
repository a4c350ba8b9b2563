"""Where the gateway is, as people write it. The standard library only: `doctor` reads it, too."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

URL = "http://127.0.0.1:8080"
URL_VARIABLE = "HEADGATE_URL"


def url_of(text: str | None) -> str:
    """Return the base URL that a text says; `localhost:8080` is enough.

    Args:
        text: None: it is what the variable `HEADGATE_URL` says, or else the port of this machine
            that a gateway has unless told otherwise.

    Raises:
        ValueError: it is no URL of HTTP.
    """
    given = (text or os.environ.get(URL_VARIABLE) or URL).strip()
    url = given if "://" in given else f"http://{given}"
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        is_good = False
    if not is_good:
        raise ValueError(f"{given!r} is no URL such as {URL}")
    return url.rstrip("/")
