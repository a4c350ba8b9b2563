"""Which pages may call: a page of another site must not reach a gateway on localhost.

A browser sends where a page came from (`Origin`) and which name it looked up (`Host`). The origin
must be the gateway's own, with its scheme, or on the allow-list. Clients that are not browsers send
no origin. Each of the two may come only once, and a host must be well-formed: of two, readers may
pick either.

An open gateway must know the name as well. Otherwise somebody could point a foreign name at this
machine (DNS rebinding), and a page of that name would be the gateway's own. A gateway with
credentials need not know it: that page has none, as browsers keep cookies by name.

If all pages may call, those that are not on the list come without their cookies, as the user of the
browser does not know that they call.

Monitoring calls a gateway by address, so probes are answered under every name. They reveal nothing
of streams but counts.
"""

import re
from collections.abc import Awaitable, Callable, Collection
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from typing import NamedTuple

from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.app.http.handlers import refuse
from headgate.app.runtime.logs import BoundedLog
from headgate.app.transport.heads import Head
from headgate.app.transport.proxies import scheme_of
from headgate.app.transport.scopes import path_of
from headgate.app.wire.problems import Code, make_problem

# Authority: the host and the port of a `Host` or an `Origin`, parsed strictly (RFC 3986, RFC
# 9110).
#
# Everything that a browser would read differently is refused: user information, a path, a query, a
# fragment, a zone, white space, or anything that is not ASCII.

_LENGTH_MAX = 261
"""The longest host name, and a port."""

_PORT_MAX = 65_535
_DEFAULT_PORTS = {"http": 80, "https": 443}

_AUTHORITY = re.compile(
    r"(?:\[([0-9A-Fa-f:.]+)\]|((?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+))(?::(\d*))?", re.ASCII
)
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.ASCII)


class Authority(NamedTuple):
    """A host in normalized form, and a port; None means that of the scheme."""

    host: str
    port: int | None


class PageOrigin(NamedTuple):
    """The origin of a page. Two origins are equal if a browser considers them the same."""

    scheme: str
    host: str
    port: int | None


def authority_of(text: str) -> Authority | None:
    match = _AUTHORITY.fullmatch(text) if len(text) <= _LENGTH_MAX else None
    if match is None:
        return None
    address, name, digits = match.groups()
    port = int(digits) if digits else None
    if port is not None and port > _PORT_MAX:
        return None
    host = host_of(name if address is None else f"[{address}]")
    return None if host is None else Authority(host, port)


def host_of(text: str) -> str | None:
    """Return a name or an address in normalized form; None for brackets without IPv6."""
    if text.startswith("[") or text.count(":") > 1:
        try:
            return str(IPv6Address(text.removeprefix("[").removesuffix("]")))
        except AddressValueError:
            return None
    return text.lower().removesuffix(".")


def origin_of(text: str) -> PageOrigin | None:
    """Parse the `Origin` of a browser; None for invalid and opaque ones, such as `null`."""
    match = _ORIGIN.fullmatch(text)
    authority = None if match is None else authority_of(match[2])
    if match is None or authority is None:
        return None
    return own_origin(match[1].lower(), authority)


def own_origin(scheme: str, authority: Authority) -> PageOrigin:
    port = authority.port
    return PageOrigin(scheme, authority.host, _DEFAULT_PORTS.get(scheme) if port is None else port)


_ASKED = frozenset({b"host", b"origin", b"sec-fetch-site"})
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_LINES_PER_S_MAX = 10

_ORIGIN_BYTES_MAX = 300
"""Longest origin: a scheme, the longest host name and a port."""

