"""The routes and headers of the gateway's pages, with the bounds on what a page loads."""

import base64
import hashlib
import re
from typing import Any

from fastapi.routing import APIRoute


class PageRoute(APIRoute):
    """A page or a file. HEAD has the answer of GET without its body, as in routes of Starlette."""

    def __init__(self, path: str, endpoint: Any, **named: Any) -> None:
        super().__init__(path, endpoint, **named)
        self.methods = {*(self.methods or ()), "HEAD"}


PAGE_HEADERS = {"Vary": "Accept", "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
"""Headers of answers that are text for curl and a page for a browser."""

_SELF = "'self'"
_NONE = "'none'"

FILE_HEADERS = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}

SITE_HEADERS = FILE_HEADERS | {
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
    ),
}
"""Of a page whose scripts and styles are files beside it: it may load them, and nothing else."""


def page_headers(page: str) -> dict[str, str]:
    """Return the headers of a page: its own scripts and styles are allowed, and our files.

    `'self'` allows no other text of this gateway: what is no text/css is not taken for a style, nor
    what is no script for one. A page that loads no script may load none.
    """
    scripts = _hashes(page, "script")
    if "<script src=" in page:
        scripts = [_SELF, *scripts]
    policy = (
        f"default-src 'none'; script-src {' '.join(scripts) or _NONE}; "
        f"style-src {' '.join([_SELF, *_hashes(page, 'style')])}; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return PAGE_HEADERS | {"Referrer-Policy": "no-referrer", "Content-Security-Policy": policy}


def _hashes(page: str, tag: str) -> list[str]:
    contents = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    digests = [hashlib.sha256(content.encode()).digest() for content in contents]
    return [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
