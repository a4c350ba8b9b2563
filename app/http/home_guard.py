"""A gateway without credentials serves its own machine only, also behind a proxy.

Such a gateway listens on loopback, so clients of other machines reach it only through a proxy on
this one. If the proxy is trusted, it tells their addresses.
"""

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.app.http.handlers import refuse
from headgate.app.transport.proxies import is_remote
from headgate.app.transport.scopes import path_of
from headgate.app.wire.problems import make_problem

_REFUSAL = (
    "This gateway has no keys, so it accepts requests from its own machine only. Create a key "
    "there: `headgate keys add`."
)


class HomeGuard:
    """ASGI middleware that refuses clients of other machines while there are no credentials."""

    def __init__(self, app: ASGIApp, *, is_open: Callable[[], bool]) -> None:
        """Guard `app`; `is_open` tells whether everybody may do everything."""
        self._app = app
        self._is_open = is_open

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        is_asked = scope["type"] in {"http", "websocket"}
        if not is_asked or not self._is_open() or not is_remote(scope):
            return self._app(scope, receive, send)
        problem = make_problem("unauthenticated", _REFUSAL, path_of(scope))
        return refuse(problem, scope, receive, send)