_TOO_LONG = b"?"
_ALLOW_HOST = "To allow it, start the gateway with --allow-host (setting allowed_hosts)."
_ALLOW_ORIGIN = "To allow them, start the gateway with --allow-origin (setting allowed_origins)."
_SPACE = b" \t"  # around a value it is none of it, and not every parser takes it off


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
        """Guard `app`, which listens on `own_host`.

        `hosts` and `origins` are allowed in addition; `*` is any. `is_open` tells whether requests
        without a credential are served now; if they are not, and `hosts` is empty, every name is
        answered.
        """
        self._app = app
        self._hosts = _LOOPBACK | {host_of(host) for host in (own_host, *hosts)}
        self._has_hosts = bool(hosts)
        named = [origin.rstrip("/").lower() for origin in origins]
        self._origins = frozenset(origin_of(origin) or origin for origin in named)
        self._is_open = is_open
        self._verdict = lru_cache(1024)(self._judge)  # the same few ask again and again
        self._log = BoundedLog(_LINES_PER_S_MAX)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] not in ("http", "websocket"):
            return self._app(scope, receive, send)
        verdict = self._verdict_on(scope)
        if verdict.drops_cookies:
            scope["headers"] = [each for each in scope["headers"] if each[0] != b"cookie"]
            scope.pop("head", None)
        if verdict.refusal is None:
            return self._app(scope, receive, send)
        return self._refuse(scope, receive, send, verdict)

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, verdict: "_Verdict"
    ) -> None:
        assert verdict.refusal is not None
        self._log.warn("request refused", {"path": path_of(scope), "reason": verdict.refusal})
        problem = make_problem(verdict.code, verdict.refusal, path_of(scope))
        await refuse(problem, scope, receive, send)

    def _verdict_on(self, scope: Scope) -> "_Verdict":
        head: Head | None = scope.get("head")
        known: _Known | None = None if head is None else head.derived.get(self)
        if known is None:
            known = _asked(scope), {}
            if head is not None:
                head.derived[self] = known
        asked, without_origin = known
        if asked.is_repeated:
            return _Verdict(_REPEATED, "malformed")
        is_checked = asked.may_be_page and (self._has_hosts or self._is_open())
        if asked.origin is not None:
            return self._verdict(asked, is_checked, scheme_of(scope))
        verdict = without_origin.get(is_checked)
        if verdict is None:
            verdict = without_origin[is_checked] = self._verdict(asked, is_checked, "")
        return verdict

    def _judge(self, asked: "_Asked", is_checked: bool, scheme: str) -> "_Verdict":
        """Judge a request by its host and origin.

        `is_checked`: its host must be known. `scheme` is as its client sees the gateway.
        """
        origin = asked.origin
        sent = asked.host.strip(_SPACE).decode("latin-1")
        named = authority_of(sent)
        if is_checked and not self._answers_to(named):
            name = repr(sent.lower() if named is None else named.host)
            text = f"This gateway does not answer to the host name {name}."
            return _Verdict(f"{text} {_ALLOW_HOST}")
        if named is None and sent:
            return _Verdict("The header `Host` is not a host and a port.", "malformed")
        if origin is None:
            # What a page embeds: a browser sends no origin with an image.
            if not asked.is_embedded:
                return _Verdict()
            text = f"Pages of other sites may not embed or link to this. {_ALLOW_ORIGIN}"
            return self._stranger(text if asked.is_data else None)
        text = origin.decode("latin-1")
        page = origin_of(text)
        own = None if named is None else own_origin(scheme, named)
        if (page is not None and page == own) or (page or text.lower()) in self._origins:
            return _Verdict()
        refusal = f"Pages of {text} may not call this gateway. {_ALLOW_ORIGIN}"
        if page is not None and own is not None and page.scheme == "https" and page[1] == own[1]:
            refusal += " If a proxy in front of it ends TLS, name that with --trusted-proxies."
        return self._stranger(refusal)

    def _stranger(self, refusal: str | None) -> "_Verdict":
        """Judge a page of an unlisted origin: it is refused, unless all origins are allowed."""
        if "*" in self._origins:
            return _Verdict(drops_cookies=True)
        return _Verdict(refusal)

    def _answers_to(self, named: Authority | None) -> bool:
        if "*" in self._hosts:
            return True
        name = None if named is None else named.host
        return name is not None and (name in self._hosts or name.endswith(".localhost"))


class _Asked(NamedTuple):
    """What a request says of the page that sends it."""

    host: bytes  # empty: it is missing
    origin: bytes | None
    is_embedded: bool  # a page of another site embeds it, or links to it
    is_data: bool  # it asks for data rather than a page
    may_be_page: bool
    is_repeated: bool


def _asked(scope: Scope) -> _Asked:
    sent = [header for header in scope["headers"] if header[0] in _ASKED]
    headers = dict(sent)
    host, origin, path = headers.get(b"host", b""), headers.get(b"origin"), scope["path"]
    if origin is not None and len(origin) > _ORIGIN_BYTES_MAX:
        origin = _TOO_LONG
    return _Asked(
        host if len(host) <= _ORIGIN_BYTES_MAX else _TOO_LONG,
        origin,
        is_embedded=headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"),
        is_data=path.startswith("/v1/"),
        may_be_page=origin is not None or path not in _PROBES,
        is_repeated=len(sent) != len(headers),
    )


class _Verdict(NamedTuple):
    refusal: str | None = None
    code: Code = "origin_refused"
    drops_cookies: bool = False


_Known = tuple[_Asked, dict[bool, _Verdict]]
_REPEATED = "One of the headers `Host`, `Origin` and `Sec-Fetch-Site` occurs more than once."
