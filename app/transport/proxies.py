"""Proxies: which proxies may say under which URL a page was requested."""

import os
from typing import Any

from starlette.middleware import Middleware
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

_LOOPBACK = "127.0.0.1,::1"


def proxy_headers() -> Middleware:
    """Return the layer that takes scheme and client from a trusted proxy."""
    trusted = os.environ.get("FORWARDED_ALLOW_IPS", _LOOPBACK)
    layer: Any = ProxyHeadersMiddleware  # it has uvicorn's own types
    return Middleware(layer, trusted)
