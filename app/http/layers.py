"""Layers: what a request passes through.

From the outside in:

1. what `add_middleware` has added, as in any app of FastAPI,
2. the gateway's own layers, in front of everything,
3. `Dispatch`, which answers operations,
4. the gateway's own layers behind it, for requests without an operation,
5. the router of FastAPI: the document, its pages, other sockets, and the 404s.
"""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.app.http.dispatch import Dispatch
from headgate.app.http.handlers import answer_to, answer_to_failure
from headgate.app.http.parameters import Unsupported
from headgate.engine.eager import own_task


def put_together(
    app: FastAPI, *, in_front: Sequence[Middleware] = (), behind: Sequence[Middleware] = ()
) -> None:
    """Complete an app: its operations are answered by `Dispatch`, and `add_middleware` refuses.

    Args:
        app: with all its routes.
        in_front: layers of all requests, the outermost first.
        behind: layers of requests for which there is no operation, the outermost first.

    Raises:
        Unsupported: the app, or one of its operations, uses something that is not run here.
    """
    if app.max_body_size is not None:
        raise Unsupported("the app has a bound of its own for bodies: see `body_bytes_max`")
    if app.debug:
        raise Unsupported("the app is in debug mode: the log says why a request has failed")
    handlers: Any = {HTTPException: answer_to, Exception: answer_to}
    inner = ExceptionMiddleware(AsyncExitStackMiddleware(app.router), handlers)
    dispatch = Dispatch(app, _wrapped(inner, behind))
    stack = _wrapped(dispatch, in_front)
    if app.user_middleware:
        stack = _wrapped(stack, app.user_middleware)
        fail: Any = answer_to_failure
        stack = _InTask(ServerErrorMiddleware(stack, fail))
    app.middleware_stack = stack


def _wrapped(app: ASGIApp, layers: Sequence[Middleware]) -> ASGIApp:
    for layer, args, kwargs in reversed(layers):
        app = layer(app, *args, **kwargs)
    return app


class _InTask:
    """Runs an app in a task: a layer that is not ours may need one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await own_task()
        await self._app(scope, receive, send)
