"""Layers: what a request passes through.

From the outside in:

1. the gateway's own layers, in front of everything,
2. `Dispatch`, which answers operations,
3. the gateway's own layers behind it, for requests without an operation,
4. the router of FastAPI: the document, its pages, other sockets, and the 404s.
"""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.types import ASGIApp

from headgate.app.http.dispatch import Dispatch
from headgate.app.http.handlers import answer_to
from headgate.app.http.parameters import Unsupported


def put_together(
    app: FastAPI, *, in_front: Sequence[Middleware] = (), behind: Sequence[Middleware] = ()
) -> None:
    """Complete an app: its operations are answered by `Dispatch`.

    Args:
        app: with all its routes.
        in_front: layers of all requests, the outermost first.
        behind: layers of requests for which there is no operation, the outermost first.

    Raises:
        Unsupported: the app, or one of its operations, uses something that is not run here.
    """
    if app.max_body_size is not None or app.debug or app.user_middleware or app.router.dependencies:
        raise Unsupported("an app with a bound, debug mode, middleware or dependencies of its own")
    handlers: Any = {HTTPException: answer_to, Exception: answer_to}
    inner = ExceptionMiddleware(AsyncExitStackMiddleware(app.router), handlers)
    dispatch = Dispatch(app, _wrapped(inner, behind))
    app.middleware_stack = _wrapped(dispatch, in_front)


def _wrapped(app: ASGIApp, layers: Sequence[Middleware]) -> ASGIApp:
    for layer, args, kwargs in reversed(layers):
        app = layer(app, *args, **kwargs)
    return app
