"""Proxies: what a request came through, for pages that say under which URL they were asked for."""

import os
from typing import Any

from starlette.middleware import Middleware
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

_LOOPBACK = "127.0.0.1,::1"


def proxy_headers() -> Middleware:
    """Return the layer that takes scheme and client of a proxy that is trusted."""
    trusted = os.environ.get("FORWARDED_ALLOW_IPS", _LOOPBACK)
    layer: Any = ProxyHeadersMiddleware  # it has uvicorn's own types
    return Middleware(layer, trusted)
