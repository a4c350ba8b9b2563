"""Origin: which pages may call. A page of another site must not reach a gateway on localhost.

A browser sends where a page came from (`Origin`) and which name it looked up (`Host`). The origin
must be the gateway's own or on the allow-list. Clients that are not browsers send no origin.

An open gateway must know the name as well. Otherwise somebody could point a foreign name at this
machine (DNS rebinding), and a page of that name would be the gateway's own. A gateway with
credentials need not know it: that page has none, as browsers keep cookies by name.

If all pages may call, those that are not on the list come without their cookies, as the user of the
browser does not know that they call.

Monitoring calls a gateway by address, so probes are answered under every name. They reveal nothing
of streams but counts.
"""

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.app.http.handlers import problem_response
from headgate.app.http.operation import path_of
from headgate.app.runtime.logs.bounded_log import BoundedLog
from headgate.app.wire.problems import make_problem

_ASKED = frozenset({b"host", b"origin", b"sec-fetch-site"})
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_LINES_PER_S_MAX = 10


class OriginGuard:
    """ASGI middleware that refuses requests from pages that may not call."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        own_host: str,
        hosts: Collection[str],
        origins: Collection[str],
        is_open: Callable[[], bool],
    ) -> None:
        """Guard `app`.

        Args:
            app: what is guarded.
            own_host: the name or address it listens on.
            hosts: names it answers to besides that and the loopback ones; `*` is any.
            origins: origins whose pages may call besides its own; `*` is any.
            is_open: tells whether requests without a credential are served now. If they are not,
                and `hosts` is empty, every name is answered.
        """
        self._app = app
        self._hosts = _LOOPBACK | {host.lower() for host in (own_host, *hosts)}
        self._has_hosts = bool(hosts)
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)
        self._is_open = is_open
        self._verdict = lru_cache(1024)(self._judge)  # the same few ask again and again
        self._log = BoundedLog(_LINES_PER_S_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name: value for name, value in scope["headers"] if name in _ASKED}
        origin = headers.get(b"origin")
        may_be_page = origin is not None or scope["path"] not in _PROBES
        verdict = self._verdict(
            headers.get(b"host", b""),
            origin,
            headers.get(b"sec-fetch-site"),
            scope["path"].startswith("/v1/"),
            may_be_page and (self._has_hosts or self._is_open()),
        )
        if verdict.drops_cookies:
            scope["headers"] = [each for each in scope["headers"] if each[0] != b"cookie"]
        if verdict.refusal is None:
            await self._app(scope, receive, send)
            return
        self._log.warn("request refused", {"path": path_of(scope), "reason": verdict.refusal})
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 4403})  # before accept: HTTP 403
        else:
            problem = make_problem("origin_refused", verdict.refusal, path_of(scope))
            await problem_response(problem, scope)(scope, receive, send)

    def _judge(
        self, host: bytes, origin: bytes | None, site: bytes | None, is_data: bool, is_checked: bool
    ) -> "_Verdict":
        """Return what becomes of a request; `is_checked`: its host must be known."""
        named = host.decode("latin-1").lower()
        name = _hostname(named)
        if is_checked and not self._answers_to(name):
            text = f"This gateway does not answer to the host name {name!r}: see allowed_hosts."
            return _Verdict(text)
        if origin is None:
            # What a page embeds: a browser sends no origin with an image.
            if site not in (b"cross-site", b"same-site"):
                return _Verdict()
            text = "Pages of other sites may not embed or link to this: see allowed_origins."
            return self._stranger(text if is_data else None)
        page = origin.decode("latin-1")
        is_own = named != "" and page.lower().partition("://")[2] == named
        if is_own or page.lower() in self._origins:
            return _Verdict()
        return self._stranger(f"Pages of {page} may not call this gateway: see allowed_origins.")

    def _stranger(self, refusal: str | None) -> "_Verdict":
        """Return what becomes of a page that nobody has named, which is refused for a reason."""
        if "*" in self._origins:
            return _Verdict(drops_cookies=True)
        return _Verdict(refusal)

    def _answers_to(self, name: str) -> bool:
        return "*" in self._hosts or name in self._hosts or name.endswith(".localhost")


class _Verdict(NamedTuple):
    """What becomes of a request."""

    refusal: str | None = None
    drops_cookies: bool = False


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
