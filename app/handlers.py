"""Handlers: how HTTP says a problem, and which errors are one."""

import logging
import uuid
from contextlib import suppress

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from app.dependencies import gateway_of
from app.operation import path_of
from app.problems import (
    Code,
    GatewayError,
    Problem,
    make_problem,
    problem_of,
    validation_problem,
)
from engine.errors import StreamError, Unavailable

log = logging.getLogger("headgate")

_CODE_OF_STATUS: dict[int, Code] = {
    400: "malformed",
    404: "not_found",
    405: "method_not_allowed",
}


def problem_response(problem: Problem) -> Response:
    """Return the HTTP answer of a problem."""
    headers = {}
    if problem.retry_after_ms is not None:
        headers["Retry-After"] = str(-(-problem.retry_after_ms // 1000))
    if problem.last_id is not None and problem.status == 412:
        headers["ETag"] = f'"{problem.last_id}"'
    return Response(
        problem.model_dump_json(exclude_none=True),
        problem.status,
        headers,
        media_type="application/problem+json",
    )


def install(app: FastAPI) -> None:
    """Make an app answer every error with a problem."""

    @app.exception_handler(StreamError)
    async def refuse_by_state(request: Request, error: Exception) -> Response:
        # A problem tells of the state as an answer does, so it must not tell what a crash may undo.
        with suppress(Unavailable):
            await gateway_of(request).backend.wait_durable()
        return problem_response(problem_of(error, path_of(request.scope)))

    @app.exception_handler(GatewayError)
    async def refuse(request: Request, error: Exception) -> Response:
        return problem_response(problem_of(error, path_of(request.scope)))

    @app.exception_handler(RequestValidationError)
    async def refuse_parts(request: Request, error: RequestValidationError) -> Response:
        return problem_response(validation_problem(list(error.errors()), path_of(request.scope)))

    @app.exception_handler(HTTPException)
    async def refuse_route(request: Request, error: HTTPException) -> Response:
        path = path_of(request.scope)
        code = _CODE_OF_STATUS.get(error.status_code, "malformed")
        detail = f"{request.method} {path}: {error.detail}"
        response = problem_response(make_problem(code, detail, path))
        response.headers.update(error.headers or {})
        if error.status_code == 405:
            response.headers["Allow"] = _allowed_methods(request)
        return response

    @app.exception_handler(ClientDisconnect)
    async def nobody_there(request: Request, error: ClientDisconnect) -> Response:
        del request, error
        return Response(status_code=499)  # nobody reads it; the number is for the metrics

    @app.exception_handler(Exception)
    async def fail(request: Request, error: Exception) -> Response:
        incident = uuid.uuid4().hex
        log.error(
            "request failed",
            exc_info=error,
            extra={"incident": incident, "path": path_of(request.scope)},
        )
        detail = f"The gateway failed. Its log says why, under incident {incident}."
        return problem_response(make_problem("internal", detail, path_of(request.scope)))


def _allowed_methods(request: Request) -> str:
    """Return what the path can be asked; the framework tells it of one route, and we have many."""
    allowed: set[str] = set()
    for route in iter_route_contexts(request.app.routes):
        if route.methods and route.matches(request.scope)[0] is not Match.NONE:
            allowed |= route.methods
    return ", ".join(sorted(allowed))
