"""Origin: which pages may call. A page of another site must not reach a gateway on localhost.

A browser sends where a page came from (`Origin`) and which name it looked up (`Host`). The gateway
must know the name; otherwise somebody could point a foreign name at this machine (DNS rebinding).
The origin must be the gateway's own or on the allow-list. Clients that are not browsers send no
origin.

Monitoring calls a gateway by address, so probes are answered under every name. They reveal nothing
of streams but counts.
"""

from collections.abc import Collection
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.app.http.handlers import problem_response
from headgate.app.http.operation import path_of
from headgate.app.wire.problems import make_problem

_ASKED = frozenset({b"host", b"origin", b"sec-fetch-site"})
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class OriginGuard:
    """ASGI middleware that refuses requests from pages that may not call."""

    def __init__(self, app: ASGIApp, *, hosts: Collection[str], origins: Collection[str]) -> None:
        """Guard `app`.

        Args:
            app: what is guarded.
            hosts: names it answers to besides the loopback ones; `*` is any.
            origins: origins whose pages may call besides its own; `*` is any.
        """
        self._app = app
        self._hosts = _LOOPBACK | {host.lower() for host in hosts}
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)
        self._refusal = lru_cache(1024)(self._refuse)  # the same few ask again and again

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name: value for name, value in scope["headers"] if name in _ASKED}
        refusal = self._refusal(
            headers.get(b"host", b""),
            headers.get(b"origin"),
            headers.get(b"sec-fetch-site"),
            scope["path"].startswith("/v1/"),
            scope["path"] in _PROBES,
        )
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 4403})  # before accept: HTTP 403
        else:
            problem = make_problem("origin_refused", refusal, path_of(scope))
            await problem_response(problem)(scope, receive, send)

    def _refuse(
        self, host: bytes, origin: bytes | None, site: bytes | None, is_data: bool, is_probe: bool
    ) -> str | None:
        """Return why a request is refused, None if it is not."""
        named = host.decode("latin-1").lower()
        name = _hostname(named)
        may_be_page = not is_probe or origin is not None
        if may_be_page and not self._answers_to(name):
            return f"This gateway does not answer to the host name {name!r}: see allowed_hosts."
        if "*" in self._origins:
            return None
        if origin is None:
            # What a page embeds: a browser sends no origin with an image.
            is_embedded = is_data and site in (b"cross-site", b"same-site")
            text = "Pages of other sites may not embed or link to this: see allowed_origins."
            return text if is_embedded else None
        page = origin.decode("latin-1")
        is_own = named != "" and page.lower().partition("://")[2] == named
        if is_own or page.lower() in self._origins:
            return None
        return f"Pages of {page} may not call this gateway: see allowed_origins."

    def _answers_to(self, name: str) -> bool:
        return "*" in self._hosts or name in self._hosts or name.endswith(".localhost")


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
