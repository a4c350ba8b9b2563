"""Answer errors with problems."""

import logging
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from headgate.app.runtime.periodic import is_shortage
from headgate.app.transport.scopes import path_of, request_id_of
from headgate.app.wire.name_rule import NO_SLASH
from headgate.app.wire.problems import (
    Code,
    GatewayError,
    Problem,
    make_problem,
    problem_of,
    title_of,
    validation_problem,
)
from headgate.engine.errors import NotLeader, StreamError, Unavailable

log = logging.getLogger("headgate")

Handlers = dict[Any, Callable[..., Any]]
"""Handlers of an app, by the kind of an error."""

_SHORT = (
    "the gateway cannot get a thread, a file descriptor or memory at the moment; a request that "
    "changes data may have been carried out"
)

_READINESS = "/readyz"
"""A load balancer looks there, and must not be sent elsewhere."""

_NAMED = ("/v1/streams/", "/v1/channels/", "/v1/schedules/")
"""A name with a slash below these is read as more segments than an operation has."""

_CODE_OF_STATUS: dict[int, Code] = {
    400: "malformed",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
}


def problem_response(problem: Problem, scope: Scope) -> Response:
    problem.request_id = request_id_of(scope)
    headers = {}
    if problem.retry_after_ms is not None:
        headers["Retry-After"] = str(-(-problem.retry_after_ms // 1000))
    if problem.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="headgate"'
    if problem.last_id is not None and problem.status == 412:
        headers["ETag"] = f'"{problem.last_id}"'
    return Response(
        problem.model_dump_json(exclude_none=True),
        problem.status,
        headers,
        media_type="application/problem+json",
    )


async def refuse(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request or a handshake, as a middleware that lets it go no further."""
    if scope["type"] == "websocket":
        await receive()  # the answer to the handshake is that of HTTP
    await problem_response(problem, scope)(scope, receive, send)


async def _refuse(request: Request, error: Exception) -> Response:
    leader = error.leader if isinstance(error, NotLeader) else ""
    path = path_of(request.scope)
    if leader and path != _READINESS and request.app.state.settings.standby_redirect:
        query = f"?{request.url.query}" if request.url.query else ""
        place = f"{leader.rstrip('/')}{path}{query}"
        return Response(status_code=307, headers={"Location": place})
    return problem_response(problem_of(error, path_of(request.scope)), request.scope)


async def _refuse_parts(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problem = validation_problem(list(error.errors()), path_of(request.scope))
    return problem_response(problem, request.scope)


async def _refuse_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = path_of(request.scope)
    status = error.status_code
    code = _CODE_OF_STATUS.get(status, "malformed" if status < 500 else "internal")
    detail = f"{request.method} {path}: {error.detail}"
    if status == 404 and path.startswith(_NAMED):
        detail += f". There is no such operation; {NO_SLASH}, not even as `%2F`."
    problem = make_problem(code, detail, path)
    problem.status, problem.title = status, title_of(status)
    response = problem_response(problem, request.scope)
    response.headers.update(error.headers or {})
    if error.status_code == 405:
        response.headers["Allow"] = _allowed_methods(request)
    return response


async def _nobody_there(request: Request, error: Exception) -> Response:
    del request, error
    return Response(status_code=499)  # nobody reads it; the number is for the metrics


async def _fail(request: Request, error: Exception) -> Response:
    if is_shortage(error):
        log.warning("request refused", extra={"reason": str(error) or type(error).__name__})
        return await _refuse(request, Unavailable(_SHORT))
    incident = uuid.uuid4().hex
    path = path_of(request.scope)
    facts = {"incident": incident, "path": path, "request_id": request_id_of(request.scope)}
    log.error("request failed", exc_info=error, extra=facts)
    detail = f"The gateway failed. Its log has the details under incident {incident}."
    return problem_response(make_problem("internal", detail, path), request.scope)


_HANDLERS: dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
    StreamError: _refuse,
    GatewayError: _refuse,
    RequestValidationError: _refuse_parts,
    HTTPException: _refuse_route,
    ClientDisconnect: _nobody_there,
    Exception: _fail,
}


def install(app: FastAPI) -> None:
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)


async def answer_to(connection: HTTPConnection, error: Exception) -> Response | None:
    """Return the answer of its app's handler to a failed request; without one, raise the error."""
    handlers: Handlers = connection.app.exception_handlers
    kind = next((kind for kind in type(error).__mro__ if kind in handlers), None)
    if kind is None or connection.scope["type"] != "http":
        raise error
    answer: Response | None = await handlers[kind](connection, error)
    return answer


def _allowed_methods(request: Request) -> str:
    """Return the methods of a path; the framework knows those of one route only."""
    allowed: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            allowed |= route.methods or set()
    return ", ".join(sorted(allowed))
