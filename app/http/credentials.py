"""Where a request or a handshake carries credentials.

`Authorization` says who asks. A browser can send no header with an EventSource or a WebSocket, so
there a ticket in the URL or a cookie says it as well, and for a WebSocket a subprotocol. Elsewhere
a cookie is ignored: it would be sent with whatever a page of another site makes a browser ask for.
"""

import re
from collections.abc import Iterable
from urllib.parse import parse_qsl

from starlette.types import Scope

from headgate.app.auth.access import Access
from headgate.app.auth.audit import serve
from headgate.app.auth.authenticator import Authenticator
from headgate.app.auth.needs import Needs
from headgate.app.transport.heads import Sent, sent_of
from headgate.app.transport.scopes import ServedScope
from headgate.app.wire.credentials import COOKIE, SUBPROTOCOL, TICKET

_COOKIE = re.compile(rb'(?:^|;)[ \t]*%b="?([^";\s]*)' % COOKIE.encode())
"""Finds the cookie. A parser of all cookies would undo their quotes, which takes 8 s for 64 KiB."""


def access_of_request(auth: Authenticator, scope: Scope, sent: Sent, needs: Needs) -> Access:
    """Put the caller's access into the request's scope, once its rights and rate allow that.

    A refused request counts as one, too. Raises Unauthenticated for a bad or missing credential,
    Forbidden without any right of this kind, and RateLimited.
    """
    if needs.is_open:
        scope["access"] = access = auth.anonymous()
        return access
    value = None if auth.is_open else sent.get(b"authorization")
    if value is None:
        access = _without_header(auth, scope, sent, needs)
    else:
        serve(ServedScope(scope))
        access = auth.by_header(value)
    scope["access"] = access
    if access.usage.is_rated:
        access.usage.charge(requests=1, size_bytes=0)
    if needs.verbs.isdisjoint(access.principal.verbs) and not auth.is_open:
        auth.check(access, needs)
    return access


def _without_header(auth: Authenticator, scope: Scope, sent: Sent, needs: Needs) -> Access:
    served = ServedScope(scope)
    if auth.is_open:
        return auth.anonymous(served)
    serve(served)
    by_url = _by_url(auth, scope, sent.get(b"cookie")) if needs.by_url else None
    return by_url or auth.anonymous(served)


def access_of_handshake(auth: Authenticator, scope: Scope) -> Access | None:
    """Return a WebSocket's access, or None without a credential; raises Unauthenticated."""
    if auth.is_open:
        return None
    serve(ServedScope(scope))
    sent = sent_of(scope)
    value = sent.get(b"authorization")
    if value is not None:
        return auth.by_header(value)
    token = _offered(scope.get("subprotocols", ()))
    if token is not None:
        return auth.by_token(token)
    return _by_url(auth, scope, sent.get(b"cookie"))


def _offered(subprotocols: Iterable[str]) -> str | None:
    return next(
        (
            offered.removeprefix(SUBPROTOCOL)
            for offered in subprotocols
            if offered.startswith(SUBPROTOCOL)
        ),
        None,
    )


def _by_url(auth: Authenticator, scope: Scope, cookies: bytes | None) -> Access | None:
    query: bytes = scope["query_string"]
    if query:
        ticket = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)).get(TICKET)
        if ticket is not None:
            return auth.by_ticket(ticket)
    if cookies is not None:
        match = _COOKIE.search(cookies)
        if match is not None:
            return auth.by_token(match[1].decode("latin-1"))
    return None
